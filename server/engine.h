/* engine.h - the thread that turns requests into tokens.
 *
 *     loop thread                               engine thread = rank 0
 *     engine_submit(request)  --- submissions -->  admit, plan, step, sample,
 *     on_event <- loop_wake   <------ events -----  detokenise, match stops
 *
 * Both hand-overs are bounded queues.  The engine works while it has something to
 * do and sleeps otherwise.  When the event queue is full it waits for the loop;
 * the loop pauses requests whose clients do not read long before that.
 *
 * Order of events of one request:
 *     [PROMPT_TOKEN ..]  then per choice, interleaved:  TOKEN .. CHOICE_END
 *     then DONE                     (or FAILED at any point: nothing follows)
 *     an embedding request has EMBEDDING .. (rows of 64 numbers), then DONE.
 *
 * Text.  TOKEN.text is what has become visible with this token: whole characters,
 * never a part of a stop string; it may be empty, and may belong to earlier
 * tokens.  If it does not fit into one event, TEXT events come before it.  The
 * texts of a choice, one after the other, are the reply.
 *
 * Threads: as each function says.  Memory: at create, and when a request is taken
 * in, on the engine thread between steps; never in a step.
 */
#ifndef SERVER_ENGINE_H
#define SERVER_ENGINE_H

#include "model/model.h"
#include "model/sampler.h"
#include "model/tokenizer.h"
#include "server/request.h"
#include "server/scheduler.h"

struct engine;              /* opaque */

enum { ENGINE_TEXT_BYTES = 192, ENGINE_EMBEDDING_ROW = 64 };

enum engine_event_kind {
    ENGINE_PROMPT_TOKEN,    /* token, logprob and top of one prompt position; position 0 has none */
    ENGINE_TEXT,            /* more visible text, without a token */
    ENGINE_TOKEN,
    ENGINE_CHOICE_END,      /* finish */
    ENGINE_EMBEDDING,       /* values[n_values], from `position` on */
    ENGINE_DONE,            /* usage; the request is the loop's again */
    ENGINE_FAILED,          /* failure; likewise */
};

enum finish_reason { FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED };

struct engine_usage {
    int32_t prompt_tokens, cached_tokens;
    int32_t output_tokens;          /* of all choices */
    int32_t preemptions;
    int64_t queue_ns;               /* arrival to the first step */
    int64_t prefill_ns;             /* first step to the first token */
    int64_t decode_ns;              /* first token to the last */
};

struct engine_event {
    enum engine_event_kind kind;
    struct request *request;
    int32_t choice;
    int32_t position;               /* PROMPT_TOKEN, EMBEDDING */
    int32_t token;
    float logprob;                  /* if the request wants it */
    int32_t n_top;
    struct token_logprob top[SAMPLING_MAX_TOP];
    enum finish_reason finish;      /* CHOICE_END */
    int32_t stop_index;             /* CHOICE_END by a stop string: which; else -1 */
    int32_t stop_token;             /* CHOICE_END by eos or a stop token: which; else -1 */
    int32_t n_text;
    char text[ENGINE_TEXT_BYTES];
    int32_t n_values;
    float values[ENGINE_EMBEDDING_ROW];
    struct engine_usage usage;      /* DONE */
    struct error failure;           /* FAILED */
};

struct engine_options {
    struct model *model;            /* loaded; the engine leads its team */
    const struct tokenizer *tokenizer;
    struct scheduler_options scheduler;     /* n_blocks, block_size and max_model_len come from the model */
    size_t max_events;              /* bound of the event queue */
    void (*on_event)(void *context);        /* wake the loop; called by the engine thread */
    void *context;

    /* Called by the engine thread; NULL: nobody wants to know. */
    /* begins 1: from here until the call with 0 no thread of the team allocates or
     * frees memory, which is what a test checks here; planning, the step itself,
     * sampling and emitting lie between the two. */
    void (*on_step)(void *context, int begins);
    /* No step is being computed: engine_prefixes may be read, and the model's
     * blocks with it.  1: call again soon, also if there is no work. */
    int (*between_steps)(void *context, struct engine *engine);
    void *step_context;
};

/* NO_MEMORY, BAD_OPTION. */
MUST_CHECK enum status engine_create(struct engine **out, const struct engine_options *options,
                                     struct error *err);

/* Start the thread.  IO: the system gave none. */
MUST_CHECK enum status engine_start(struct engine *engine, struct error *err);

/* Loop thread.  Takes the request over if OK.
 * BAD_REQUEST: it can never fit (the sentence has the numbers), or the model cannot
 *   do the task.  OVERLOADED: queue full.  BUSY: draining or failed. */
MUST_CHECK enum status engine_submit(struct engine *engine, struct request *request, struct error *err);

/* Loop thread.  1: *out is the next event.  0: none for now.
 * After the thread has ended, requests that it did not take any more fail here. */
int engine_next_event(struct engine *engine, struct engine_event *out);

/* Any thread: have the flags of some request read again soon. */
void engine_nudge(struct engine *engine);

/* Forget all reusable prefixes; done before the next step.  Any thread. */
void engine_reset_prefixes(struct engine *engine);

/* The index of cached prefixes; NULL if there is none.  Before engine_start, or in
 * between_steps. */
struct prefix_cache *engine_prefixes(struct engine *engine);
struct block_pool *engine_blocks(struct engine *engine);

/* No new requests; those there are go on.  Any thread. */
void engine_drain(struct engine *engine);
int engine_is_draining(const struct engine *engine);

/* End: what still runs gets FAILED with this sentence; the thread ends.  engine_join
 * returns 0 if the thread did not end within timeout_ns: it waits for room in the
 * event queue (take events and join again), or a rank hangs, and the engine must
 * not be destroyed. */
void engine_stop(struct engine *engine, const char *why);
int engine_join(struct engine *engine, int64_t timeout_ns);
void engine_destroy(struct engine *engine);     /* joined, or never started; NULL is allowed */

enum { ENGINE_STEP_BUCKETS = 18 };

/* A recent moment, any thread; who has the last event of a request finds all of
 * that request counted. */
struct engine_state {
    int64_t heartbeat_ns;           /* clock_now_ns() of the last sign of life */
    int in_step;                    /* a step is being computed */
    int failed;                     /* a rank died; nothing works any more */
    int32_t n_running, n_waiting, n_paused;
    int32_t n_blocks, n_free_blocks, n_cached_blocks;
    int64_t waiting_tokens;
    uint64_t n_steps, n_preemptions, n_cancelled, n_failed;
    uint64_t prompt_tokens, output_tokens;      /* computed and sampled so far */
    uint64_t prefix_queries, prefix_hits;       /* in tokens */
    int64_t step_ns;                            /* spent in steps so far */
    uint64_t step_tokens;                       /* rows of all steps: prompt and generated tokens */
    uint64_t steps_of[ENGINE_STEP_BUCKETS];     /* [i]: steps of at most 2^i tokens and more than 2^(i-1);
                                                   the last: of any more */
};
void engine_read_state(const struct engine *engine, struct engine_state *out);

#endif
