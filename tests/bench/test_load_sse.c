/* test_load_sse - events come out the same wherever the stream is cut, in every framing servers use. */
#include "base/rng.h"
#include "bench/load_sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What came out, written down as "[name|data]..". */
struct heard {
    char text[4096];
    size_t len;
    size_t fail_at;             /* the event that the sink refuses, from 1; 0: none */
    size_t n;
};

static enum status hear(void *context, const struct load_sse_event *event, struct error *err)
{
    (void)err;
    struct heard *h = context;
    h->n++;
    if (h->n == h->fail_at)
        return STATUS_BAD_REQUEST;
    assert_int_equal(strlen(event->data), event->len);
    h->len += (size_t)snprintf(h->text + h->len, sizeof h->text - h->len, "[%s|%s]", event->name,
                               event->data);
    return STATUS_OK;
}

/* Feed text cut at the given places and finish. */
static void feed_cut(struct load_sse *sse, const char *text, size_t n, const size_t *cuts, size_t n_cuts,
                     struct heard *heard)
{
    struct load_sse_sink sink = { .on_event = hear, .context = heard };
    size_t at = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cuts[i] : n;
        /* A copy of the exact size, so that a read past the piece is seen. */
        char *piece = malloc(end - at + 1);
        memcpy(piece, text + at, end - at);
        assert_int_equal(load_sse_feed(sse, piece, end - at, &sink, NULL), STATUS_OK);
        free(piece);
        at = end;
    }
    assert_int_equal(load_sse_finish(sse, &sink, NULL), STATUS_OK);
}

static const struct {
    const char *text, *events;
} framings[] = {
    { "data: a\n\ndata: b\n\n", "[|a][|b]" },
    { "data: a\r\n\r\ndata: b\r\n\r\n", "[|a][|b]" },
    { "data: a\r\rdata: b\r\r", "[|a][|b]" },
    { "event: e\r\ndata: a\r\ndata: b\r\n\r\n", "[e|a\nb]" },     /* the LF of a CRLF is no empty line */
    { "data:a\n\ndata:  b\n\n", "[|a][| b]" },
    { "data: a\ndata: b\n\n", "[|a\nb]" },
    { "data: a\ndata\ndata: c\n\n", "[|a\n\nc]" },
    { "data:\n\n", "[|]" },
    { ": ping\n\ndata: a\n\n: ping\n\ndata: b\n\n", "[|a][|b]" },
    { "event: error\ndata: x\n\ndata: y\n\n", "[error|x][|y]" },
    { "event: lost\n\ndata: y\n\n", "[|y]" },
    { "id: 7\nretry: 10\nunknown: z\ndata: a\n\n", "[|a]" },
    { "\xef\xbb\xbf" "data: a\n\n", "[|a]" },
    { "data: {\"t\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}\n\n", "[|{\"t\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}]" },
    { "data: a:b: c\n\n", "[|a:b: c]" },
    { "data: a\n\ndata: [DONE]", "[|a][|[DONE]]" },
    { "data: a\n\ndata: b\n", "[|a][|b]" },
    { "\n\n\r\n\rdata: a\n\n\n\n", "[|a]" },
    { "datax: a\ndat: b\n\n", "" },
    { "", "" },
};

static void every_framing_at_every_pair_of_cuts(void **state)
{
    (void)state;
    struct load_sse sse;
    load_sse_init(&sse, 1024);
    for (size_t f = 0; f < sizeof framings / sizeof framings[0]; f++) {
        size_t n = strlen(framings[f].text);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++) {
                struct heard heard = { 0 };
                load_sse_reset(&sse);
                feed_cut(&sse, framings[f].text, n, (size_t[]){ a, b }, 2, &heard);
                assert_string_equal(heard.text, framings[f].events);
                assert_int_equal(sse.n_events, heard.n);
            }
    }
    load_sse_clear(&sse);
}

static void all_framings_one_byte_at_a_time(void **state)
{
    (void)state;
    struct load_sse sse;
    load_sse_init(&sse, 1024);
    for (size_t f = 0; f < sizeof framings / sizeof framings[0]; f++) {
        size_t cuts[128], n = strlen(framings[f].text);
        for (size_t i = 0; i < n; i++)
            cuts[i] = i + 1;
        struct heard heard = { 0 };
        load_sse_reset(&sse);
        feed_cut(&sse, framings[f].text, n, cuts, n, &heard);
        assert_string_equal(heard.text, framings[f].events);
    }
    load_sse_clear(&sse);
}

