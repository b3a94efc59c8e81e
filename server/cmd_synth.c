/* cmd_synth.c - `latentd synth`: a random-weight model directory of a given shape. */
#include "base/progress.h"
#include "model/byte_tokenizer.h"
#include "model/synth.h"
#include "server/commands.h"

#include <stdio.h>
#include <stdlib.h>

struct synth_options {
    struct synth_spec spec;
    const char *kind;
    const char *preset;
    const char *dir;
    int dtype;
};

static const char dtype_choices[] = "f32 bf16";
static const enum dtype dtypes[] = { DTYPE_F32, DTYPE_BF16 };

static const struct option_row rows[] = {
    { "out", OPTION_PATH(struct synth_options, dir), .value = "DIR", .required = 1,
      .help = "directory to write; it is made if need be and must hold no model" },
    { "preset", OPTION_STRING(struct synth_options, preset), .fallback = "", .value = "NAME",
      .help = "a known shape, listed below; other options change it" },
    { "kind", OPTION_STRING(struct synth_options, kind), .fallback = "", .value = "KIND",
      .help = "mla mla_rope mlra cca ccgqa mla_paper mlra_2 mlra_4 gla_2 gla_4 gqa mha" },
    { "dtype", OPTION_CHOICE(struct synth_options, dtype), .fallback = "bf16", .choices = dtype_choices,
      .help = "type of the stored numbers" },
    { "seed", OPTION_INT(struct synth_options, spec.seed), .fallback = "0", .min = 0, .max = INT64_MAX,
      .help = "the same seed gives the same bytes" },
    { .heading = "Sizes" },
    { "hidden", OPTION_INT(struct synth_options, spec.hidden), .min = 1, .max = 1 << 16,
      .help = "width of the residual" },
    { "layers", OPTION_INT(struct synth_options, spec.layers), .min = 1, .max = 512,
      .help = "number of layers" },
    { "heads", OPTION_INT(struct synth_options, spec.heads), .min = 1, .max = 256, .help = "query heads" },
    { "intermediate", OPTION_INT(struct synth_options, spec.intermediate), .min = 1, .max = 1 << 20,
      .help = "width of the MLP; 8/3 of hidden if not given" },
    { "vocab", OPTION_INT(struct synth_options, spec.vocab), .min = BYTE_TOKENIZER_MIN, .max = 1 << 20,
      .help = "number of tokens; 32000 if not given" },
    { "max-positions", OPTION_INT(struct synth_options, spec.max_positions), .min = 1, .max = 1 << 24,
      .help = "context length; 2048 if not given" },
    { "tied", OPTION_FLAG(struct synth_options, spec.tied), .help = "the head is the embedding" },
    { .heading = "Attention; what a kind does not have is refused" },
#define X(field, option, from, to, text) \
    { option, OPTION_INT(struct synth_options, spec.attention.field), .min = from, .max = to, .help = text },
    SYNTH_NUMBER_MAP(X)
#undef X
#define X(field, option, text) \
    { option, OPTION_FLAG(struct synth_options, spec.attention.field), .help = text },
    SYNTH_FLAG_MAP(X)
#undef X
    { "rope-base", OPTION_DOUBLE(struct synth_options, spec.attention.rope_base), .low = 1, .high = 1e12,
      .help = "base of the rotary angles; 10000 if not given" },
};

const struct option_table cmd_synth_options = {
    .command = "synth",
    .help = "write a random-weight model of a given shape, for benchmarks",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "Presets:\n"
             "  paper-mla paper-mlra-2 paper-mlra-4 paper-gla-2 paper-gla-4 paper-gqa paper-mha\n"
             "                 the 2.9 billion of the MLRA paper\n"
             "  seed-mla-rope seed-mlra seed-mla seed-cca seed-ccgqa\n"
             "                 12 layers of width 2048 with 16 heads\n"
             "  dsv2-0.9b      attention of DeepSeek-V2-Lite's widths, 16 layers, dense MLP\n",
    .family = command_tables,
};

static void report(void *context, size_t done, size_t total)
{
    progress_update(context, done, total);
}

static enum status settle(struct synth_options *o, struct error *err)
{
    o->spec.dtype = dtypes[o->dtype];
    o->spec.kind = *o->kind != '\0' ? o->kind : NULL;
    if (*o->preset != '\0')
        TRY(synth_preset(o->preset, &o->spec, err));
    return synth_complete(&o->spec, err);
}

static enum status write_model(const struct synth_options *o, struct error *err)
{
    char what[300];
    snprintf(what, sizeof what, "writing %s", o->dir);
    struct progress progress;
    progress_start(&progress, what);
    struct synth_output output = { .dir = o->dir, .progress = report, .context = &progress };
    enum status s = synth_write(&o->spec, &output, err);
    progress_end(&progress);
    return s;
}

int cmd_synth(int argc, char **argv)
{
    struct synth_options values = { 0 };
    synth_spec_init(&values.spec);
    struct options *options;
    int done = options_begin(&options, &cmd_synth_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err;
    enum status s = settle(&values, &err);
    if (s == STATUS_OK)
        s = write_model(&values, &err);
    int code = s == STATUS_OK ? EXIT_SUCCESS : s == STATUS_BAD_OPTION ? EXIT_USAGE : EXIT_FAILURE;
    if (s == STATUS_OK)
        printf("%s: %s, %d layers, hidden %d, vocabulary %d; `latentd inspect` tells the rest\n", values.dir,
               values.spec.kind, values.spec.layers, values.spec.hidden, values.spec.vocab);
    else
        fprintf(stderr, "latentd synth: %s\n", err.text);
    options_destroy(options);
    return code;
}
