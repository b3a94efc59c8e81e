/* cmd_convert.c - `latentd convert`: a Llama checkpoint as a latent-attention model. */
#include "base/progress.h"
#include "model/convert.h"
#include "server/commands.h"

#include <stdio.h>
#include <stdlib.h>

struct convert_options {
    int form;
};

/* In the order of enum convert_form. */
static const struct option_row rows[] = {
    { "to", OPTION_CHOICE(struct convert_options, form), .choices = "mla_rope mlra gqa", .value = "KIND",
      .required = 1, .help = "what the model becomes" },
};

const struct option_table cmd_convert_options = {
    .command = "convert",
    .help = "rewrite a Llama checkpoint as a latent-attention model, exactly",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .arguments = "LLAMA-DIR OUT",
    .min_arguments = 2,
    .max_arguments = 2,
    .notes = "mla_rope  one latent of all keys and values, RoPE on the decompressed keys\n"
             "mlra      one latent per KV head, block-diagonal, which devices share out\n"
             "gqa       the same model as grouped-query attention, to compare with\n"
             "OUT is made if need be and must hold no model.\n",
    .family = command_tables,
};

static void report(void *context, size_t done, size_t total)
{
    progress_update(context, done, total);
}

int cmd_convert(int argc, char **argv)
{
    struct convert_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_convert_options, argc, argv, &values);
    if (done >= 0)
        return done;
    const char *to = options_argument(options, 1);
    char what[300];
    snprintf(what, sizeof what, "writing %s", to);
    struct progress progress;
    progress_start(&progress, what);
    struct convert_job job = {
        .form = (enum convert_form)values.form, .from = options_argument(options, 0), .to = to,
        .progress = report, .context = &progress,
    };
    struct error err;
    enum status s = convert_model(&job, &err);
    progress_end(&progress);
    if (s == STATUS_OK)
        printf("%s written; `latentd inspect %s` tells what it is\n", to, to);
    else
        fprintf(stderr, "latentd convert: %s\n", err.text);
    options_destroy(options);
    return s == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
