/* options_help.c - the page that --help prints, from the same rows that parse. */
#include "base/option_value.h"
#include "base/options.h"

#include <string.h>

enum {
    left_columns = 30,      /* of the option and its value */
    page_columns = 100,
};

/* Print text in the right-hand column, broken at blanks; the cursor is at
 * left_columns. */
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = left_columns;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > left_columns && column + 1 + word > page_columns) {
            fprintf(out, "\n%*s", left_columns, "");
            column = left_columns;
        } else if (column > left_columns) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(const char *name, const char *value, const char *text, FILE *out)
{
    int n = fprintf(out, "  --%s%s%s", name, *value != '\0' ? " " : "", value);
    if (n + 2 > left_columns)
        fprintf(out, "\n%*s", left_columns, "");
    else
        fprintf(out, "%*s", left_columns - n, "");
    print_wrapped(text, out);
}

static void print_row(const struct option_row *row, FILE *out)
{
    if (row->heading != NULL) {
        fprintf(out, "\n%s:\n", row->heading);
        return;
    }
    char range[256] = "", origin[128] = "", text[1024];
    if (row->kind != OPTION_KIND_FLAG)
        option_value_phrase(row, range, sizeof range);
    if (row->required)
        snprintf(origin, sizeof origin, "required");
    else if (row->fallback != NULL && *row->fallback != '\0')
        snprintf(origin, sizeof origin, "default %s", row->fallback);
    const char *help = row->help != NULL ? row->help : "";
    if (*range == '\0' && *origin == '\0')
        snprintf(text, sizeof text, "%s", help);
    else
        snprintf(text, sizeof text, "%s (%s%s%s)", help, range,
                 *range != '\0' && *origin != '\0' ? "; " : "", origin);
    print_option(row->name, option_value_word(row), text, out);
}

void options_print_help(const struct option_table *table, FILE *out)
{
    const char *arguments = table->arguments != NULL ? table->arguments : "";
    fprintf(out, "usage: latentd %s [options]%s%s\n\n%s.\n", table->command,
            *arguments != '\0' ? " " : "", arguments, table->help);
    if (table->n_rows == 0 || table->rows[0].heading == NULL)
        fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < table->n_rows; i++)
        print_row(&table->rows[i], out);
    fprintf(out, "\nCommon to all:\n");
    print_option("config", "PATH", "file of `key = value` lines, one option each, # comments", out);
    print_option("help", "", "print this page", out);
    fprintf(out, "\nEvery option can be set as LATENTD_<NAME> in the environment ('-' becomes '_') and as\n"
                 "`name = value` in the config file; a flag beats the environment beats the file.\n");
    if (table->notes != NULL)
        fprintf(out, "\n%s\n", table->notes);
}
