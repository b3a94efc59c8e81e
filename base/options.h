/* options.h - the command line of one sub-command, described by a table.
 *
 * A row says everything about an option: its name, the field it fills, its
 * default, its range and its sentence of help.  The same rows parse the command
 * line, the environment and the config file, and print --help.
 *
 *     struct serve_options { const char *model; int port; size_t device_memory; int cache_type; };
 *
 *     static const struct option_row rows[] = {
 *         { "model", OPTION_PATH(struct serve_options, model), .help = "model directory" },
 *         { .heading = "Limits" },
 *         { "port", OPTION_INT(struct serve_options, port), .fallback = "8080",
 *           .min = 1, .max = 65535, .help = "TCP port to listen on" },
 *         { "cache-type", OPTION_CHOICE(struct serve_options, cache_type), .fallback = "f32",
 *           .choices = "f32 bf16 int8", .help = "type of the cached latents" },
 *     };
 *     static const struct option_table table = {
 *         .command = "serve", .help = "load a model and serve it over HTTP",
 *         .rows = rows, .n_rows = sizeof rows / sizeof rows[0],
 *     };
 *
 *     int cmd_serve(int argc, char **argv)
 *     {
 *         struct serve_options values = { 0 };
 *         struct options *options;
 *         int done = options_begin(&options, &table, argc, argv, &values);
 *         if (done >= 0)
 *             return done;            (help was printed, or a sentence why not)
 *         ...
 *         options_destroy(options);
 *     }
 *
 * Where a value comes from: the default, then the config file (--config FILE or
 * LATENTD_CONFIG), then LATENTD_<NAME> in the environment (the name in capitals,
 * '_' for '-'; an empty variable counts as unset), then the flag.  The later
 * beats the earlier; of two equal flags the last one wins.
 *
 * Flags:        --name value, --name=value; a flag option is --name, --no-name or
 *               --name=on|off|true|false|yes|no|1|0; `--` ends the options.
 * Config file:  key = value, one a line; '-' and '_' in a key are the same; a '#'
 *               that begins a line or follows a blank starts a comment; a value
 *               in double quotes keeps its blanks and its '#'.
 * Every table also has --config FILE and --help (-h); rows must not repeat them.
 *
 * Threads: one, at start-up.  Memory: strings are borrowed from argv, from the
 * environment, from the table, or from the struct options (config file).
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_KIND_NONE,       /* a heading */
    OPTION_KIND_FLAG,       /* on or off */
    OPTION_KIND_INT,        /* decimal, min <= value <= max */
    OPTION_KIND_SIZE,       /* bytes: 4096, 512MiB, 1.5GiB (K = KiB), 10MB; min <= value <= max */
    OPTION_KIND_DOUBLE,     /* low <= value <= high; "inf" only where high is INFINITY */
    OPTION_KIND_STRING,     /* any text */
    OPTION_KIND_PATH,       /* text that is not empty */
    OPTION_KIND_CHOICE,     /* one word of choices; the field gets its index */
    OPTION_KIND_INTS,       /* 1,2,4,8: each within min..max */
    OPTION_KIND_DOUBLES,    /* 0.5,1,2: each within low..high */
    OPTION_KIND_CHOICES,    /* f32,int8: bit i of the field is word i of choices */
};

#define OPTION_LIST_MAX 32

struct option_ints { int n; int64_t at[OPTION_LIST_MAX]; };
struct option_doubles { int n; double at[OPTION_LIST_MAX]; };

struct option_row {
    const char *name;       /* "max-step-tokens": lower case, digits, '-' */
    enum option_kind kind;  /* kind, offset, bytes: written by the macros below */
    size_t offset;
    size_t bytes;
    const char *fallback;   /* the default as text, in range; NULL: the caller's value stays */
    int64_t min, max;       /* INT, SIZE, INTS: inclusive; both 0: whatever the field holds */
    double low, high;       /* DOUBLE, DOUBLES: inclusive; both 0: any finite number */
    const char *choices;    /* CHOICE, CHOICES: words separated by one blank */
    const char *value;      /* the word for the value in --help; NULL: N, SIZE, X, TEXT, PATH by kind */
    const char *help;       /* one sentence without full stop */
    const char *heading;    /* a row of nothing else: the title of the rows below it */
    int required;           /* 1: it must be given somewhere */
};

