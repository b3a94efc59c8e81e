#include "bench/compare_text.h"

#include "base/json_write.h"
#include "bench/compare_cache_table.h"
#include "bench/compare_column.h"

#include <math.h>

/* A modelled column stands for one column per profile. */
static int copies(const struct compare_session *session, const struct compare_column *c)
{
    return c->source == COMPARE_MODELLED ? session->settings.n_profiles : 1;
}

static enum status write_key(struct buf *out, const struct compare_session *session, const struct compare_column *c,
                             int profile)
{
    if (c->source == COMPARE_MODELLED)
        return buf_printf(out, "modelled_%s_%s", session->settings.profiles[profile].name, c->key);
    return buf_printf(out, "%s_%s", compare_source_name(c->source), c->key);
}

/* ---- CSV ---- */

static enum status csv_header(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "sweep,part,formulation,ranks,context,batch,cache,note"));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++) {
            TRY(buf_add_char(out, ','));
            TRY(write_key(out, s, &compare_columns[c], p));
        }
    TRY(buf_add_text(out, ",rank"));
    for (int c = 0; c < compare_device_column_count; c++)
        TRY(buf_printf(out, ",%s_%s", compare_source_name(compare_device_columns[c].source),
                       compare_device_columns[c].key));
    return buf_add_char(out, '\n');
}

static enum status csv_number(struct buf *out, double value)
{
    return isnan(value) ? buf_add_char(out, ',') : buf_printf(out, ",%.10g", value);
}

static enum status csv_row(const struct compare_session *s, const struct compare_result *r, int rank, struct buf *out)
{
    TRY(buf_printf(out, "%s,%s,%s,%d,%lld,%d,%s,\"%s\"", s->sweeps[r->sweep].name, compare_part_name(r->point.part),
                   r->point.formulation->name, r->point.n_ranks, (long long)r->point.context, r->point.batch,
                   cache_type_name(r->point.cache_type), r->note));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++)
            TRY(csv_number(out, compare_columns[c].value(s, r, p)));
    TRY(buf_printf(out, ",%d", rank));
    for (int c = 0; c < compare_device_column_count; c++)
        TRY(csv_number(out, compare_device_columns[c].value(r, rank)));
    return buf_add_char(out, '\n');
}

enum status compare_write_csv(const struct compare_session *s, struct buf *out, struct error *err)
{
    (void)err;
    TRY(csv_header(s, out));
    for (int i = 0; i < s->n_results; i++)
        for (int rank = 0; rank < s->results[i].n_devices; rank++)
            TRY(csv_row(s, &s->results[i], rank, out));
    return STATUS_OK;
}

/* ---- JSON ---- */

static enum status json_number(struct buf *out, double value)
{
    return isnan(value) ? buf_add_text(out, "null") : buf_printf(out, "%.10g", value);
}

static enum status json_text(struct buf *out, const char *key, const char *value)
{
    TRY(buf_printf(out, "\"%s\":", key));
    return json_write_cstring(out, value);
}

static enum status json_profiles(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "\"profiles\":["));
    for (int i = 0; i < s->settings.n_profiles; i++) {
        const struct compare_profile *p = &s->settings.profiles[i];
        TRY(buf_add_text(out, i > 0 ? ",{" : "{"));
        TRY(json_text(out, "name", p->name));
        TRY(buf_add_char(out, ','));
        TRY(json_text(out, "source", p->source));
        TRY(buf_printf(out, ",\"peak_tflops\":%.6g,\"bandwidth_gbs\":%.6g,\"memory_gb\":%.6g,\"link_gbs\":%.6g,"
                            "\"link_latency_us\":%.6g,\"activation_bytes\":%d}", p->peak_flops / 1e12,
                       p->bandwidth / 1e9, p->memory / 1e9, p->link_bandwidth / 1e9, p->link_latency * 1e6,
                       p->activation_bytes));
    }
    return buf_add_text(out, "],\n");
}

