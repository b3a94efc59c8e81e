/* load_run.h - one run: warm-up, then the plan's requests, then what is under way.
 *
 *   closed loop   max_in_flight requests at any moment; the next starts when one
 *                 ends, until n_requests or duration
 *   open loop     request i starts when it is due; while max_in_flight are under
 *                 way it waits, and that wait is the client queue
 *
 *   |-- warm-up --|------------- measured -------------|--- grace ---|
 *                 start_ns                        duration over:      what still runs
 *                                                 no new requests     is UNFINISHED
 *
 * The warm-up is a closed loop of its own; none of its samples is kept.  One
 * thread does all; an open-loop request starts within the millisecond of libuv's
 * timer, and that lateness is part of its client queue.  SIGINT ends the run early:
 * what is under way is UNFINISHED, and the result says was_interrupted.
 *
 * Owner: the calling thread; the call returns when the run is over.
 * Memory: the records at start, one request object per place in flight.
 */
#ifndef BENCH_LOAD_RUN_H
#define BENCH_LOAD_RUN_H

#include "bench/load_arrival.h"
#include "bench/load_dataset.h"
#include "bench/load_result.h"
#include "bench/load_server.h"

#define LOAD_MAX_IN_FLIGHT 16384
#define LOAD_MAX_TIMED 1000000          /* requests of a closed loop that only time ends */

struct load_progress {
    double elapsed_s;
    int is_warm_up;
    size_t n_started, n_ended, n_failed, n_in_flight;
    size_t n_planned;               /* 0: until the time is over */
    double requests_per_s;          /* ended since the last report */
    double chunks_per_s;            /* with text, since the last report */
};

struct load_run_options {
    const struct load_server *server;
    const struct load_dataset *dataset;
    const char *model;
    enum load_endpoint endpoint;
    int is_streamed;                /* ask for a stream of events */
    int ignore_eos;                 /* ask for exactly the planned number of tokens */
    double temperature;
    const char *extra_fields;       /* "\"top_k\":1": put into each request's object; "" for none */
    const struct load_arrival *arrival;     /* NULL: closed loop */
    size_t n_requests;              /* closed loop: how many, 0: until the time is over */
    size_t max_in_flight;           /* 1 .. LOAD_MAX_IN_FLIGHT */
    size_t n_warm_up;
    double duration_s;              /* 0: no limit */
    double grace_s;                 /* after duration_s, for what is under way */
    double timeout_s;               /* of one request, > 0 */
    double cancel_rate;             /* 0 .. 1: the share of requests given up */
    double cancel_after_s;
    size_t max_failures;            /* the run stops starting requests then; 0: no limit */
    uint64_t seed;
    struct load_goals goals;
    void (*on_progress)(void *context,
                        const struct load_progress *progress); /* twice a second; may be NULL */
    void *context;
};

/* The caller gives *out to load_result_destroy.
 * IO: the host has no address, or libuv has no loop.  NO_MEMORY.  A server that
 * fails or is not there is not a failure of this call: the records tell. */
MUST_CHECK enum status load_run(struct load_result **out, const struct load_run_options *options,
                                struct error *err);

/* Append the body of request `index`; lengths as planned.  Failures of buf_add. */
MUST_CHECK enum status load_run_write_body(const struct load_run_options *options, size_t index,
                                           struct buf *out, struct load_lengths *lengths);

#endif
