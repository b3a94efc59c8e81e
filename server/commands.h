/* commands.h - the sub-commands of latentd, in one table.
 *
 * A sub-command NAME is a row of COMMAND_MAP and a file server/cmd_NAME.c with
 *     const struct option_table cmd_NAME_options     its options (base/options.h),
 *                                                    .family = command_tables
 *     int cmd_NAME(int argc, char **argv)            argv[0] is NAME
 * A new one is one new row here.
 *
 * A command prints its result on stdout and its failures on stderr, and returns
 * the exit code: EXIT_SUCCESS, EXIT_FAILURE, or EXIT_USAGE when the command line
 * is wrong.  It never calls exit.
 */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

#include "base/options.h"

#define EXIT_USAGE 2

/* In the order of --help.  name */
#define COMMAND_MAP(X) \
    X(serve) \
    X(generate) \
    X(inspect) \
    X(synth) \
    X(convert) \
    X(verify) \
    X(compare) \
    X(bench) \
    X(version)

#define X(name)                                         \
    int cmd_##name(int argc, char **argv);              \
    extern const struct option_table cmd_##name##_options;
COMMAND_MAP(X)
#undef X

/* Every table above, ending in NULL: what a config file may name. */
extern const struct option_table *const command_tables[];

/* The exit code of `latentd argv[1] ..`; what main returns. */
int commands_run(int argc, char **argv);

#endif
