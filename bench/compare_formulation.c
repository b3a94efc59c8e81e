#include "bench/compare_formulation.h"

#include "model/attention_json.h"
#include "model/model_config.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

/* A contender of a preset: the shape of the model, and the attention object
 * that a config.json of it would hold. */
struct preset_row {
    const char *preset, *name, *kind;
    int by_chunk, hidden, heads, layers, intermediate, vocab;
    const char *json;
    int replicated_output;
};

#define PAPER(name_, kind_, chunk_, intermediate_, json_) \
    { "paper", name_, kind_, chunk_, 3072, 24, 24, intermediate_, 50304, json_, 0 }
/* The kernel setting says nothing about the rest of the model: hidden is the
 * heads' width, the MLP a Llama's. */
#define PAPER_64(name_, kind_, chunk_, json_) \
    { "paper-64", name_, kind_, chunk_, 8192, 64, 24, 21760, 50304, json_, 0 }
#define REPLICATED(name_, kind_, intermediate_) \
    { "paper", name_, kind_, 0, 3072, 24, 24, intermediate_, 50304, LATENTS(1024), 1 }
#define SEED(name_, kind_, chunk_, json_) { "seed", name_, kind_, chunk_, 2048, 16, 12, 4096, 50000, json_, 0 }

#define LATENTS(query_) \
    "{\"q_lora_rank\":" #query_ ",\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64}"
#define SEED_MLA "{\"d_c\":512,\"d_c1\":1024,\"d_rotate\":64}"

static const struct preset_row rows[] = {
    PAPER("mla", "mla_paper", 0, 9448, LATENTS(1536)),
    PAPER("mla-by-chunk", "mla_paper", 1, 9448, LATENTS(1536)),
    PAPER("gla-2", "gla_2", 0, 10048, LATENTS(1024)),
    PAPER("gla-4", "gla_4", 0, 10136, LATENTS(1024)),
    PAPER("mlra-2", "mlra_2", 0, 10048, LATENTS(1024)),
    PAPER("mlra-4", "mlra_4", 0, 9880, LATENTS(1024)),
    REPLICATED("mlra-2-replicated", "mlra_2", 10048),
    REPLICATED("mlra-4-replicated", "mlra_4", 9880),
    PAPER("mlra", "mlra", 0, 9980, "{\"mlra_latent_rank\":512,\"mlra_num_latent_heads\":4}"),
    PAPER("gqa-6", "gqa", 0, 9728, "{\"head_dim\":128,\"num_key_value_heads\":6}"),
    PAPER("gqa-8", "gqa", 0, 9558, "{\"head_dim\":128,\"num_key_value_heads\":8}"),
    PAPER("mha", "mha", 0, 8192, "{\"head_dim\":128}"),
    PAPER_64("mla", "mla_paper", 0, LATENTS(1536)),
    PAPER_64("mla-by-chunk", "mla_paper", 1, LATENTS(1536)),
    PAPER_64("gla-2", "gla_2", 0, LATENTS(1024)),
    PAPER_64("gla-4", "gla_4", 0, LATENTS(1024)),
    PAPER_64("mlra-2", "mlra_2", 0, LATENTS(1024)),
    PAPER_64("mlra-4", "mlra_4", 0, LATENTS(1024)),
    PAPER_64("mlra", "mlra", 0, "{\"mlra_latent_rank\":512,\"mlra_num_latent_heads\":4}"),
    PAPER_64("gqa-8", "gqa", 0, "{\"head_dim\":128,\"num_key_value_heads\":8}"),
    PAPER_64("mha", "mha", 0, "{\"head_dim\":128}"),
    SEED("mla-rope", "mla_rope", 0, "{}"),
    SEED("mlra", "mlra", 0, "{}"),
    SEED("mla", "mla", 0, SEED_MLA),
    SEED("mla-by-chunk", "mla", 1, SEED_MLA),
    SEED("cca", "cca", 0, "{}"),
    SEED("ccgqa", "ccgqa", 0, "{}"),
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* Clear the next item; it is in the set when set->n has grown. */
static enum status start_item(struct compare_set *set, const char *name, struct error *err)
{
    if (set->n == COMPARE_MAX_FORMULATIONS)
        return fail(err, STATUS_BAD_OPTION, "at most %d formulations can be compared at once; %s is one too many",
                    COMPARE_MAX_FORMULATIONS, name);
    struct compare_formulation *item = &set->items[set->n];
    *item = (struct compare_formulation){ 0 };
    snprintf(item->name, sizeof item->name, "%s", name);
    return STATUS_OK;
}

static enum status add_row(struct compare_set *set, const struct preset_row *row, struct error *err)
{
    TRY(start_item(set, row->name, err));
    struct compare_formulation *f = &set->items[set->n];
    f->by_chunk = row->by_chunk;
    f->replicated_output = row->replicated_output;
    f->n_layers = row->layers;
    f->intermediate = row->intermediate;
    f->vocab = row->vocab;
    json_t *json = json_loads(row->json, 0, NULL);
    if (json == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the shape of %s", row->name);
    struct json_reader reader = { json, row->preset, STATUS_BAD_MODEL };
    struct attention_defaults defaults = { .hidden = row->hidden, .n_heads = row->heads, .causal = 1 };
    enum status s = attention_from_json(row->kind, &reader, &defaults, &f->attention, err);
    json_decref(json);
    set->n += s == STATUS_OK;
    return s;
}

/* ---- directories ---- */

static int takes_chunks(const struct attention_config *c)
{
    return c->kind == ATTENTION_MLA && c->rope != ROPE_DECOMPRESSED && c->causal && !c->bitnet;
}

static enum status add_model(struct compare_set *set, const char *name, const char *dir, struct error *err)
{
    TRY(start_item(set, name, err));
    struct compare_formulation *f = &set->items[set->n];
    struct safetensors *files;
    TRY(safetensors_open(&files, dir, err));
    struct model_config config;
    enum status s = model_config_load(dir, files, &config, err);
    safetensors_close(files);
    TRY(s);
    f->attention = config.attention;
    f->n_layers = config.n_layers;
    f->intermediate = config.intermediate;
    f->vocab = config.vocab;
    set->n++;
    if (!takes_chunks(&f->attention) || set->n == COMPARE_MAX_FORMULATIONS)
        return STATUS_OK;
    struct compare_formulation *chunked = &set->items[set->n++];
    *chunked = *f;
    chunked->by_chunk = 1;
    snprintf(chunked->name, sizeof chunked->name, "%.28s-by-chunk", name);
    return STATUS_OK;
}

static enum status add_demos(struct compare_set *set, struct error *err)
{
    glob_t found;
    if (glob("models/demo-*", 0, NULL, &found) != 0)
        return fail(err, STATUS_BAD_OPTION, "preset demo: there is no models/demo-* in the working directory; name "
                    "them with --models name=DIR");
    enum status s = STATUS_OK;
    for (size_t i = 0; i < found.gl_pathc && s == STATUS_OK; i++)
        s = add_model(set, found.gl_pathv[i] + strlen("models/demo-"), found.gl_pathv[i], err);
    globfree(&found);
    return s;
}

enum status compare_add_preset(struct compare_set *set, const char *name, struct error *err)
{
    if (strcmp(name, "demo") == 0)
        return add_demos(set, err);
    int found = 0;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].preset, name) != 0)
            continue;
        TRY(add_row(set, &rows[i], err));
        found = 1;
    }
    if (!found)
        return fail(err, STATUS_BAD_OPTION, "preset '%.40s' is not one of paper, paper-64, seed, demo", name);
    return STATUS_OK;
}

