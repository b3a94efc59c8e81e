#include "base/option_value.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Units of a size.  A bare K, M, G, T is binary, as people mean it for memory. */
static const struct { const char *name; int64_t bytes; } units[] = {
    { "TiB", INT64_C(1) << 40 }, { "GiB", INT64_C(1) << 30 }, { "MiB", 1 << 20 }, { "KiB", 1 << 10 },
    { "T", INT64_C(1) << 40 },   { "G", INT64_C(1) << 30 },   { "M", 1 << 20 },   { "K", 1 << 10 },
    { "TB", 1000000000000 },     { "GB", 1000000000 },        { "MB", 1000000 },  { "kB", 1000 },
    { "KB", 1000 },              { "B", 1 },                  { "", 1 },
};
#define N_UNITS (sizeof units / sizeof units[0])

/* A reader stores into *field and returns 1, or returns 0 and leaves it alone. */
typedef int (*read_fn)(const struct option_row *row, const char *text, void *field);
typedef void (*phrase_fn)(const struct option_row *row, char *out, size_t max);

/* The bounds of an integer row, with "both 0" replaced by what the field holds. */
static void int_bounds(const struct option_row *row, int64_t *min, int64_t *max)
{
    *min = row->min;
    *max = row->max;
    if (*min != 0 || *max != 0)
        return;
    int narrow = row->kind == OPTION_KIND_INT && row->bytes == sizeof(int);
    *max = narrow ? INT_MAX : INT64_MAX;
    *min = row->kind == OPTION_KIND_SIZE ? 0 : narrow ? INT_MIN : INT64_MIN;
}

static int store_int(const struct option_row *row, int64_t value, void *field)
{
    int64_t min, max;
    int_bounds(row, &min, &max);
    if (value < min || value > max)
        return 0;
    if (row->bytes == sizeof(int)) {
        assert(min >= INT_MIN && max <= INT_MAX);
        *(int *)field = (int)value;
    } else {
        memcpy(field, &value, sizeof value);    /* int64_t, or size_t that is not negative */
    }
    return 1;
}

/* The whole of text[0..len) as a decimal integer. */
static int parse_int(const char *text, size_t len, int64_t *out)
{
    char copy[24];
    if (len == 0 || len >= sizeof copy || isspace((unsigned char)text[0]))
        return 0;
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *end;
    errno = 0;
    long long value = strtoll(copy, &end, 10);
    if (errno != 0 || end == copy || *end != '\0')
        return 0;
    *out = value;
    return 1;
}

static int parse_double(const char *text, size_t len, double *out)
{
    char copy[64];
    if (len == 0 || len >= sizeof copy)
        return 0;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strcmp(copy, "inf") == 0) {
        *out = INFINITY;
        return 1;
    }
    if (strspn(copy, "0123456789+-.eE") != len)
        return 0;
    char *end;
    *out = strtod(copy, &end);
    return *end == '\0' && end != copy && isfinite(*out);
}

static int read_flag(const struct option_row *row, const char *text, void *field)
{
    static const char *const words[] = { "off", "on", "false", "true", "no", "yes", "0", "1" };
    (void)row;
    for (int i = 0; i < 8; i++) {
        if (strcmp(text, words[i]) == 0) {
            *(int *)field = i % 2;
            return 1;
        }
    }
    return 0;
}

static int read_int(const struct option_row *row, const char *text, void *field)
{
    int64_t value;
    return parse_int(text, strlen(text), &value) && store_int(row, value, field);
}

static int read_size(const struct option_row *row, const char *text, void *field)
{
    size_t digits = strspn(text, "0123456789.");
    const char *unit = text + digits + (text[digits] == ' ');
    for (size_t i = 0; i < N_UNITS; i++) {
        if (strcasecmp(unit, units[i].name) != 0)
            continue;
        int64_t whole, bytes;
        double fraction;
        if (parse_int(text, digits, &whole)) {
            if (__builtin_mul_overflow(whole, units[i].bytes, &bytes))
                return 0;
        } else {
            if (!parse_double(text, digits, &fraction) || fraction * (double)units[i].bytes >= 0x1p63)
                return 0;
            bytes = (int64_t)(fraction * (double)units[i].bytes);
        }
        return store_int(row, bytes, field);
    }
    return 0;
}

