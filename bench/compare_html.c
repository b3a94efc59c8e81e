#include "bench/compare_html.h"

#include "base/file.h"
#include "bench/compare_cache_table.h"
#include "bench/compare_column.h"
#include "bench/compare_figures.h"
#include "bench/compare_plot.h"
#include "bench/compare_summary.h"
#include "bench/load_html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char style[] =
    "<style>:root{color-scheme:light dark;--paper:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--faint:#e1e0d9;"
    "--c0:#2a78d6;--c1:#d6541c;--c2:#148f63;--c3:#7a4cc2;--c4:#b8870b;--c5:#c2387d;--c6:#3f8f9f;--c7:#77756c}"
    "@media(prefers-color-scheme:dark){:root{--paper:#1a1a19;--ink:#fff;--soft:#c3c2b7;--faint:#383835;"
    "--c0:#5a9df0;--c1:#f0824f;--c2:#3fc796;--c3:#a98be6;--c4:#d9ad3b;--c5:#e673ab;--c6:#6fc1d1;--c7:#a9a79d}}"
    "@media print{:root{--paper:#fff;--ink:#000;--soft:#333;--faint:#ccc}details::details-content"
    "{content-visibility:visible;display:block;block-size:auto}table{font-size:8px;overflow:visible}"
    "figure,tr{break-inside:avoid}.uplot{display:none!important}figure svg{display:block!important}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1180px;padding:0 1rem;"
    "background:var(--paper);color:var(--ink)}h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2.2rem}"
    "h3{font-size:1rem;margin-bottom:.3rem}p,dd{color:var(--soft);margin:.2rem 0;max-width:52rem}"
    "dt{font-weight:600;width:max-content;padding:0 .3rem;margin:.4rem 0 0 -.3rem}dd{margin-left:0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}"
    "th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--faint);white-space:nowrap}"
    "th:first-child,td:first-child,.text{text-align:left}th{color:var(--soft);font-weight:600}"
    "td.text{white-space:normal;min-width:18rem}.measured{background:#2a78d61a}.modelled{background:#d6a01c1a;font-style:italic}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:.5rem 1.5rem;"
    "align-items:end}figure{margin:.6rem 0;max-width:620px;min-width:0;overflow-x:auto}figcaption{font-weight:600}"
    "svg{width:100%;min-width:340px;display:block}svg text{font:13px system-ui,sans-serif;"
    "fill:var(--soft)}svg .grid{stroke:var(--faint)}svg .line{fill:none;stroke-width:2}"
    "summary{cursor:pointer;color:var(--soft)}</style>\n";

/* Puts uPlot in the drawings' place, when its text stands above. */
static const char chart_script[] =
    "<script>for(const f of document.querySelectorAll('figure.plot')){"
    "const d=JSON.parse(f.querySelector('script').textContent);"
    "const v=n=>getComputedStyle(document.documentElement).getPropertyValue(n).trim();"
    "const axis=l=>({label:l,stroke:v('--soft'),grid:{stroke:v('--faint')},ticks:{stroke:v('--faint')}});"
    "const data=uPlot.join(d.curves.map(c=>{const i=[...c.x.keys()].sort((a,b)=>c.x[a]-c.x[b]);"
    "return[i.map(k=>c.x[k]),i.map(k=>c.y[k])]}));"
    "const scale=l=>l?{distr:3,log:l,time:false}:{time:false,range:(u,a,b)=>[0,b*1.05]};"
    "const svg=f.querySelector('svg');"
    "new uPlot({width:f.clientWidth,height:Math.round(f.clientWidth*.56),"
    "scales:{x:scale(d.xlog),y:scale(d.ylog)},axes:[axis(d.xlabel),axis(d.ylabel)],"
    "series:[{label:d.xlabel},...d.curves.map((c,i)=>({label:c.name,stroke:v('--c'+i%8),width:c.dots?0:2,"
    "dash:i>7?[5,3]:undefined,points:{show:!c.bare,size:6,fill:v('--c'+i%8)},spanGaps:true}))]},data,f);"
    "svg.style.display='none'}</script>\n";