static enum status json_cache_table(struct buf *out, struct error *err)
{
    TRY(buf_add_text(out, "\"cache_table\":["));
    for (int i = 0; i < compare_cache_row_count(); i++) {
        struct compare_cache_row row;
        TRY(compare_cache_row(i, &row, err));
        TRY(buf_add_text(out, i > 0 ? ",\n{" : "\n{"));
        TRY(json_text(out, "method", row.method));
        TRY(buf_add_char(out, ','));
        TRY(json_text(out, "basis", row.basis));
        for (int d = 0; d < COMPARE_CACHE_DEGREES; d++)
            TRY(buf_printf(out, ",\"tp%d\":%g,\"tp%d_printed\":%s", compare_cache_degrees[d], row.units[d],
                           compare_cache_degrees[d], row.is_printed[d] ? "true" : "false"));
        TRY(buf_add_char(out, '}'));
    }
    return buf_add_text(out, "],\n");
}

static enum status json_sweeps(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "\"sweeps\":["));
    for (int i = 0; i < s->n_sweeps; i++) {
        TRY(buf_add_text(out, i > 0 ? ",\n{" : "\n{"));
        TRY(json_text(out, "name", s->sweeps[i].name));
        TRY(buf_add_char(out, ','));
        TRY(json_text(out, "title", s->sweeps[i].title));
        TRY(buf_add_char(out, ','));
        TRY(json_text(out, "refused", s->sweeps[i].refused));
        TRY(buf_add_char(out, '}'));
    }
    return buf_add_text(out, "],\n");
}

static enum status json_devices(const struct compare_result *r, struct buf *out)
{
    TRY(buf_add_text(out, ",\"devices\":["));
    for (int rank = 0; rank < r->n_devices; rank++) {
        TRY(buf_printf(out, "%s{\"rank\":%d", rank > 0 ? "," : "", rank));
        for (int c = 0; c < compare_device_column_count; c++) {
            TRY(buf_printf(out, ",\"%s_%s\":", compare_source_name(compare_device_columns[c].source),
                           compare_device_columns[c].key));
            TRY(json_number(out, compare_device_columns[c].value(r, rank)));
        }
        TRY(buf_add_char(out, '}'));
    }
    return buf_add_char(out, ']');
}

static enum status json_result(const struct compare_session *s, const struct compare_result *r, struct buf *out)
{
    TRY(buf_printf(out, "{\"sweep\":\"%s\",\"part\":\"%s\",", s->sweeps[r->sweep].name,
                   compare_part_name(r->point.part)));
    TRY(json_text(out, "formulation", r->point.formulation->name));
    TRY(buf_printf(out, ",\"ranks\":%d,\"context\":%lld,\"batch\":%d,\"cache\":\"%s\",", r->point.n_ranks,
                   (long long)r->point.context, r->point.batch, cache_type_name(r->point.cache_type)));
    TRY(json_text(out, "note", r->note));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++) {
            TRY(buf_add_text(out, ",\""));
            TRY(write_key(out, s, &compare_columns[c], p));
            TRY(buf_add_text(out, "\":"));
            TRY(json_number(out, compare_columns[c].value(s, r, p)));
        }
    TRY(json_devices(r, out));
    return buf_add_char(out, '}');
}

enum status compare_write_json(const struct compare_session *s, struct buf *out, struct error *err)
{
    TRY(buf_add_char(out, '{'));
    TRY(json_text(out, "when", s->when));
    TRY(buf_add_char(out, ','));
    TRY(json_text(out, "processor", s->host.processor));
    TRY(buf_printf(out, ",\"cores\":%d,\"kernels\":\"%s\",\"weights\":\"%s\",\"block_size\":%d,\"repeats\":%d,"
                        "\"device_memory\":%lld,\"seconds\":%.1f,\"interrupted\":%s,\n", s->host.n_cores,
                   s->settings.kernels->name, weight_type_name(s->settings.weight_type), s->settings.block_size,
                   s->settings.n_repeats, (long long)s->settings.device_memory, s->seconds,
                   s->was_interrupted ? "true" : "false"));
    TRY(json_profiles(s, out));
    TRY(json_cache_table(out, err));
    TRY(json_sweeps(s, out));
    TRY(buf_add_text(out, "\"results\":["));
    for (int i = 0; i < s->n_results; i++) {
        TRY(buf_add_text(out, i > 0 ? ",\n" : "\n"));
        TRY(json_result(s, &s->results[i], out));
    }
    return buf_add_text(out, "]}\n");
}

