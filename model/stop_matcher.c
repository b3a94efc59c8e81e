#include "model/stop_matcher.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One stop string followed through the text (Knuth, Morris, Pratt): `matched`
 * is the longest beginning of it that the text so far ends with, and
 * border[k] the next shorter one to try when byte k does not go on. */
struct pattern {
    size_t len;
    size_t matched;
    char *text;                 /* [max_bytes] */
    uint16_t *border;           /* [max_bytes] */
};

struct stop_matcher {
    struct stop_limits limits;      /* fixed at create */
    char *texts;                    /* [max_stops][max_bytes] */
    uint16_t *borders;              /* [max_stops][max_bytes] */
    int n_patterns;                 /* fixed at start */
    int include_stop;
    size_t pushed;                  /* bytes of text seen */
    struct stop_result result;      /* the last answer */
    struct pattern patterns[];      /* [max_stops] */
};

enum status stop_matcher_create(struct stop_matcher **out, const struct stop_limits *limits,
                                struct error *err)
{
    assert(limits->max_stops > 0 && limits->max_bytes > 0 && limits->max_bytes <= UINT16_MAX);
    size_t n = (size_t)limits->max_stops, bytes = limits->max_bytes;
    struct stop_matcher *m = calloc(1, sizeof *m + n * sizeof m->patterns[0]);
    if (m == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a stop matcher");
    m->limits = *limits;
    m->texts = calloc(n, bytes);
    m->borders = calloc(n, bytes * sizeof *m->borders);
    if (m->texts == NULL || m->borders == NULL) {
        stop_matcher_destroy(m);
        return fail(err, STATUS_NO_MEMORY, "no memory for %d stop strings of %zu bytes", limits->max_stops,
                    bytes);
    }
    for (size_t i = 0; i < n; i++) {
        m->patterns[i].text = m->texts + i * bytes;
        m->patterns[i].border = m->borders + i * bytes;
    }
    *out = m;
    return STATUS_OK;
}

void stop_matcher_destroy(struct stop_matcher *m)
{
    if (m == NULL)
        return;
    free(m->texts);
    free(m->borders);
    free(m);
}

enum status stop_strings_check(const struct stop_string *stops, int n_stops,
                               const struct stop_limits *limits, struct error *err)
{
    if (n_stops < 0 || n_stops > limits->max_stops)
        return fail(err, STATUS_BAD_REQUEST, "'stop' may have at most %d strings, got %d",
                    limits->max_stops, n_stops);
    for (int i = 0; i < n_stops; i++) {
        if (stops[i].len == 0)
            return fail(err, STATUS_BAD_REQUEST, "'stop' string %d is empty", i);
        if (stops[i].len > limits->max_bytes)
            return fail(err, STATUS_BAD_REQUEST, "'stop' string %d has %zu bytes, limit %zu",
                        i, stops[i].len, limits->max_bytes);
        if (!utf8_is_valid(stops[i].text, stops[i].len))
            return fail(err, STATUS_BAD_REQUEST, "'stop' string %d is not valid UTF-8", i);
    }
    return STATUS_OK;
}

/* The longest beginning of p that the text ends with after one more byte, given
 * that it was `matched` before; matched < p->len. */
static size_t follow(const struct pattern *p, size_t matched, char byte)
{
    while (matched > 0 && p->text[matched] != byte)
        matched = p->border[matched];
    return p->text[matched] == byte ? matched + 1 : 0;
}

/* border[k]: the longest proper beginning of text[0..k) that is also its end. */
static void pattern_init(struct pattern *p, const struct stop_string *stop)
{
    memcpy(p->text, stop->text, stop->len);
    p->len = stop->len;
    p->matched = 0;
    p->border[0] = 0;
    for (size_t k = 1, border = 0; k < p->len; k++) {
        p->border[k] = (uint16_t)border;
        border = follow(p, border, p->text[k]);
    }
}

void stop_matcher_start(struct stop_matcher *m, const struct stop_string *stops, int n_stops,
                        int include_stop)
{
    assert(n_stops >= 0 && n_stops <= m->limits.max_stops);
    for (int i = 0; i < n_stops; i++) {
        assert(stops[i].len > 0 && stops[i].len <= m->limits.max_bytes);
        pattern_init(&m->patterns[i], &stops[i]);
    }
    m->n_patterns = n_stops;
    m->include_stop = include_stop;
    m->pushed = 0;
    m->result = (struct stop_result){ .which = -1 };
}

/* One byte into every pattern; the index of the longest that is complete now, or -1. */
static int push_byte(struct stop_matcher *m, char byte)
{
    int which = -1;
    for (int i = 0; i < m->n_patterns; i++) {
        struct pattern *p = &m->patterns[i];
        p->matched = follow(p, p->matched, byte);
        if (p->matched == p->len && (which < 0 || p->len > m->patterns[which].len))
            which = i;
    }
    return which;
}

struct stop_result stop_matcher_push(struct stop_matcher *m, const char *text, size_t len)
{
    if (m->result.stopped)
        return m->result;
    for (size_t i = 0; i < len && m->n_patterns > 0; i++) {
        int which = push_byte(m, text[i]);
        if (which < 0)
            continue;
        size_t end = m->pushed + i + 1;
        m->result = (struct stop_result){
            .safe = m->include_stop ? end : end - m->patterns[which].len,
            .stopped = 1,
            .which = which,
        };
        return m->result;
    }
    m->pushed += len;
    size_t held = 0;
    for (int i = 0; i < m->n_patterns; i++)
        held = m->patterns[i].matched > held ? m->patterns[i].matched : held;
    m->result.safe = m->pushed - held;
    return m->result;
}

struct stop_result stop_matcher_finish(struct stop_matcher *m)
{
    if (!m->result.stopped)
        m->result.safe = m->pushed;
    return m->result;
}