static enum status add_escaped(struct buf *out, const char *before, const char *text, const char *after)
{
    TRY(buf_add_text(out, before));
    TRY(load_html_escape(out, text));
    return buf_add_text(out, after);
}

/* ---- the head of the page ---- */

enum status compare_add_library(const char *dir, struct buf *out, struct error *err)
{
    if (dir == NULL)
        return STATUS_OK;
    char path[4096];
    snprintf(path, sizeof path, "%s/uPlot.min.css", dir);
    TRY(buf_add_text(out, "<style>"));
    TRY(file_read(path, out, err));
    snprintf(path, sizeof path, "%s/uPlot.iife.min.js", dir);
    TRY(buf_add_text(out, "</style>\n<script>"));
    TRY(file_read(path, out, err));
    return buf_add_text(out, "</script>\n");
}

static enum status write_machine(const struct compare_session *s, struct buf *out)
{
    const struct compare_settings *o = &s->settings;
    TRY(buf_printf(out, "<p>%s, %.0f seconds. ", s->when, s->seconds));
    TRY(load_html_escape(out, s->host.processor));
    TRY(buf_printf(out, ", %d usable cores; %s kernels, %s weights, cache blocks of %d tokens, median of %d samples "
                        "with cold caches.</p>\n", s->host.n_cores, o->kernels->name,
                   weight_type_name(o->weight_type), o->block_size, o->n_repeats));
    if (s->was_interrupted)
        TRY(buf_add_text(out, "<p><b>The run was interrupted: points after that are missing.</b></p>\n"));
    return buf_printf(out, "<p>Measured on this machine, one core: %.1f GFLOP/s, %.1f GB/s from memory; a barrier "
                           "between two cores takes %.0f ns. Device memory for &#8220;tokens that fit&#8221;: %.1f GB.</p>\n",
                      s->host.profile.peak_flops / 1e9, s->host.profile.bandwidth / 1e9, s->host.barrier_ns,
                      (double)o->device_memory / 1e9);
}

static enum status write_words(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "<h2>How to read it</h2>\n<dl><dt>counted<dd>arithmetic over the shapes; nothing is run"
                          "<dt class=\"measured\">measured<dd>a clock of this machine. Device time is what the step "
                          "would take if every rank had a core of its own: the busiest rank's CPU time plus its "
                          "collectives. It is no prediction for other hardware"
                          "<dt class=\"modelled\">modelled<dd>a roofline with a profile's numbers; real kernels are "
                          "slower<dt>TP n<dd>on n devices, each with its share of heads, weights and cache"
                          "<dt>speed-up<dd>time of the first contender of a table, divided by this one's; above 1 is "
                          "faster<dt>faster past<dd>the number of cached tokens (batch &#215; context) from which on "
                          "the contender is faster than the first one, interpolated between the contexts that were "
                          "run<dt>fewer bytes past<dd>the same for the bytes of weights and cache that the busiest "
                          "device must read in a step; arithmetic alone</dl>\n<details><summary>Every column</summary><dl>"));
    for (int c = 0; c < compare_column_count; c++)
        TRY(buf_printf(out, "<dt>%s (%s)<dd>%s\n", compare_columns[c].title,
                       compare_source_name(compare_columns[c].source), compare_columns[c].help));
    TRY(buf_add_text(out, "</dl></details>\n<table><tr><th>profile<th>TFLOP/s<th>GB/s<th>GB<th>link GB/s"
                          "<th>collective &#181;s<th class=\"text\">source</tr>\n"));
    for (int i = 0; i < s->settings.n_profiles; i++) {
        const struct compare_profile *p = &s->settings.profiles[i];
        TRY(add_escaped(out, "<tr><td>", p->name, ""));
        TRY(buf_printf(out, "<td>%.4g<td>%.4g", p->peak_flops / 1e12, p->bandwidth / 1e9));
        TRY(p->memory > 0 ? buf_printf(out, "<td>%.4g", p->memory / 1e9) : buf_add_text(out, "<td>-"));
        TRY(buf_printf(out, "<td>%.4g<td>%.3g", p->link_bandwidth / 1e9, p->link_latency * 1e6));
        TRY(add_escaped(out, "<td class=\"text\">", p->source, "</tr>\n"));
    }
    return buf_add_text(out, "</table>\n");
}