static void comments_are_counted_and_say_nothing(void **state)
{
    (void)state;
    struct load_sse sse;
    load_sse_init(&sse, 1024);
    struct heard heard = { 0 };
    const char *text = ": a\n\n:\n:b\n\ndata: x\n\n";
    feed_cut(&sse, text, strlen(text), NULL, 0, &heard);
    assert_int_equal(sse.n_comments, 3);
    assert_int_equal(sse.n_events, 1);
    load_sse_clear(&sse);
}

static void an_event_past_the_limit_is_refused_however_it_comes(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'x', sizeof text);
    memcpy(text, "data: ", 6);
    for (size_t step = 1; step <= sizeof text; step += 13) {
        struct load_sse sse;
        struct heard heard = { 0 };
        struct error err = { 0 };
        struct load_sse_sink sink = { .on_event = hear, .context = &heard };
        load_sse_init(&sse, 100);
        enum status s = STATUS_OK;
        for (size_t at = 0; at < sizeof text && s == STATUS_OK; at += step)
            s = load_sse_feed(&sse, text + at, sizeof text - at < step ? sizeof text - at : step, &sink,
                              &err);
        assert_int_equal(s, STATUS_TOO_LARGE);
        assert_non_null(strstr(err.text, "100 bytes"));
        load_sse_clear(&sse);
    }
    struct load_sse sse;
    struct heard heard = { 0 };
    struct load_sse_sink sink = { .on_event = hear, .context = &heard };
    load_sse_init(&sse, 100);
    enum status s = STATUS_OK;
    for (int i = 0; i < 30 && s == STATUS_OK; i++)      /* many short lines of one event */
        s = load_sse_feed(&sse, "data: 12345\n", 12, &sink, NULL);
    assert_int_equal(s, STATUS_TOO_LARGE);
    load_sse_clear(&sse);
}

static void a_refusing_sink_ends_the_feed(void **state)
{
    (void)state;
    struct load_sse sse;
    struct heard heard = { .fail_at = 2 };
    struct load_sse_sink sink = { .on_event = hear, .context = &heard };
    load_sse_init(&sse, 100);
    const char *text = "data: a\n\ndata: b\n\ndata: c\n\n";
    assert_int_equal(load_sse_feed(&sse, text, strlen(text), &sink, NULL), STATUS_BAD_REQUEST);
    assert_string_equal(heard.text, "[|a]");
    load_sse_clear(&sse);
}

static void random_bytes_never_break_it(void **state)
{
    (void)state;
    static const char alphabet[] = "data: \n\r:event[]\x00\xef\xbb\xbf";
    struct rng rng;
    rng_seed(&rng, 3);
    struct load_sse sse;
    load_sse_init(&sse, 64);
    for (int round = 0; round < 20000; round++) {
        struct heard heard = { 0 };
        char text[48];
        size_t n = rng_below(&rng, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
        struct heard whole = { 0 };
        load_sse_reset(&sse);
        struct load_sse_sink sink = { .on_event = hear, .context = &whole };
        /* A NUL in data makes strlen differ from len: leave those to the limits. */
        if (memchr(text, 0, n) != NULL)
            continue;
        enum status s = load_sse_feed(&sse, text, n, &sink, NULL);
        assert_int_equal(s, STATUS_OK);
        assert_int_equal(load_sse_finish(&sse, &sink, NULL), STATUS_OK);
        load_sse_reset(&sse);
        size_t cut = rng_below(&rng, n + 1);
        feed_cut(&sse, text, n, &cut, 1, &heard);
        assert_string_equal(heard.text, whole.text);
    }
    load_sse_clear(&sse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_framing_at_every_pair_of_cuts),
        cmocka_unit_test(all_framings_one_byte_at_a_time),
        cmocka_unit_test(comments_are_counted_and_say_nothing),
        cmocka_unit_test(an_event_past_the_limit_is_refused_however_it_comes),
        cmocka_unit_test(a_refusing_sink_ends_the_feed),
        cmocka_unit_test(random_bytes_never_break_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
