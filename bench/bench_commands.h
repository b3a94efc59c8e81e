/* bench_commands.h - the in-process benchmarks, `latentd bench NAME`, in one table.
 *
 * A benchmark NAME is a row of BENCH_COMMAND_MAP and a file bench/cmd_bench_NAME.c
 * with its option table and the function that runs it: rows of results on
 * standard output, failures on standard error; returns the exit code (0, 1, or 2
 * when the command line is wrong).
 */
#ifndef BENCH_BENCH_COMMANDS_H
#define BENCH_BENCH_COMMANDS_H

#include "base/options.h"

/* In the order of the help.  name */
#define BENCH_COMMAND_MAP(X)    \
    X(decode)                   \
    X(prefill)                  \
    X(batch)                    \
    X(kernels)                  \
    X(allreduce)                \
    X(host)                     \
    X(accuracy)

#define X(name)                                                 \
    int cmd_bench_##name(int argc, char **argv);                \
    extern const struct option_table cmd_bench_##name##_options;
BENCH_COMMAND_MAP(X)
#undef X

enum { BENCH_EXIT_USAGE = 2 };

/* The exit code of s; what went wrong on standard error. */
int bench_exit_code(enum status s, const struct error *err);

#endif
