/* test_load_cost - a million events through parser and statistics cost the client under 10 us each. */
#include "base/clock.h"
#include "bench/load_chunk.h"
#include "bench/load_sse.h"
#include "bench/load_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(LATENTD_DEBUG)
enum { IS_SLOW_BUILD = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { IS_SLOW_BUILD = 1 };
#else
enum { IS_SLOW_BUILD = 0 };
#endif
#else
enum { IS_SLOW_BUILD = 0 };
#endif

static const char chat_event[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1795000000,"
    "\"model\":\"demo\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,"
    "\"finish_reason\":null}]}\n\n";

struct counts {
    struct load_series gaps;
    int64_t last_ns;
    size_t n_chunks;
};

static enum status on_event(void *context, const struct load_sse_event *event, struct error *err)
{
    struct counts *counts = context;
    struct load_chunk chunk;
    TRY(load_chunk_parse(&chunk, event->data, event->len, err));
    int64_t now_ns = clock_now_ns();
    if (chunk.text_bytes > 0) {
        load_series_push(&counts->gaps, (double)(now_ns - counts->last_ns) / 1e6);
        counts->n_chunks++;
    }
    counts->last_ns = now_ns;
    return STATUS_OK;
}

static void a_million_events_cost_under_10_us_each(void **state)
{
    (void)state;
    size_t n_events = IS_SLOW_BUILD ? 50000 : 1000000;
    struct counts counts = { 0 };
    struct load_sse sse;
    struct load_sse_sink sink = { .on_event = on_event, .context = &counts };
    load_sse_init(&sse, 1 << 20);
    load_series_init(&counts.gaps, n_events);
    int64_t start_ns = clock_thread_cpu_ns();
    for (size_t i = 0; i < n_events; i++) {
        /* Each event in two pieces, cut at a moving place: the dear way. */
        size_t cut = i % (sizeof chat_event - 1);
        assert_int_equal(load_sse_feed(&sse, chat_event, cut, &sink, NULL), STATUS_OK);
        assert_int_equal(load_sse_feed(&sse, chat_event + cut, sizeof chat_event - 1 - cut, &sink, NULL),
                         STATUS_OK);
    }
    struct load_summary summary = load_series_summarise(&counts.gaps);
    double us = (double)(clock_thread_cpu_ns() - start_ns) / 1e3 / (double)n_events;
    assert_int_equal(counts.n_chunks, n_events);
    assert_int_equal(summary.n, n_events);
    printf("%zu events, %.2f us each, percentiles included\n", n_events, us);
    if (!IS_SLOW_BUILD && us >= 10)
        fail_msg("%.2f us per event", us);
    load_sse_clear(&sse);
    load_series_clear(&counts.gaps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_events_cost_under_10_us_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
