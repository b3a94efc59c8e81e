#include "base/options.h"

#include "base/edit_distance.h"
#include "base/file.h"
#include "base/log.h"
#include "base/option_value.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    max_name = 63,                  /* bytes of an option's name */
    max_file_bytes = 1 << 20,       /* a config file */
};

struct options {
    const struct option_table *table;
    enum option_source *sources;    /* [table->n_rows]: who had the last word */
    int wants_help;
    const char *config;             /* the path given, or NULL */
    const char **arguments;         /* [n_arguments], room for argc */
    int n_arguments;
    struct buf file;                /* the config file, cut into strings in place */
};

/* What every table has besides its own rows. */
static const struct option_row config_row = { .name = "config", .kind = OPTION_KIND_PATH };
static const struct option_row help_row = { .name = "help", .kind = OPTION_KIND_FLAG };

static const struct option_row *find_in_table(const struct option_table *table, const char *name, size_t len)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->name != NULL && strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
    }
    return NULL;
}

static int family_knows(const struct option_table *table, const char *name)
{
    if (table->family == NULL)
        return 0;
    for (size_t i = 0; table->family[i] != NULL; i++)
        if (find_in_table(table->family[i], name, strlen(name)) != NULL)
            return 1;
    return 0;
}

/* The name in the table that somebody who typed `got` may have meant, or NULL. */
static const char *nearest_name(const struct option_table *table, const char *got)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < table->n_rows; i++) {
        const char *name = table->rows[i].name;
        if (name == NULL || !edit_distance_is_near(got, name))
            continue;
        size_t distance = edit_distance(got, name);
        if (distance < best_distance) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

static void set_source(struct options *o, const struct option_row *row, enum option_source source)
{
    o->sources[row - o->table->rows] = source;
}

static enum status set_defaults(struct options *o, void *values, struct error *err)
{
    for (size_t i = 0; i < o->table->n_rows; i++) {
        const struct option_row *row = &o->table->rows[i];
        assert(row->heading != NULL || (row->name != NULL && strlen(row->name) <= max_name));
        if (row->name != NULL && row->fallback != NULL)
            TRY(option_value_set(row, row->fallback, " (the default)", values, err));
    }
    return STATUS_OK;
}

/* --- config file ---------------------------------------------------------- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Cut the value out of what follows '=': quotes off, comment off.  NULL if a
 * quote is not closed or something follows it. */
static char *cut_value(char *text)
{
    text = trim(text);
    if (*text == '"') {
        char *end = strchr(text + 1, '"');
        if (end == NULL)
            return NULL;
        *end = '\0';
        char *rest = trim(end + 1);
        return *rest == '\0' || *rest == '#' ? text + 1 : NULL;
    }
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '#' && (c == text || isspace((unsigned char)c[-1]))) {
            *c = '\0';
            break;
        }
    }
    return trim(text);
}

static enum status unknown_key(const struct option_table *table, const char *key, const char *where,
                               struct error *err)
{
    const char *near = nearest_name(table, key);
    if (near != NULL)
        return fail(err, STATUS_BAD_OPTION, "there is no option '%.63s'%s; did you mean '%s'?",
                    key, where, near);
    return fail(err, STATUS_BAD_OPTION, "there is no option '%.63s'%s", key, where);
}

