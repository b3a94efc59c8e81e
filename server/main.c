/* main.c - runs the command named on the command line; see server/commands.h.
 *
 * Exit codes: 0 done, 1 failed (a sentence is on stderr), 2 wrong command line. */
#include "server/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int code = commands_run(argc, argv);
    /* A full disk or a closed pipe shows only here: the result is not complete. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "latentd: cannot write the output: %s\n", strerror(errno));
        return code != EXIT_SUCCESS ? code : EXIT_FAILURE;
    }
    return code;
}