static enum status write_cache(struct buf *out, struct error *err)
{
    TRY(buf_add_text(out, "<h2>Cache per token and device</h2>\n<p>In head widths of 128 elements, one layer, 64 heads, "
                          "8 KV groups. * computed here; the others are printed in the paper too.</p>\n"
                          "<table><tr><th>method<th>TP 1<th>TP 2<th>TP 4<th>TP 8<th class=\"text\">from</tr>\n"));
    for (int i = 0; i < compare_cache_row_count(); i++) {
        struct compare_cache_row row;
        TRY(compare_cache_row(i, &row, err));
        TRY(add_escaped(out, "<tr><td>", row.method, ""));
        for (int d = 0; d < COMPARE_CACHE_DEGREES; d++)
            TRY(buf_printf(out, "<td>%g%s", row.units[d], row.is_printed[d] ? "" : "&#160;*"));
        TRY(add_escaped(out, "<td class=\"text\">", row.basis, "</tr>\n"));
    }
    TRY(buf_add_text(out, "</table>\n<div class=\"plots\">"));
    TRY(compare_figure_cache(out, err));
    return buf_add_text(out, "</div>\n");
}

/* ---- a table of one sweep, batch and cache type ---- */

static enum status write_tokens(struct buf *out, double tokens)
{
    if (isnan(tokens))
        return buf_add_text(out, "<td>-");
    if (isinf(tokens))
        return buf_add_text(out, "<td>never");
    return tokens == 0 ? buf_add_text(out, "<td>always") : buf_printf(out, "<td>%.0f", tokens);
}

static enum status write_cell(const struct compare_session *s, const struct compare_result *r, int profile,
                              struct buf *out)
{
    if (r == NULL)
        return buf_add_text(out, "<td colspan=\"2\">-");
    if (profile >= 0)
        return buf_printf(out, "<td class=\"modelled\">%.4f<td class=\"modelled\">%.2f", r->modelled_s[profile] * 1e3,
                          compare_modelled_speedup(s, r, profile));
    if (!r->is_measured)
        return add_escaped(out, "<td colspan=\"2\">", r->note, "");
    return buf_printf(out, "<td class=\"measured\">%.3f<td class=\"measured\">%.2f", r->device_ns / 1e6,
                      compare_speedup(s, r));
}

/* The kernel alone has no weights that could be paid back; the first contender
 * is not compared with itself. */
static int has_crossings(const struct compare_session *s, const struct compare_result *line)
{
    return s->sweeps[line->sweep].part > COMPARE_KERNEL && compare_baseline(s, line) != line;
}

/* Contenders down, contexts across: those of the table's first line. */
static enum status write_line(const struct compare_session *s, const struct compare_result *table,
                              const struct compare_result *line, int profile, struct buf *out)
{
    char label[64];
    compare_label(line, label, sizeof label);
    TRY(add_escaped(out, "<tr><td>", label, ""));
    for (int i = 0; i < s->n_results; i++)
        if (compare_same_line(&s->results[i], table))
            TRY(write_cell(s, compare_at_context(s, line, s->results[i].point.context), profile, out));
    struct compare_crossing crossing = { NAN, NAN, NAN };
    if (has_crossings(s, line))
        compare_find_crossing(s, line, profile, &crossing);
    if (s->sweeps[line->sweep].part > COMPARE_KERNEL) {
        TRY(write_tokens(out, profile < 0 ? crossing.measured : crossing.modelled));
        TRY(write_tokens(out, crossing.counted));
    }
    return buf_add_text(out, "</tr>\n");
}

/* 131072 is written 128 K. */
static enum status write_context(int64_t tokens, struct buf *out)
{
    if (tokens % (1 << 20) == 0)
        return buf_printf(out, "<th colspan=\"2\">%lld M", (long long)(tokens >> 20));
    if (tokens % 1024 == 0)
        return buf_printf(out, "<th colspan=\"2\">%lld K", (long long)(tokens >> 10));
    return buf_printf(out, "<th colspan=\"2\">%lld", (long long)tokens);
}

