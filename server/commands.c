#include "server/commands.h"

#include "base/edit_distance.h"
#include "bench/bench_commands.h"
#include "bench/load_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct option_table *options;
} commands[] = {
#define X(name) { #name, cmd_##name, &cmd_##name##_options },
    COMMAND_MAP(X)
#undef X
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

const struct option_table *const command_tables[] = {
#define X(name) &cmd_##name##_options,
    COMMAND_MAP(X)
#undef X
    &cmd_bench_serve_options,
#define X(name) &cmd_bench_##name##_options,
    BENCH_COMMAND_MAP(X)
#undef X
    NULL,
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_commands(FILE *out)
{
    fprintf(out, "usage: latentd COMMAND [options]\n\n"
                 "Serves language models whose attention caches a latent.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].options->help);
    fprintf(out, "\n`latentd COMMAND --help` lists the options of one, `latentd --version` the version.\n");
}

static int refuse_command(const char *name)
{
    const char *near = NULL;
    for (size_t i = 0; i < N_COMMANDS && near == NULL; i++)
        if (edit_distance_is_near(name, commands[i].name))
            near = commands[i].name;
    if (name[0] == '-')
        fprintf(stderr, "latentd: %s comes before the command: latentd COMMAND [options]\n", name);
    else if (near != NULL)
        fprintf(stderr, "latentd: there is no command '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "latentd: there is no command '%s'; `latentd --help` lists them\n", name);
    return EXIT_USAGE;
}

/* `latentd help` and `latentd help NAME` */
static int run_help(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stdout);
        return EXIT_SUCCESS;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return refuse_command(argv[1]);
    options_print_help(command->options, stdout);
    return EXIT_SUCCESS;
}

int commands_run(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return run_help(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = find_command(name);
    if (command == NULL)
        return refuse_command(name);
    return command->run(argc - 1, argv + 1);
}
