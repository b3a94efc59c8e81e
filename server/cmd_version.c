/* cmd_version.c - `latentd version`: what this program was built from. */
#include "base/version.h"
#include "server/commands.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

struct version_options {
    int brief;
};

static const struct option_row rows[] = {
    { "brief", OPTION_FLAG(struct version_options, brief), .fallback = "off", .help = "the number only" },
};

const struct option_table cmd_version_options = {
    .command = "version",
    .help = "print the version and what it was built with",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .family = command_tables,
};

int cmd_version(int argc, char **argv)
{
    struct version_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_version_options, argc, argv, &values);
    if (done >= 0)
        return done;
    if (values.brief)
        printf("%s\n", LATENTD_VERSION);
    else
        printf("latentd %s\ncompiler  %s\njansson   %s\nopenssl   %s\n", LATENTD_VERSION, __VERSION__,
               JANSSON_VERSION, OpenSSL_version(OPENSSL_VERSION_STRING));
    options_destroy(options);
    return EXIT_SUCCESS;
}
