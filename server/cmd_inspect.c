/* cmd_inspect.c - `latentd inspect`: what a checkpoint is, as a table or as JSON. */
#include "model/inspect.h"
#include "server/commands.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct inspect_options {
    int json;
};

static const struct option_row rows[] = {
    { "json", OPTION_FLAG(struct inspect_options, json), .fallback = "off",
      .help = "one JSON object instead of tables" },
};

const struct option_table cmd_inspect_options = {
    .command = "inspect",
    .help = "what a checkpoint is: formulation, sizes, cache per token and device",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .notes = "Bytes are of one token in all layers. A latent that several devices hold is counted on each;\n"
             "with `serve --mla-cache by-chunk` they share the positions of one copy.\n",
    .family = command_tables,
};

static const char *rope_name(enum rope_scheme scheme)
{
    switch (scheme) {
    case ROPE_NONE:         return "none";
    case ROPE_DECOUPLED:    return "decoupled";
    case ROPE_DECOMPRESSED: return "decompressed";
    case ROPE_HEAD:         return "head";
    }
    return "";
}

static const char *pairing_name(const struct attention_config *c)
{
    return c->pairing == ROPE_HALF ? "half" : "interleaved";
}

static int caches_latents(const struct attention_config *c)
{
    return c->kind != ATTENTION_CCA && c->kind != ATTENTION_GQA;
}

/* "BF16, F32" */
static void type_names(const struct inspection *in, char out[64])
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned type = 0; type < N_DTYPES; type++)
        if ((in->weight_types >> type & 1u) != 0 && len < 56)
            len += (size_t)snprintf(out + len, 64 - len, "%s%s", len > 0 ? ", " : "",
                                    dtype_name((enum dtype)type));
}

/* "2 873 220 096": groups of three digits. */
static const char *grouped(int64_t n, char out[32])
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ' ';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* ---- the tables ---- */

static void print_attention(const struct attention_config *c)
{
    printf("formulation     %s%s%s\n", c->label, c->bitnet ? ", BitLinear projections" : "",
           c->gated ? ", gated output" : "");
    printf("heads           %d of width %d", c->n_heads, c->nope_dim + c->rope_dim);
    if (c->rope_dim > 0)
        printf(" (%d without position, %d rotated)", c->nope_dim, c->rope_dim);
    if (c->value_dim != c->nope_dim + c->rope_dim)
        printf(", values of %d", c->value_dim);
    if (c->n_kv_heads != c->n_heads)
        printf(", %d KV heads", c->n_kv_heads);
    printf("\n");
    if (caches_latents(c))
        printf("latents         %d of width %d%s%s\n", c->n_latents, c->latent_dim,
               c->latent_norm ? ", normed" : "", c->n_branches == 4 ? ", four branches a head"
               : c->n_branches == 2 ? ", two branches a head" : "");
    if (c->query_latent_dim > 0)
        printf("query latent    %d%s\n", c->query_latent_dim, c->query_norm ? ", normed" : "");
    if (c->kind == ATTENTION_CCA)
        printf("convolutions    %d, kernels %d and %d%s%s\n", c->n_conv, c->conv_kernel_seq,
               c->conv_kernel_ch, c->qk_mean ? ", q-k mean" : "", c->value_shift ? ", value shift" : "");
    if (c->rope == ROPE_NONE)
        printf("RoPE            none\n");
    else
        printf("RoPE            %s, %s pairs, base %g\n", rope_name(c->rope), pairing_name(c), c->rope_base);
}

static void print_parameters(const struct inspection *in)
{
    const struct inspect_parameters *p = &in->parameters;
    char number[32], types[64];
    const struct { const char *name; int64_t n; } parts[] = {
        { "  attention", p->attention }, { "  MLP", p->mlp }, { "  embedding", p->embedding },
        { "  head", p->head }, { "  norms", p->norms },
    };
    printf("parameters      %15s\n", grouped(p->total, number));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].n > 0)
            printf("%-15s %15s  %5.1f %%\n", parts[i].name, grouped(parts[i].n, number),
                   100.0 * (double)parts[i].n / (double)p->total);
    type_names(in, types);
    printf("weights         %15s bytes, %s%s\n", grouped(in->weight_bytes, number), types,
           p->head == 0 ? ", head tied to the embedding" : "");
}

/* One line of the table; by chunk, all devices together hold one copy. */
static void print_cache_row(int n_ranks, const char *how, int64_t elements, const int64_t *per_device,
                            const int64_t *total)
{
    printf("%3d %-9s %10" PRId64 "  |", n_ranks, how, elements);
    for (int type = 0; type < INSPECT_CACHE_TYPES; type++)
        printf("%s%8" PRId64, type > 0 ? "  " : "", per_device[type]);
    printf("  |");
    for (int type = 0; type < INSPECT_CACHE_TYPES; type++)
        printf("%s%8" PRId64, type > 0 ? "  " : "", total[type]);
    printf("\n");
}