/* The field of each kind; another type does not compile. */
#define OPTION_FLAG(type, field)    OPTION_AT_(FLAG, type, field, int: 0)
#define OPTION_INT(type, field)     OPTION_AT_(INT, type, field, int: 0, int64_t: 0)
#define OPTION_SIZE(type, field)    OPTION_AT_(SIZE, type, field, size_t: 0, int64_t: 0)
#define OPTION_DOUBLE(type, field)  OPTION_AT_(DOUBLE, type, field, double: 0)
#define OPTION_STRING(type, field)  OPTION_AT_(STRING, type, field, const char *: 0)
#define OPTION_PATH(type, field)    OPTION_AT_(PATH, type, field, const char *: 0)
#define OPTION_CHOICE(type, field)  OPTION_AT_(CHOICE, type, field, int: 0, unsigned: 0)
#define OPTION_INTS(type, field)    OPTION_AT_(INTS, type, field, struct option_ints: 0)
#define OPTION_DOUBLES(type, field) OPTION_AT_(DOUBLES, type, field, struct option_doubles: 0)
#define OPTION_CHOICES(type, field) OPTION_AT_(CHOICES, type, field, unsigned: 0)

#define OPTION_AT_(kind_, type, field, ...)                                            \
    .kind = OPTION_KIND_##kind_,                                                       \
    .offset = offsetof(type, field) + _Generic(((type *)NULL)->field, __VA_ARGS__),    \
    .bytes = sizeof(((type *)NULL)->field)

struct option_table {
    const char *command;            /* "serve", "bench serve" */
    const char *help;               /* one sentence without full stop */
    const struct option_row *rows;  /* [n_rows] */
    size_t n_rows;
    const char *arguments;          /* after the options in the usage line: "FILE-OR-DIR..."; or NULL */
    int min_arguments, max_arguments;   /* 0, 0: none are taken; INT_MAX: no limit */
    const char *notes;              /* printed below the options of --help; or NULL */
    /* The tables of one program, ending in NULL, or NULL.  A key of a config file
     * that only another of them knows is passed over instead of refused. */
    const struct option_table *const *family;
};

enum option_source { OPTION_FROM_DEFAULT, OPTION_FROM_FILE, OPTION_FROM_ENVIRONMENT, OPTION_FROM_FLAG };

struct options;                     /* opaque: what was given, and the text of the config file */

/* Fill *values (the struct the rows point into) from defaults, file, environment
 * and argv[1..argc); argv[0] is skipped.  environment: as environ, or NULL for
 * none.  The caller gives *out to options_destroy; strings in *values live
 * until then.
 * BAD_OPTION: unknown option, missing value, out of range, too many or too few
 * arguments, bad line in the file; the sentence names the option, where it was
 * given, its range, and the nearest name if there is one.  IO: the config file
 * cannot be read.  NO_MEMORY.  *out is then NULL and *values partly filled. */
MUST_CHECK enum status options_parse(struct options **out, const struct option_table *table,
                                     int argc, char **argv, char **environment,
                                     void *values, struct error *err);
void options_destroy(struct options *options);          /* NULL is allowed */

/* --help was among the flags.  Then nothing else was checked. */
int options_wants_help(const struct options *options);

/* Who had the last word on `name`, which is in the table. */
enum option_source options_source(const struct options *options, const char *name);

/* What followed the options: argument i, 0 <= i < count; borrowed from argv. */
int options_argument_count(const struct options *options);
const char *options_argument(const struct options *options, int i);

/* Index of word in a row's choices, or -1; and word i of choices copied to
 * out[max] (cut to fit), "" if there is none. */
int options_choice_index(const char *choices, const char *word);
void options_choice_word(const char *choices, int i, char *out, size_t max);

void options_print_help(const struct option_table *table, FILE *out);

/* The opening of every sub-command: options_parse with the process's
 * environment.  Returns -1 to go on.  Otherwise *out is NULL and the number is
 * the exit code: 0 when help was asked for and printed on stdout, 2 when the
 * command line is wrong and the sentence was printed on stderr. */
int options_begin(struct options **out, const struct option_table *table,
                  int argc, char **argv, void *values);

#endif