static enum status write_matrix(const struct compare_session *s, const struct compare_result *table, int profile,
                                struct buf *out)
{
    TRY(add_escaped(out, "<h3>", profile < 0 ? "Measured device time" : "Modelled on ", ""));
    TRY(load_html_escape(out, profile < 0 ? "" : s->settings.profiles[profile].name));
    TRY(buf_printf(out, ", batch %d, %s cache: ms and speed-up at a context of so many tokens</h3>\n"
                        "<table><tr><th>contender", table->point.batch, cache_type_name(table->point.cache_type)));
    for (int i = 0; i < s->n_results; i++)
        if (compare_same_line(&s->results[i], table))
            TRY(write_context(s->results[i].point.context, out));
    if (s->sweeps[table->sweep].part > COMPARE_KERNEL)
        TRY(buf_add_text(out, "<th>faster past, tokens<th>fewer bytes past, tokens (counted)"));
    TRY(buf_add_text(out, "</tr>\n"));
    for (int i = 0; i < s->n_results; i++)
        if (compare_same_batch(&s->results[i], table) && compare_is_first(s, &s->results[i]))
            TRY(write_line(s, table, &s->results[i], profile, out));
    return buf_add_text(out, "</table>\n");
}

/* ---- every column ---- */

static int copies(const struct compare_session *s, const struct compare_column *c)
{
    return c->source == COMPARE_MODELLED ? s->settings.n_profiles : 1;
}

static enum status write_all_header(const struct compare_session *s, struct buf *out)
{
    TRY(buf_add_text(out, "<table><tr><th>contender<th>context<th>batch<th>cache"));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++) {
            int is_modelled = compare_columns[c].source == COMPARE_MODELLED;
            TRY(buf_printf(out, "<th class=\"%s\">%s<br>%s ", compare_source_name(compare_columns[c].source),
                           compare_columns[c].title, compare_source_name(compare_columns[c].source)));
            TRY(load_html_escape(out, is_modelled ? s->settings.profiles[p].name : ""));
        }
    return buf_add_text(out, "</tr>\n");
}

static enum status write_all_row(const struct compare_session *s, const struct compare_result *r, struct buf *out)
{
    char label[64];
    compare_label(r, label, sizeof label);
    TRY(add_escaped(out, "<tr><td>", label, ""));
    TRY(buf_printf(out, "<td>%lld<td>%d<td>%s", (long long)r->point.context, r->point.batch,
                   cache_type_name(r->point.cache_type)));
    for (int c = 0; c < compare_column_count; c++)
        for (int p = 0; p < copies(s, &compare_columns[c]); p++) {
            double value = compare_columns[c].value(s, r, p);
            TRY(buf_printf(out, "<td class=\"%s\">", compare_source_name(compare_columns[c].source)));
            TRY(isnan(value) ? buf_add_char(out, '-') : buf_printf(out, "%.*f", compare_columns[c].decimals, value));
        }
    return buf_add_text(out, "</tr>\n");
}

static enum status write_all(const struct compare_session *s, int sweep, struct buf *out)
{
    TRY(buf_add_text(out, "<details><summary>Every number of every point (per step; of the busiest device)</summary>\n"));
    TRY(write_all_header(s, out));
    for (int i = 0; i < s->n_results; i++)
        if (s->results[i].sweep == sweep)
            TRY(write_all_row(s, &s->results[i], out));
    return buf_add_text(out, "</table></details>\n");
}

/* ---- a sweep ---- */

static enum status write_table_figures(const struct compare_session *s, const struct compare_result *table,
                                       int n_ranks, struct buf *out)
{
    TRY(compare_figure_speedup(s, table, n_ranks, -1, out));
    for (int p = 0; p < s->settings.n_profiles; p++)
        if (strcmp(s->settings.profiles[p].name, "host") != 0)
            TRY(compare_figure_speedup(s, table, n_ranks, p, out));
    return STATUS_OK;
}