enum status compare_add_models(struct compare_set *set, const char *list, struct error *err)
{
    while (*list != '\0') {
        char item[512];
        size_t n = strcspn(list, ",");
        snprintf(item, sizeof item, "%.*s", (int)n, list);
        char *dir = strchr(item, '=');
        if (dir == NULL || dir == item || dir[1] == '\0')
            return fail(err, STATUS_BAD_OPTION, "--models takes name=DIR,name=DIR; '%.60s' is not one", item);
        *dir++ = '\0';
        TRY(add_model(set, item, dir, err));
        list += n + (list[n] == ',');
    }
    return STATUS_OK;
}

/* ---- in words ---- */

static const char *kind_words(const struct attention_config *c)
{
    switch (c->kind) {
    case ATTENTION_MLA:
        return "multi-head latent attention with a decoupled rotary key";
    case ATTENTION_MLA_ROPE:
        return "latent attention with rotary positions on decompressed keys";
    case ATTENTION_MLRA:
        return "block-diagonal MLRA: a head sees one latent";
    case ATTENTION_MLRA_PAPER:
        return c->n_branches == 4 ? "MLRA-4 of the paper: a head sees four latents, in a softmax each"
                                  : "MLRA-2 of the paper: a head sees two of four latents, in a softmax each";
    case ATTENTION_GLA:
        return "grouped latent attention: a head sees the latent of its group";
    case ATTENTION_CCA:
        return "compressed convolutional attention";
    case ATTENTION_GQA:
        return c->n_kv_heads == c->n_heads ? "multi-head attention" : "grouped-query attention";
    }
    return "";
}

void compare_describe(const struct compare_formulation *f, char *out, size_t max)
{
    const struct attention_config *c = &f->attention;
    char cached[80] = "";
    if (c->n_latents > 0 && c->rope_dim > 0)
        snprintf(cached, sizeof cached, "%d x %d, rotary key %d", c->n_latents, c->latent_dim, c->rope_dim);
    else if (c->n_latents > 0)
        snprintf(cached, sizeof cached, "%d x %d", c->n_latents, c->latent_dim);
    else
        snprintf(cached, sizeof cached, "keys and values of %d heads", c->n_kv_heads);
    snprintf(out, max, "%s; hidden %d, %d heads of %d, cached: %s%s%s", kind_words(c), c->hidden, c->n_heads,
             c->value_dim, cached, f->by_chunk ? "; cache sharded by position, not by head" : "",
             f->replicated_output ? "; W_O of all own heads on every device, its all-reduce adds the branches" : "");
}

/* ---- choosing ---- */

int compare_find(const struct compare_set *set, const char *name)
{
    for (int i = 0; i < set->n; i++)
        if (strcmp(set->items[i].name, name) == 0)
            return i;
    return -1;
}

enum status compare_keep(struct compare_set *set, const char *names, struct error *err)
{
    struct compare_set kept = { .n = 0 };
    while (*names != '\0') {
        char name[40];
        size_t n = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        int at = compare_find(set, name);
        if (at < 0) {
            char list[240] = "";
            for (int i = 0; i < set->n; i++)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                         set->items[i].name);
            return fail(err, STATUS_BAD_OPTION, "--formulations: '%s' is not one of %s", name, list);
        }
        if (compare_find(&kept, name) < 0)
            kept.items[kept.n++] = set->items[at];
        names += n + (names[n] == ',');
    }
    *set = kept;
    return STATUS_OK;
}
