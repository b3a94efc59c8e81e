#include "bench/bench_commands.h"

#include <stdlib.h>

int bench_exit_code(enum status s, const struct error *err)
{
    if (s == STATUS_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "latentd: %s\n", err->text[0] != '\0' ? err->text : status_meaning(s));
    return s == STATUS_BAD_OPTION ? BENCH_EXIT_USAGE : EXIT_FAILURE;
}
