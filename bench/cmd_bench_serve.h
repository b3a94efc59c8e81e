/* cmd_bench_serve.h - `latentd bench serve`: load on an OpenAI-compatible server.
 *
 * Prints the table on standard output and progress on standard error (a
 * terminal only); writes the files that were asked for.
 * Returns the exit code: 0; 1 when the server cannot be reached, a run had no
 * successful request or was interrupted, or a file cannot be written; 2 when the
 * command line is wrong.
 */
#ifndef BENCH_CMD_BENCH_SERVE_H
#define BENCH_CMD_BENCH_SERVE_H

int cmd_bench_serve(int argc, char **argv);

#endif
