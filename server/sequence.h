/* sequence.h - one timeline of tokens, and the legal moves in its life.
 *
 *   tokens   [ p p p p p p g g g . . . . ]      p given in the prompt, g generated
 *              <- n_prompt ->
 *              <---- n_tokens ---->             known
 *              <- n_computed ->                 their cache rows exist
 *              <--------- max_tokens_total --->
 *
 *               admit            last known token computed
 *   WAITING ----------> PREFILL ---------------------------> DECODE
 *      ^                   |  \                                | |
 *      | next plan         |   +--- finish, cancel ---+--------+ |
 *   PREEMPTED <------------+----------- no blocks ----|----------+
 *      |                                              v
 *      +--------------- cancel ----------------> FINISHED       (WAITING too)
 *
 * A forked sequence goes from WAITING to DECODE at once if there is a seat.
 *
 * Invariants
 *   - n_computed <= n_tokens <= max_tokens_total, n_prompt <= n_tokens;
 *   - the block table has room for n_computed tokens; it is empty while WAITING,
 *     PREEMPTED or FINISHED.
 *
 * The struct is plain data meant to be read. Only the scheduler and this file
 * write it.
 *
 * Owner:    the engine thread; ranks read it during a step.
 * Lifetime: 1. the engine creates it and submits it (or forks into it);
 *           2. it lives until scheduler_finish or scheduler_cancel has made it
 *              FINISHED and no outstanding plan has a row of it;
 *           3. then the engine destroys it.
 * Memory:   all at create.
 */
#ifndef SERVER_SEQUENCE_H
#define SERVER_SEQUENCE_H

#include "base/status.h"
#include "cache/block_table.h"
#include "cache/prefix_cache.h"

#include <stdint.h>

enum sequence_state {
    SEQUENCE_WAITING,       /* in the queue, no blocks */
    SEQUENCE_PREFILL,       /* has a seat, known tokens are being computed */
    SEQUENCE_DECODE,        /* has a seat, one token a step */
    SEQUENCE_PREEMPTED,     /* lost its seat in the last plan; WAITING in the next */
    SEQUENCE_FINISHED,      /* the scheduler has forgotten it */
    SEQUENCE_N_STATES
};

struct sequence {
    /* fixed at create */
    uint64_t id;
    void *request;              /* the engine's; never looked at here */
    int32_t n_prompt;           /* >= 1 */
    int32_t max_tokens_total;   /* prompt + the most tokens it may generate */
    int32_t priority;           /* smaller goes first; 0 unless the client says */
    int32_t choice;             /* 0 for the first of n, then 1 .. n - 1 */
    struct prefix_salt salt;
    int32_t *tokens;            /* [max_tokens_total] */
    struct block_table *blocks;

    /* changed by the scheduler */
    enum sequence_state state;
    int32_t n_tokens;
    int32_t n_computed;
    int32_t n_cached_tokens;    /* prompt tokens found in the prefix cache when first admitted */
    int32_t n_preemptions;
    int paused;                 /* takes no step; keeps its place in the order */
    int cancelled;              /* FINISHED by scheduler_cancel */
    int awaits_token;           /* its last logits are there; scheduler_push_token comes next */
    uint64_t arrival;           /* order of submission, from 1 */

    /* the scheduler's own notes */
    int32_t n_forks_left;       /* forks promised at submit and not made yet */
    int was_admitted;
    int publishes;              /* its full blocks may be published */
    int32_t n_published;        /* leading blocks already offered to the prefix cache */
    int32_t n_planned;          /* tokens of this step */
    const struct sequence *waits_for;   /* runs now and computes a prefix it needs */
    int32_t waits_until;        /* n_computed of waits_for that ends the wait */
    int32_t n_deferred;         /* plans it has waited like that */
};

struct sequence_options {
    uint64_t id;
    void *request;
    const int32_t *prompt;      /* [n_prompt], copied */
    int32_t n_prompt;           /* >= 1 */
    int32_t max_new_tokens;     /* >= 0; 0 for embeddings */
    int32_t priority;
    int32_t choice;
    int32_t n_choices;          /* 1 + the forks that will be made from it; >= 1 */
    struct prefix_salt salt;
    int32_t block_size;         /* the scheduler's */
};

/* A WAITING sequence that is not submitted yet.
 * BAD_REQUEST: the prompt is empty, or prompt + max_new_tokens passes INT32_MAX.
 * NO_MEMORY.  *out untouched in both cases. */
MUST_CHECK enum status sequence_create(struct sequence **out, const struct sequence_options *options,
                                       struct error *err);
void sequence_destroy(struct sequence *seq);        /* NULL is allowed; its table must be empty */

const char *sequence_state_name(enum sequence_state state);     /* "PREFILL" */
int sequence_may_move(enum sequence_state from, enum sequence_state to);
void sequence_move(struct sequence *seq, enum sequence_state to);   /* asserts that it may */

int sequence_is_running(const struct sequence *seq);    /* PREFILL or DECODE: it has a seat */
int32_t sequence_room(const struct sequence *seq);      /* tokens that may still be pushed */
int32_t sequence_n_output(const struct sequence *seq);  /* generated tokens */

/* Append a token.  sequence_room must not be 0. */
void sequence_append(struct sequence *seq, int32_t token);

#endif