static enum status write_figures(const struct compare_session *s, int sweep, struct buf *out)
{
    int degrees[COMPARE_MAX_RANKS], n = compare_figure_degrees(&s->sweeps[sweep], degrees);
    TRY(buf_add_text(out, "<div class=\"plots\">\n"));
    for (int i = 0; i < s->n_results; i++)
        for (int d = 0; d < n; d++)
            if (s->results[i].sweep == sweep && compare_is_first_of_batch(s, &s->results[i]))
                TRY(write_table_figures(s, &s->results[i], degrees[d], out));
    for (int d = 0; d < n; d++)
        TRY(compare_figure_roofline(s, sweep, degrees[d], out));
    int is_one = s->sweeps[sweep].n_entries <= COMPARE_PLOT_CURVES;
    for (int d = 0; d < (is_one ? 1 : n); d++)
        TRY(compare_figure_pareto(s, sweep, is_one ? 0 : degrees[d], out));
    return buf_add_text(out, "</div>\n");
}

static enum status write_contenders(const struct compare_sweep *sweep, struct buf *out)
{
    TRY(buf_add_text(out, "<details><summary>Who the contenders are</summary>\n<table><tr><th>name"
                          "<th class=\"text\">attention</tr>\n"));
    for (int f = 0; f < sweep->set.n; f++) {
        char text[320];
        compare_describe(&sweep->set.items[f], text, sizeof text);
        TRY(add_escaped(out, "<tr><td>", sweep->set.items[f].name, ""));
        TRY(add_escaped(out, "<td class=\"text\">", text, "</tr>\n"));
    }
    return buf_add_text(out, "</table></details>\n");
}

static int has_results(const struct compare_session *s, int sweep)
{
    for (int i = 0; i < s->n_results; i++)
        if (s->results[i].sweep == sweep)
            return 1;
    return 0;
}

static const char *part_words(enum compare_part part)
{
    static const char *const words[] = {
        "softmax attention over the cached rows, and W_UV; no projections, no collectives after it",
        "one attention layer with its projections and collectives",
        "one layer: attention, MLP and their collectives",
        "all layers and the head",
    };
    return words[part];
}

static enum status write_sweep(const struct compare_session *s, int sweep, struct buf *out)
{
    const struct compare_sweep *w = &s->sweeps[sweep];
    TRY(add_escaped(out, "<h2>", w->title, "</h2>\n"));
    TRY(buf_printf(out, "<p>Part: %s (%s). ", compare_part_name(w->part), part_words(w->part)));
    if (w->refused[0] != '\0')
        TRY(add_escaped(out, "Not valid: ", w->refused, "."));
    TRY(buf_add_text(out, "</p>\n"));
    if (!has_results(s, sweep))
        return buf_add_text(out, "<p>Not run: interrupted before its first point.</p>\n");
    TRY(write_contenders(w, out));
    for (int i = 0; i < s->n_results; i++) {
        const struct compare_result *r = &s->results[i];
        if (r->sweep != sweep || !compare_is_first_of_batch(s, r))
            continue;
        for (int p = -1; p < s->settings.n_profiles; p++)
            TRY(write_matrix(s, r, p, out));
    }
    TRY(write_figures(s, sweep, out));
    return write_all(s, sweep, out);
}

enum status compare_write_html(const struct compare_session *s, const char *chart_library, struct buf *out,
                               struct error *err)
{
    TRY(buf_add_text(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width\"><title>latentd compare</title>\n"));
    TRY(buf_add_text(out, style));
    TRY(compare_add_library(chart_library, out, err));
    TRY(buf_add_text(out, "<h1>latentd compare</h1>\n"));
    TRY(write_machine(s, out));
    TRY(write_words(s, out));
    TRY(write_cache(out, err));
    for (int i = 0; i < s->n_sweeps; i++)
        TRY(write_sweep(s, i, out));
    if (chart_library != NULL)
        TRY(buf_add_text(out, chart_script));
    return buf_add_text(out, "</html>\n");
}
