#include "model/synth.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A row says only what differs from "unset"; 0 stands for unset here. */
struct preset {
    const char *name, *kind;
    int layers, hidden, heads, intermediate, vocab, max_positions, tied;
    int latent, query_latent, nope_dim, rope_dim;       /* the latent kinds with decoupled RoPE */
    int latents, head_dim, kv_heads;                    /* the others */
};

/* The 2.9 billion of the MLRA paper: equal but for the width of the MLP, and of
 * the query latent of MLA. */
#define PAPER(name_, kind_, query_, intermediate_)                                                  \
    { .name = name_, .kind = kind_, .layers = 24, .hidden = 3072, .heads = 24,                      \
      .intermediate = intermediate_, .vocab = 50304, .max_positions = 2048, .tied = 1,              \
      .latent = 512, .query_latent = query_, .nope_dim = 128, .rope_dim = 64 }
#define PAPER_PLAIN(name_, kind_, intermediate_, kv_heads_)                                         \
    { .name = name_, .kind = kind_, .layers = 24, .hidden = 3072, .heads = 24,                      \
      .intermediate = intermediate_, .vocab = 50304, .max_positions = 2048, .tied = 1,              \
      .head_dim = 128, .kv_heads = kv_heads_ }

/* The seeds at the default size of the library they come from. */
#define SEED(name_, kind_)                                                                          \
    .name = name_, .kind = kind_, .layers = 12, .hidden = 2048, .heads = 16, .intermediate = 4096,  \
    .vocab = 50000, .max_positions = 2048

static const struct preset presets[] = {
    PAPER("paper-mla", "mla_paper", 1536, 9448),
    PAPER("paper-mlra-2", "mlra_2", 1024, 10048),
    PAPER("paper-mlra-4", "mlra_4", 1024, 9880),
    PAPER("paper-gla-2", "gla_2", 1024, 10048),
    PAPER("paper-gla-4", "gla_4", 1024, 10136),
    PAPER_PLAIN("paper-gqa", "gqa", 9728, 6),
    PAPER_PLAIN("paper-mha", "mha", 8192, 0),
    { SEED("seed-mla-rope", "mla_rope"), .latent = 1024 },
    { SEED("seed-mlra", "mlra"), .latent = 1024, .latents = 4 },
    { SEED("seed-mla", "mla"), .latent = 512, .query_latent = 1024, .rope_dim = 64 },
    { SEED("seed-cca", "cca"), .latent = 512 },
    { SEED("seed-ccgqa", "ccgqa"), .latent = 256, .query_latent = 1024, .kv_heads = 4 },
    /* Attention as wide as DeepSeek-V2-Lite's, with a dense MLP: 0.9 billion. */
    { .name = "dsv2-0.9b", .kind = "mla_paper", .layers = 16, .hidden = 2048, .heads = 16,
      .intermediate = 5632, .vocab = 32000, .max_positions = 4096,
      .latent = 512, .query_latent = 768, .nope_dim = 128, .rope_dim = 64 },
};
#define N_PRESETS (sizeof presets / sizeof presets[0])

const char *synth_preset_name(int i)
{
    return i >= 0 && (size_t)i < N_PRESETS ? presets[i].name : NULL;
}

static void take(int *value, int from)
{
    if (*value == SYNTH_UNSET && from > 0)
        *value = from;
}

static void apply(const struct preset *p, struct synth_spec *spec)
{
    struct synth_parameters *a = &spec->attention;
    spec->kind = p->kind;
    take(&spec->layers, p->layers);
    take(&spec->hidden, p->hidden);
    take(&spec->heads, p->heads);
    take(&spec->intermediate, p->intermediate);
    take(&spec->vocab, p->vocab);
    take(&spec->max_positions, p->max_positions);
    take(&spec->tied, p->tied);
    take(&a->latent, p->latent);
    take(&a->query_latent, p->query_latent);
    take(&a->nope_dim, p->nope_dim);
    take(&a->rope_dim, p->rope_dim);
    take(&a->latents, p->latents);
    take(&a->head_dim, p->head_dim);
    take(&a->kv_heads, p->kv_heads);
}

enum status synth_preset(const char *name, struct synth_spec *spec, struct error *err)
{
    char list[400];
    int at = 0;
    for (size_t i = 0; i < N_PRESETS; i++) {
        const struct preset *p = &presets[i];
        at += snprintf(list + at, sizeof list - (size_t)at, "%s%s", i > 0 ? ", " : "", p->name);
        if (strcmp(p->name, name) != 0)
            continue;
        if (spec->kind != NULL && strcmp(spec->kind, p->kind) != 0)
            return fail(err, STATUS_BAD_OPTION, "preset %s is of kind %s, not %.40s", p->name, p->kind,
                        spec->kind);
        apply(p, spec);
        return STATUS_OK;
    }
    return fail(err, STATUS_BAD_OPTION, "preset '%.40s' is not one of %s", name, list);
}