static int in_range(const struct option_row *row, double value)
{
    if (row->low == 0 && row->high == 0)
        return isfinite(value);
    return value >= row->low && value <= row->high;
}

static int read_double(const struct option_row *row, const char *text, void *field)
{
    double value;
    if (!parse_double(text, strlen(text), &value) || !in_range(row, value))
        return 0;
    *(double *)field = value;
    return 1;
}

static int read_string(const struct option_row *row, const char *text, void *field)
{
    if (row->kind == OPTION_KIND_PATH && *text == '\0')
        return 0;
    *(const char **)field = text;
    return 1;
}

static int read_choice(const struct option_row *row, const char *text, void *field)
{
    int i = options_choice_index(row->choices, text);
    if (i < 0)
        return 0;
    *(int *)field = i;
    return 1;
}

/* Call step for each piece between commas; 0 as soon as it says 0. */
static int each_piece(const struct option_row *row, const char *text, void *list,
                      int (*step)(const struct option_row *row, const char *piece, size_t len, void *list))
{
    for (;;) {
        size_t len = strcspn(text, ",");
        if (!step(row, text, len, list))
            return 0;
        if (text[len] == '\0')
            return 1;
        text += len + 1;
    }
}

static int add_int(const struct option_row *row, const char *piece, size_t len, void *list)
{
    struct option_ints *ints = list;
    int64_t value, min, max;
    int_bounds(row, &min, &max);
    if (ints->n == OPTION_LIST_MAX || !parse_int(piece, len, &value) || value < min || value > max)
        return 0;
    ints->at[ints->n++] = value;
    return 1;
}

static int add_double(const struct option_row *row, const char *piece, size_t len, void *list)
{
    struct option_doubles *doubles = list;
    double value;
    if (doubles->n == OPTION_LIST_MAX || !parse_double(piece, len, &value) || !in_range(row, value))
        return 0;
    doubles->at[doubles->n++] = value;
    return 1;
}

static int add_choice(const struct option_row *row, const char *piece, size_t len, void *list)
{
    char word[64];
    if (len >= sizeof word)
        return 0;
    memcpy(word, piece, len);
    word[len] = '\0';
    int i = options_choice_index(row->choices, word);
    if (i < 0 || i >= 32)
        return 0;
    *(unsigned *)list |= 1u << i;
    return 1;
}

static int read_ints(const struct option_row *row, const char *text, void *field)
{
    struct option_ints list = { 0 };
    if (!each_piece(row, text, &list, add_int))
        return 0;
    *(struct option_ints *)field = list;
    return 1;
}

static int read_doubles(const struct option_row *row, const char *text, void *field)
{
    struct option_doubles list = { 0 };
    if (!each_piece(row, text, &list, add_double))
        return 0;
    *(struct option_doubles *)field = list;
    return 1;
}

static int read_choices(const struct option_row *row, const char *text, void *field)
{
    unsigned set = 0;
    if (!each_piece(row, text, &set, add_choice))
        return 0;
    *(unsigned *)field = set;
    return 1;
}

static void say_flag(const struct option_row *row, char *out, size_t max)
{
    (void)row;
    snprintf(out, max, "on or off");
}

static void say_int(const struct option_row *row, char *out, size_t max)
{
    int64_t low, high;
    int_bounds(row, &low, &high);
    const char *what = row->kind == OPTION_KIND_INTS ? "whole numbers, separated by commas, each"
                                                     : "a whole number";
    if (high == INT64_MAX && low != INT64_MIN)
        snprintf(out, max, "%s of at least %" PRId64, what, low);
    else
        snprintf(out, max, "%s between %" PRId64 " and %" PRId64, what, low, high);
}

static void say_size(const struct option_row *row, char *out, size_t max)
{
    char low[32], high[32];
    int64_t min, limit;
    int_bounds(row, &min, &limit);
    option_value_print_size(min, low, sizeof low);
    option_value_print_size(limit, high, sizeof high);
    if (limit == INT64_MAX)
        snprintf(out, max, "a size like 512MiB of at least %s", low);
    else
        snprintf(out, max, "a size like 512MiB between %s and %s", low, high);
}