static void print_cache(const struct inspection *in)
{
    printf("\nCache of one token, all layers\n"
           "                elements  |  bytes per device            |  bytes on all devices\n"
           "devices       per device  |     f32      bf16      int8  |     f32      bf16      int8\n");
    for (int i = 0; i < INSPECT_DEGREES; i++) {
        const struct inspect_degree *d = &in->degrees[i];
        if (!d->is_valid) {
            printf("%3d           not valid  |                              |\n", d->n_ranks);
            continue;
        }
        print_cache_row(d->n_ranks, "", d->elements_per_device, d->bytes_per_device, d->bytes_total);
        if (d->may_shard_by_chunk)
            print_cache_row(d->n_ranks, "by chunk", d->by_chunk_elements_per_device,
                            d->by_chunk_bytes_per_device, in->degrees[0].bytes_total);
    }
    if (in->degrees[0].state_bytes_per_device > 0)
        printf("and %" PRId64 " bytes of state for each sequence (one device)\n",
               in->degrees[0].state_bytes_per_device);
    printf("valid degrees   ");
    for (int i = 0; i < in->n_valid_degrees; i++)
        printf("%s%d", i > 0 ? ", " : "", in->valid_degrees[i]);
    printf(" (of 1 to %d)\n", INSPECT_MAX_DEGREE);
}

static void print_tables(const char *dir, const struct inspection *in)
{
    const struct model_config *c = &in->config;
    printf("model           %s\n", dir);
    print_attention(&c->attention);
    printf("sizes           %d layers, hidden %d, MLP %d, vocabulary %d, context %d\n", c->n_layers,
           c->hidden, c->intermediate, c->vocab, c->max_positions);
    print_parameters(in);
    print_cache(in);
}

/* ---- JSON ---- */

static json_t *attention_json(const struct attention_config *c)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:b, s:b, s:b}",
                     "formulation", c->label, "heads", c->n_heads, "kv_heads", c->n_kv_heads,
                     "nope_dim", c->nope_dim, "rope_dim", c->rope_dim, "value_dim", c->value_dim,
                     "latents", caches_latents(c) ? c->n_latents : 0,
                     "latent_dim", caches_latents(c) ? c->latent_dim : 0,
                     "query_latent_dim", c->query_latent_dim, "branches", c->n_branches,
                     "rope", rope_name(c->rope), "rope_pairing", pairing_name(c), "rope_base", c->rope_base,
                     "gated", c->gated, "bitnet", c->bitnet, "causal", c->causal);
}

static json_t *parameters_json(const struct inspect_parameters *p)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)p->total,
                     "attention", (json_int_t)p->attention, "mlp", (json_int_t)p->mlp,
                     "embedding", (json_int_t)p->embedding, "head", (json_int_t)p->head,
                     "norms", (json_int_t)p->norms);
}

static json_t *bytes_json(const int64_t bytes[INSPECT_CACHE_TYPES])
{
    json_t *object = json_object();
    for (int type = 0; type < INSPECT_CACHE_TYPES; type++)
        json_object_set_new(object, cache_type_name((enum cache_type)type), json_integer(bytes[type]));
    return object;
}

static json_t *degree_json(const struct inspect_degree *d)
{
    if (!d->is_valid)
        return json_pack("{s:i, s:b}", "devices", d->n_ranks, "valid", 0);
    json_t *object = json_pack("{s:i, s:b, s:I, s:o, s:o, s:I}", "devices", d->n_ranks, "valid", 1,
                               "elements_per_device", (json_int_t)d->elements_per_device,
                               "bytes_per_device", bytes_json(d->bytes_per_device),
                               "bytes_total", bytes_json(d->bytes_total),
                               "state_bytes_per_sequence_and_device", (json_int_t)d->state_bytes_per_device);
    if (d->may_shard_by_chunk)
        json_object_set_new(object, "by_chunk_bytes_per_device", bytes_json(d->by_chunk_bytes_per_device));
    return object;
}

static json_t *inspection_json(const char *dir, const struct inspection *in)
{
    const struct model_config *c = &in->config;
    char types[64];
    type_names(in, types);
    json_t *cache = json_array(), *valid = json_array();
    for (int i = 0; i < INSPECT_DEGREES; i++)
        json_array_append_new(cache, degree_json(&in->degrees[i]));
    for (int i = 0; i < in->n_valid_degrees; i++)
        json_array_append_new(valid, json_integer(in->valid_degrees[i]));
    return json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:o, s:I, s:s, s:o, s:o}", "model", dir,
                     "attention", attention_json(&c->attention), "layers", c->n_layers, "hidden", c->hidden,
                     "intermediate", c->intermediate, "vocabulary", c->vocab,
                     "max_positions", c->max_positions, "parameters", parameters_json(&in->parameters),
                     "weight_bytes", (json_int_t)in->weight_bytes,
                     "weight_types", types, "cache_per_token", cache, "valid_degrees", valid);
}

static int print_json(const char *dir, const struct inspection *in)
{
    json_t *json = inspection_json(dir, in);
    if (json == NULL || json_dumpf(json, stdout, JSON_INDENT(2)) != 0) {
        fprintf(stderr, "latentd inspect: the name of the model is not UTF-8, so it has no JSON form\n");
        json_decref(json);
        return EXIT_FAILURE;
    }
    printf("\n");
    json_decref(json);
    return EXIT_SUCCESS;
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_inspect_options, argc, argv, &values);
    if (done >= 0)
        return done;
    const char *dir = options_argument(options, 0);
    struct inspection in;
    struct error err;
    int code = EXIT_SUCCESS;
    if (inspect_model(dir, &in, &err) != STATUS_OK) {
        fprintf(stderr, "latentd inspect: %s\n", err.text);
        code = EXIT_FAILURE;
    } else if (values.json) {
        code = print_json(dir, &in);
    } else {
        print_tables(dir, &in);
    }
    options_destroy(options);
    return code;
}