static enum status apply_line(struct options *o, char *line, const char *where, void *values,
                              struct error *err)
{
    char *key = trim(line);
    if (*key == '\0' || *key == '#')
        return STATUS_OK;
    char *equals = strchr(key, '=');
    if (equals == NULL)
        return fail(err, STATUS_BAD_OPTION, "'%.40s'%s is not of the form key = value", key, where);
    *equals = '\0';
    char *value = cut_value(equals + 1);
    if (value == NULL)
        return fail(err, STATUS_BAD_OPTION, "the quotes of '%.40s'%s do not enclose the whole value",
                    trim(key), where);
    key = trim(key);
    for (char *c = key; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
    const struct option_row *row = find_in_table(o->table, key, strlen(key));
    if (row == NULL)
        return family_knows(o->table, key) ? STATUS_OK : unknown_key(o->table, key, where, err);
    if (o->sources[row - o->table->rows] == OPTION_FROM_FILE)
        return fail(err, STATUS_BAD_OPTION, "'%s'%s is given a second time", key, where);
    set_source(o, row, OPTION_FROM_FILE);
    return option_value_set(row, value, where, values, err);
}

static enum status apply_file(struct options *o, void *values, struct error *err)
{
    if (o->config == NULL)
        return STATUS_OK;
    TRY(file_read(o->config, &o->file, err));
    if (o->file.len > 0 && memchr(o->file.data, '\0', o->file.len) != NULL)
        return fail(err, STATUS_BAD_OPTION, "%.200s holds a zero byte: it is not a config file", o->config);
    char *line = o->file.len > 0 ? o->file.data : NULL;
    for (int number = 1; line != NULL; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        char where[96];
        const char *name = strrchr(o->config, '/');
        snprintf(where, sizeof where, " (%.48s line %d)", name != NULL ? name + 1 : o->config, number);
        TRY(apply_line(o, line, where, values, err));
        line = end != NULL ? end + 1 : NULL;
    }
    return STATUS_OK;
}

/* --- environment ---------------------------------------------------------- */

#define PREFIX "LATENTD_"

/* "max-queue" -> "LATENTD_MAX_QUEUE" */
static void variable_name(const char *name, char out[sizeof PREFIX + max_name])
{
    size_t n = sizeof PREFIX - 1;
    memcpy(out, PREFIX, n);
    for (const char *c = name; *c != '\0'; c++)
        out[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    out[n] = '\0';
}

/* The value of the option's variable, or NULL if it is unset or empty. */
static const char *find_variable(char **environment, const char *name)
{
    char variable[sizeof PREFIX + max_name];
    variable_name(name, variable);
    size_t len = strlen(variable);
    for (char **e = environment; e != NULL && *e != NULL; e++)
        if (strncmp(*e, variable, len) == 0 && (*e)[len] == '=')
            return (*e)[len + 1] != '\0' ? *e + len + 1 : NULL;
    return NULL;
}

/* A variable that nobody knows may belong to anything; one that is a slip of the
 * pen away from an option of this command is worth a line. */
static void warn_of_slips(const struct options *o, char **environment)
{
    for (char **e = environment; e != NULL && *e != NULL; e++) {
        size_t len = strcspn(*e, "=");
        size_t prefix = sizeof PREFIX - 1;
        if (strncmp(*e, PREFIX, prefix) != 0 || len - prefix > max_name)
            continue;
        char name[max_name + 1];
        for (size_t i = prefix; i < len; i++)
            name[i - prefix] = (*e)[i] == '_' ? '-' : (char)tolower((unsigned char)(*e)[i]);
        name[len - prefix] = '\0';
        if (strcmp(name, config_row.name) == 0 || find_in_table(o->table, name, strlen(name)) != NULL
            || family_knows(o->table, name))
            continue;
        const char *near = nearest_name(o->table, name);
        if (near != NULL)
            log_warn("environment variable %.*s is ignored; did you mean the one of --%s?",
                     (int)len, *e, near);
    }
}

static enum status apply_environment(struct options *o, char **environment, void *values, struct error *err)
{
    for (size_t i = 0; i < o->table->n_rows; i++) {
        const struct option_row *row = &o->table->rows[i];
        const char *text = row->name != NULL ? find_variable(environment, row->name) : NULL;
        if (text == NULL)
            continue;
        char variable[sizeof PREFIX + max_name], where[sizeof variable + 16];
        variable_name(row->name, variable);
        snprintf(where, sizeof where, " (from %s)", variable);
        TRY(option_value_set(row, text, where, values, err));
        set_source(o, row, OPTION_FROM_ENVIRONMENT);
    }
    warn_of_slips(o, environment);
    return STATUS_OK;
}

/* --- flags ---------------------------------------------------------------- */

struct given {
    const struct option_row *row;
    const char *text;
};

static enum status unknown_flag(const struct option_table *table, const char *flag, size_t len,
                                struct error *err)
{
    char name[max_name + 1];
    snprintf(name, sizeof name, "%.*s", (int)len, flag);
    const char *near = nearest_name(table, name);
    if (near != NULL)
        return fail(err, STATUS_BAD_OPTION, "%s has no option --%s; did you mean --%s?",
                    table->command, name, near);
    return fail(err, STATUS_BAD_OPTION, "%s has no option --%s; `latentd %s --help` lists them",
                table->command, name, table->command);
}

/* The option at argv[*i], which starts with "--"; *i moves to its last word. */
static enum status read_flag(const struct option_table *table, int argc, char **argv, int *i,
                             struct given *out, struct error *err)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    int has_value = name[len] == '=';
    const struct option_row *row = find_in_table(table, name, len);
    if (len == 6 && memcmp(name, "config", 6) == 0)
        row = &config_row;
    else if (len == 4 && memcmp(name, "help", 4) == 0)
        row = &help_row;
    if (row == NULL && !has_value && strncmp(name, "no-", 3) == 0) {
        row = find_in_table(table, name + 3, len - 3);
        if (row != NULL && row->kind == OPTION_KIND_FLAG) {
            *out = (struct given){ row, "off" };
            return STATUS_OK;
        }
        row = NULL;
    }
    if (row == NULL)
        return unknown_flag(table, name, len, err);
    if (has_value)
        *out = (struct given){ row, name + len + 1 };
    else if (row->kind == OPTION_KIND_FLAG)
        *out = (struct given){ row, "on" };
    else if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
        return fail(err, STATUS_BAD_OPTION, "--%s needs a value: --%s %s", row->name, row->name,
                    option_value_word(row));
    else
        *out = (struct given){ row, argv[++*i] };
    return STATUS_OK;
}

/* One walk over argv.  values NULL: look only for --config, --help and the
 * arguments, since the file must be read before the flags are applied. */
static enum status apply_flags(struct options *o, int argc, char **argv, void *values, struct error *err)
{
    int only_arguments = 0;
    o->n_arguments = 0;
    for (int i = 1; i < argc; i++) {
        if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
            o->arguments[o->n_arguments++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            only_arguments = 1;
            continue;
        }
        if (strcmp(argv[i], "-h") == 0) {
            o->wants_help = 1;
            continue;
        }
        if (argv[i][1] != '-')
            return fail(err, STATUS_BAD_OPTION, "%s has no option %.40s; every option has a long name",
                        o->table->command, argv[i]);
        struct given given = { NULL, NULL };
        TRY(read_flag(o->table, argc, argv, &i, &given, err));
        if (given.row == &help_row) {
            o->wants_help = 1;
        } else if (given.row == &config_row) {
            o->config = given.text;
        } else if (values != NULL) {
            TRY(option_value_set(given.row, given.text, "", values, err));
            set_source(o, given.row, OPTION_FROM_FLAG);
        }
    }
    return STATUS_OK;
}

static enum status check_complete(const struct options *o, struct error *err)
{
    const struct option_table *table = o->table;
    for (size_t i = 0; i < table->n_rows; i++)
        if (table->rows[i].required && o->sources[i] == OPTION_FROM_DEFAULT)
            return fail(err, STATUS_BAD_OPTION, "%s needs --%s %s", table->command, table->rows[i].name,
                        option_value_word(&table->rows[i]));
    if (o->n_arguments > table->max_arguments) {
        const char *extra = o->arguments[table->max_arguments];
        if (table->max_arguments == 0)
            return fail(err, STATUS_BAD_OPTION, "%s takes options only, got '%.40s'", table->command, extra);
        return fail(err, STATUS_BAD_OPTION, "%s takes at most %d of %s, got also '%.40s'", table->command,
                    table->max_arguments, table->arguments, extra);
    }
    if (o->n_arguments < table->min_arguments)
        return fail(err, STATUS_BAD_OPTION, "%s needs %s", table->command, table->arguments);
    return STATUS_OK;
}

/* --- the whole ------------------------------------------------------------ */

static enum status parse_all(struct options *o, int argc, char **argv, char **environment,
                             void *values, struct error *err)
{
    TRY(apply_flags(o, argc, argv, NULL, err));
    if (o->wants_help)
        return STATUS_OK;
    if (o->config == NULL)
        o->config = find_variable(environment, config_row.name);
    TRY(set_defaults(o, values, err));
    TRY(apply_file(o, values, err));
    TRY(apply_environment(o, environment, values, err));
    TRY(apply_flags(o, argc, argv, values, err));
    return check_complete(o, err);
}

enum status options_parse(struct options **out, const struct option_table *table,
                          int argc, char **argv, char **environment, void *values, struct error *err)
{
    *out = NULL;
    struct options *o = calloc(1, sizeof *o);
    if (o == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the options of %s", table->command);
    o->table = table;
    buf_init(&o->file, max_file_bytes);
    o->sources = calloc(table->n_rows + 1, sizeof *o->sources);
    o->arguments = calloc((size_t)argc + 1, sizeof *o->arguments);
    enum status s = o->sources == NULL || o->arguments == NULL
        ? fail(err, STATUS_NO_MEMORY, "no memory for the options of %s", table->command)
        : parse_all(o, argc, argv, environment, values, err);
    if (s != STATUS_OK) {
        options_destroy(o);
        return s;
    }
    *out = o;
    return STATUS_OK;
}

void options_destroy(struct options *o)
{
    if (o == NULL)
        return;
    buf_clear(&o->file);
    free(o->sources);
    free(o->arguments);
    free(o);
}

int options_wants_help(const struct options *o)
{
    return o->wants_help;
}

enum option_source options_source(const struct options *o, const char *name)
{
    const struct option_row *row = find_in_table(o->table, name, strlen(name));
    assert(row != NULL);
    return o->sources[row - o->table->rows];
}

int options_argument_count(const struct options *o)
{
    return o->n_arguments;
}

const char *options_argument(const struct options *o, int i)
{
    assert(i >= 0 && i < o->n_arguments);
    return o->arguments[i];
}

int options_begin(struct options **out, const struct option_table *table, int argc, char **argv, void *values)
{
    struct error err;
    if (options_parse(out, table, argc, argv, environ, values, &err) != STATUS_OK) {
        fprintf(stderr, "latentd: %s\n", err.text);
        return 2;
    }
    if (!options_wants_help(*out))
        return -1;
    options_print_help(table, stdout);
    options_destroy(*out);
    *out = NULL;
    return 0;
}
