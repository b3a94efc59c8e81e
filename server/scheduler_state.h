/* scheduler_state.h - what scheduler.c (the life of sequences) and
 * scheduler_plan.c (the next step) share.  Nobody else includes this.
 *
 * Invariants between calls
 *   - every submitted sequence that is not FINISHED is in exactly one list;
 *   - running holds PREFILL and DECODE, waiting holds WAITING and PREEMPTED;
 *   - running.n_items + waiting.n_items + n_promised_forks
 *     <= max_sequences + max_queue, so no insert ever lacks room.
 */
#ifndef SERVER_SCHEDULER_STATE_H
#define SERVER_SCHEDULER_STATE_H

#include "server/scheduler.h"
#include "server/sequence_list.h"

struct scheduler {
    /* fixed at create; zeros of the options replaced by what they stand for */
    struct scheduler_options options;
    struct block_pool *pool;
    struct prefix_cache *prefix;        /* NULL: off */

    /* engine thread only */
    struct sequence_list running;       /* capacity max_sequences */
    struct sequence_list waiting;       /* capacity max_sequences + max_queue */
    int32_t n_promised_forks;
    int64_t n_waiting_tokens;           /* prompts of sequences never admitted */
    uint64_t n_arrivals;
    uint64_t n_plans, n_preemptions, n_refused;
    int plan_is_open;                   /* planned and not committed */

    /* the plan being made, or the last one */
    struct step_row *rows;              /* [max_sequences] */
    int32_t n_rows;
    struct block_copy *copies;          /* [max_sequences] */
    int32_t n_copies;
    block_id *matched;                  /* [n_blocks], scratch of admission */
};

/* seq leaves the waiting list for good or for a seat: it no longer counts
 * among the prompts that were never admitted. */
void scheduler_note_admitted(struct scheduler *sched, struct sequence *seq);

/* seq gives up its seat and its blocks. */
void scheduler_unseat(struct scheduler *sched, struct sequence *seq);

#endif