/* ---- Markdown ---- */

static enum status markdown_cache_table(struct buf *out, struct error *err)
{
    TRY(buf_add_text(out, "## Cache per token and device\n\nUnits of one head (128 elements), one layer, 64 heads. "
                          "`*`: computed here; the others are also printed in the paper.\n\n"
                          "| method | TP 1 | TP 2 | TP 4 | TP 8 | from |\n|---|--:|--:|--:|--:|---|\n"));
    for (int i = 0; i < compare_cache_row_count(); i++) {
        struct compare_cache_row row;
        TRY(compare_cache_row(i, &row, err));
        TRY(buf_printf(out, "| %s |", row.method));
        for (int d = 0; d < COMPARE_CACHE_DEGREES; d++)
            TRY(buf_printf(out, " %g%s |", row.units[d], row.is_printed[d] ? "" : " \\*"));
        TRY(buf_printf(out, " %s |\n", row.basis));
    }
    return buf_add_char(out, '\n');
}

static enum status markdown_header(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "| formulation | TP | context | batch | cache |"));
    int n = 0;
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++, n++) {
            const struct compare_column *column = &compare_columns[c];
            const char *by = column->source == COMPARE_MODELLED ? s->settings.profiles[p].name : "";
            TRY(buf_printf(out, " %s (%s%s%s) |", column->title, compare_source_name(column->source),
                           *by ? " " : "", by));
        }
    TRY(buf_add_text(out, "\n|---|--:|--:|--:|---|"));
    for (int i = 0; i < n; i++)
        TRY(buf_add_text(out, "--:|"));
    return buf_add_char(out, '\n');
}

static enum status markdown_row(const struct compare_session *s, const struct compare_result *r, struct buf *out)
{
    TRY(buf_printf(out, "| %s | %d | %lld | %d | %s |", r->point.formulation->name, r->point.n_ranks,
                   (long long)r->point.context, r->point.batch, cache_type_name(r->point.cache_type)));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++) {
            double value = compare_columns[c].value(s, r, p);
            if (isnan(value))
                TRY(buf_add_text(out, " - |"));
            else
                TRY(buf_printf(out, " %.*f |", compare_columns[c].decimals, value));
        }
    return buf_add_char(out, '\n');
}

enum status compare_write_markdown(const struct compare_session *s, struct buf *out, struct error *err)
{
    TRY(buf_printf(out, "# latentd compare\n\n%s, %s, %d cores, %s kernels, %.0f s%s.\n\n", s->when, s->host.processor,
                   s->host.n_cores, s->settings.kernels->name, s->seconds,
                   s->was_interrupted ? ", interrupted: some points are missing" : ""));
    TRY(markdown_cache_table(out, err));
    for (int sweep = 0; sweep < s->n_sweeps; sweep++) {
        TRY(buf_printf(out, "## %s\n\n", s->sweeps[sweep].title));
        if (s->sweeps[sweep].refused[0] != '\0')
            TRY(buf_printf(out, "Not valid: %s.\n\n", s->sweeps[sweep].refused));
        TRY(markdown_header(s, out));
        for (int i = 0; i < s->n_results; i++)
            if (s->results[i].sweep == sweep)
                TRY(markdown_row(s, &s->results[i], out));
        TRY(buf_add_char(out, '\n'));
    }
    return STATUS_OK;
}