static void say_double(const struct option_row *row, char *out, size_t max)
{
    const char *what = row->kind == OPTION_KIND_DOUBLES ? "numbers, separated by commas, each" : "a number";
    if (row->low == 0 && row->high == 0)
        snprintf(out, max, "%s", row->kind == OPTION_KIND_DOUBLES ? "numbers, separated by commas" : what);
    else
        snprintf(out, max, "%s between %g and %g", what, row->low, row->high);
}

static void say_string(const struct option_row *row, char *out, size_t max)
{
    snprintf(out, max, "%s", row->kind == OPTION_KIND_PATH ? "a path" : "text");
}

static void say_choice(const struct option_row *row, char *out, size_t max)
{
    const char *what = row->kind == OPTION_KIND_CHOICES ? "one or more of " : "one of ";
    size_t n = (size_t)snprintf(out, max, "%s", what);
    for (const char *c = row->choices; *c != '\0' && n + 3 < max; c++) {
        if (*c == ' ')
            out[n++] = ',';
        out[n++] = *c;
    }
    out[n] = '\0';
}

static const struct {
    const char *word;       /* of the value in --help */
    read_fn read;
    phrase_fn phrase;
} kinds[] = {
    [OPTION_KIND_NONE]    = { "", NULL, NULL },
    [OPTION_KIND_FLAG]    = { "", read_flag, say_flag },
    [OPTION_KIND_INT]     = { "N", read_int, say_int },
    [OPTION_KIND_SIZE]    = { "SIZE", read_size, say_size },
    [OPTION_KIND_DOUBLE]  = { "X", read_double, say_double },
    [OPTION_KIND_STRING]  = { "TEXT", read_string, say_string },
    [OPTION_KIND_PATH]    = { "PATH", read_string, say_string },
    [OPTION_KIND_CHOICE]  = { "WORD", read_choice, say_choice },
    [OPTION_KIND_INTS]    = { "N,N,..", read_ints, say_int },
    [OPTION_KIND_DOUBLES] = { "X,X,..", read_doubles, say_double },
    [OPTION_KIND_CHOICES] = { "WORD,..", read_choices, say_choice },
};

enum status option_value_set(const struct option_row *row, const char *text,
                             const char *where, void *values, struct error *err)
{
    if (kinds[row->kind].read(row, text, (char *)values + row->offset))
        return STATUS_OK;
    char range[160];
    option_value_phrase(row, range, sizeof range);
    return fail(err, STATUS_BAD_OPTION, "--%s must be %s, got '%.40s'%s", row->name, range, text, where);
}

void option_value_phrase(const struct option_row *row, char *out, size_t max)
{
    kinds[row->kind].phrase(row, out, max);
}

const char *option_value_word(const struct option_row *row)
{
    return row->value != NULL ? row->value : kinds[row->kind].word;
}

void option_value_print_size(int64_t bytes, char *out, size_t max)
{
    for (size_t i = 0; i < 4; i++) {
        if (bytes >= units[i].bytes && bytes % units[i].bytes == 0) {
            snprintf(out, max, "%" PRId64 "%s", bytes / units[i].bytes, units[i].name);
            return;
        }
    }
    snprintf(out, max, "%" PRId64, bytes);
}

int options_choice_index(const char *choices, const char *word)
{
    size_t len = strlen(word);
    int i = 0;
    for (const char *c = choices; *c != '\0'; i++) {
        size_t n = strcspn(c, " ");
        if (n == len && memcmp(c, word, n) == 0)
            return i;
        c += n + (c[n] == ' ');
    }
    return -1;
}

void options_choice_word(const char *choices, int i, char *out, size_t max)
{
    const char *c = choices;
    for (; i > 0 && *c != '\0'; i--) {
        c += strcspn(c, " ");
        c += *c == ' ';
    }
    snprintf(out, max, "%.*s", (int)strcspn(c, " "), c);
}
