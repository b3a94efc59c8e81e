#include "bench/bench_table.h"

#include <assert.h>
#include <string.h>

static const char *const parts[] = { "mean", "std", "min", "median", "max" };
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static void part_values(const struct load_summary *s, double out[N_PARTS])
{
    out[0] = s->mean;
    out[1] = s->std;
    out[2] = s->min;
    out[3] = s->p50;
    out[4] = s->max;
}

/* ---- headings ---- */

static void print_markdown_heading(const struct bench_table *t)
{
    for (int i = 0; i < t->n_columns; i++)
        fprintf(t->out, "| %s ", t->columns[i].name);
    fputs("|\n", t->out);
    for (int i = 0; i < t->n_columns; i++)
        fputs(t->columns[i].cells == BENCH_CELLS_TEXT ? "|---" : "|--:", t->out);
    fputs("|\n", t->out);
}

static void print_csv_heading(const struct bench_table *t)
{
    for (int i = 0; i < t->n_columns; i++) {
        const struct bench_column *c = &t->columns[i];
        fprintf(t->out, "%s%s", i > 0 ? "," : "", c->name);
        for (int p = 1; c->cells == BENCH_CELLS_SUMMARY && p < N_PARTS; p++)
            fprintf(t->out, ",%s %s", c->name, parts[p]);
    }
    fputc('\n', t->out);
}

void bench_table_begin(struct bench_table *t, FILE *out, enum bench_format format,
                       const struct bench_column *columns, int n_columns)
{
    *t = (struct bench_table){ .out = out, .format = format, .columns = columns, .n_columns = n_columns };
    if (format == BENCH_MARKDOWN)
        print_markdown_heading(t);
    else if (format == BENCH_CSV)
        print_csv_heading(t);
    else
        fputc('[', out);
}

/* ---- cells ---- */

static const struct bench_column *open_cell(struct bench_table *t)
{
    const struct bench_column *c = &t->columns[t->at];
    if (t->format == BENCH_MARKDOWN)
        fputs(t->at == 0 ? "| " : " | ", t->out);
    else if (t->format == BENCH_CSV)
        fputs(t->at == 0 ? "" : ",", t->out);
    else if (t->at == 0)
        fprintf(t->out, "%s\n{\"%s\": ", t->n_rows > 0 ? "," : "", c->name);
    else
        fprintf(t->out, ", \"%s\": ", c->name);
    t->n_rows += t->at == 0;
    return c;
}

static void close_cell(struct bench_table *t)
{
    if (++t->at < t->n_columns)
        return;
    t->at = 0;
    fputs(t->format == BENCH_MARKDOWN ? " |\n" : t->format == BENCH_CSV ? "\n" : "}", t->out);
    fflush(t->out);
}

void bench_table_text(struct bench_table *t, const char *text)
{
    open_cell(t);
    if (t->format == BENCH_MARKDOWN) {
        fputs(text, t->out);
    } else {
        /* Both quote with a doubled or escaped quote; our words have none but may have commas. */
        assert(strpbrk(text, "\"\\") == NULL);
        fprintf(t->out, "\"%s\"", text);
    }
    close_cell(t);
}

void bench_table_number(struct bench_table *t, double value)
{
    const struct bench_column *c = open_cell(t);
    if (t->format == BENCH_MARKDOWN)
        fprintf(t->out, "%.*f", c->decimals, value);
    else
        fprintf(t->out, "%.9g", value);
    close_cell(t);
}

void bench_table_summary(struct bench_table *t, const struct load_summary *summary)
{
    const struct bench_column *c = open_cell(t);
    assert(c->cells == BENCH_CELLS_SUMMARY);
    double values[N_PARTS];
    part_values(summary, values);
    if (t->format == BENCH_MARKDOWN)
        fprintf(t->out, "%.*f ± %.*f", c->decimals, values[0], c->decimals, values[1]);
    for (int p = 0; t->format == BENCH_CSV && p < N_PARTS; p++)
        fprintf(t->out, "%s%.9g", p > 0 ? "," : "", values[p]);
    for (int p = 0; t->format == BENCH_JSON && p < N_PARTS; p++)
        fprintf(t->out, "%s\"%s\": %.9g", p > 0 ? ", " : "{", parts[p], values[p]);
    if (t->format == BENCH_JSON)
        fputc('}', t->out);
    close_cell(t);
}

void bench_table_none(struct bench_table *t)
{
    const struct bench_column *c = open_cell(t);
    fputs(t->format == BENCH_MARKDOWN ? "-" : t->format == BENCH_JSON ? "null" : "", t->out);
    for (int p = 1; t->format == BENCH_CSV && c->cells == BENCH_CELLS_SUMMARY && p < N_PARTS; p++)
        fputc(',', t->out);
    close_cell(t);
}

enum status bench_table_end(struct bench_table *t, struct error *err)
{
    assert(t->at == 0);
    if (t->format == BENCH_JSON)
        fputs("\n]\n", t->out);
    if (fflush(t->out) != 0 || ferror(t->out))
        return fail(err, STATUS_IO, "the results could not all be written");
    return STATUS_OK;
}
