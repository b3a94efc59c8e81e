/* cmd_bench.c - `latentd bench NAME`: load on a server, and the benchmarks that need none. */
#include "base/edit_distance.h"
#include "bench/bench_commands.h"
#include "bench/cmd_bench_serve.h"
#include "bench/load_options.h"
#include "server/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option_table cmd_bench_options = {
    .command = "bench",
    .help = "load on an OpenAI-compatible server, and benchmarks in process",
    .arguments = "NAME [its options]",
    .notes = "`latentd bench --help` lists the names, `latentd bench NAME --help` the options of one.\n",
    .family = command_tables,
};

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct option_table *options;
} benches[] = {
    { "serve", cmd_bench_serve, &cmd_bench_serve_options },
#define X(name) { #name, cmd_bench_##name, &cmd_bench_##name##_options },
    BENCH_COMMAND_MAP(X)
#undef X
};
#define N_BENCHES (sizeof benches / sizeof benches[0])

static void print_benches(FILE *out)
{
    fprintf(out, "usage: latentd bench NAME [options]\n\n%s\n\nBenchmarks:\n", cmd_bench_options.help);
    for (size_t i = 0; i < N_BENCHES; i++)
        fprintf(out, "  %-10s %s\n", benches[i].name, benches[i].options->help);
    fprintf(out, "\n`latentd bench NAME --help` lists the options of one.\n");
}

static int refuse(const char *name)
{
    const char *near = NULL;
    for (size_t i = 0; i < N_BENCHES && near == NULL; i++)
        if (edit_distance_is_near(name, benches[i].name))
            near = benches[i].name;
    if (near != NULL)
        fprintf(stderr, "latentd: there is no benchmark '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "latentd: there is no benchmark '%s'; `latentd bench --help` lists them\n", name);
    return EXIT_USAGE;
}

int cmd_bench(int argc, char **argv)
{
    if (argc < 2) {
        print_benches(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_benches(stdout);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < N_BENCHES; i++)
        if (strcmp(benches[i].name, argv[1]) == 0)
            return benches[i].run(argc - 1, argv + 1);
    return refuse(argv[1]);
}
