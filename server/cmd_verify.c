/* cmd_verify.c - `latentd verify`: golden attention cases and golden models. */
#include "base/file.h"
#include "bench/verify_model.h"
#include "server/commands.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify_options {
    const char *kernels;
};

static const struct option_row rows[] = {
    { "kernels", OPTION_STRING(struct verify_options, kernels), .fallback = "", .value = "NAME",
      .help = "table of kernels: amx, avx512bf16, avx512, avx2, ref; the fastest if none" },
};

const struct option_table cmd_verify_options = {
    .command = "verify",
    .help = "run golden attention cases and golden models",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .arguments = "FILE-OR-DIR...",
    .min_arguments = 1,
    .max_arguments = INT_MAX,
    .notes = "One line each: ok|FAIL NAME kind rel_err tol paths; then N passed, N failed.\n",
    .family = command_tables,
};

/* The last part of the path, without .safetensors. */
static void short_name(const char *path, char out[64])
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    const char *last = strrchr(copy, '/');
    snprintf(out, 64, "%s", last != NULL ? last + 1 : copy);
    char *suffix = strstr(out, ".safetensors");
    if (suffix != NULL)
        *suffix = '\0';
}

static int verify_one(const char *path, const char *kernels)
{
    char golden[4200], name[64];
    snprintf(golden, sizeof golden, "%s/golden.safetensors", path);
    short_name(path, name);
    struct verify_result result;
    struct error err;
    enum status s = file_exists(golden) ? verify_model(path, kernels, &result, &err)
                                        : verify_case(path, kernels, &result, &err);
    if (s != STATUS_OK) {
        printf("FAIL  %-36s %s\n", name, err.text);
        return 0;
    }
    printf("%-4s  %-36s %-9s %8.2e %8.0e  %s\n", result.ok ? "ok" : "FAIL", name, result.kind,
           result.relative_error, result.tolerance, result.paths);
    if (!result.ok)
        printf("      %s\n", result.reason);
    return result.ok;
}

int cmd_verify(int argc, char **argv)
{
    struct verify_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_verify_options, argc, argv, &values);
    if (done >= 0)
        return done;
    const char *kernels = *values.kernels != '\0' ? values.kernels : NULL;
    int n_passed = 0, n_failed = 0;
    for (int i = 0; i < options_argument_count(options); i++) {
        int ok = verify_one(options_argument(options, i), kernels);
        n_passed += ok;
        n_failed += !ok;
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    options_destroy(options);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
