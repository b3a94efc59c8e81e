/* scheduler.h - which sequence computes which tokens in the next step.
 *
 *    scheduler_submit       +---------+  admit   +---------+   rows of a step
 *   ----------------------> | waiting | -------> | running | ------------------>
 *                           +---------+ <------- +---------+
 *                                        preempt      |  finish, cancel
 *                                                     v
 * One turn of the engine:
 *
 *   plan = scheduler_plan          decides; moves blocks; touches no cache bytes
 *   every rank: plan.copies in order, then the rows
 *   scheduler_commit(plan)         the rows exist now; full blocks are published
 *   for each row with wants_logits: scheduler_fork (first token of n > 1),
 *                                   scheduler_push_token or scheduler_finish
 *
 * The plan depends on nothing but the calls made before: no clock, no chance.
 *
 * Order. Sequences are ranked by place = arrival + priority * priority_places,
 * smaller first (policy FCFS: priority counts as 0). One step of priority is
 * thus worth priority_places places in the queue, and a sequence is overtaken
 * by a bounded number of later ones: priority delays, it does not starve.
 *
 * Budget. A step has at most max_step_tokens tokens. Every running, unpaused
 * DECODE sequence gets one; what is left goes to PREFILL sequences in order, at
 * most max_prefill_chunk each, and then to newly admitted ones. Since
 * max_sequences <= max_step_tokens, the first of them always gets some.
 *
 * Blocks. A row takes what it needs when it is planned. When the pool has none
 * (free, or idle prefixes, which are evicted), running sequences are preempted:
 * paused ones first, then the last in order, but never one that is before the
 * sequence in need; that one then stands still. So the first unpaused running
 * sequence has a row in every plan (once its last token is pushed), and it fits,
 * because submit has refused what cannot fit alone: one can always finish.
 * A preempted sequence goes back to its place in the queue and computes its
 * tokens again, except what it finds in the prefix cache. Admission leaves
 * room for what running sequences are about to need, so that it does not cause
 * the next preemption; it may preempt paused sequences, but only when nobody
 * else is running.
 *
 * Shared prefixes in flight. A waiting sequence whose next block is being
 * computed by a running one waits for it, at most max_prefix_wait plans, and
 * lets others pass.
 *
 * Owner:   the engine thread.  Memory: all at create; plan, commit, push, fork,
 *          finish and cancel allocate nothing.
 */
#ifndef SERVER_SCHEDULER_H
#define SERVER_SCHEDULER_H

#include "base/status.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/prefix_cache.h"
#include "server/sequence.h"

struct scheduler;                   /* opaque */

enum scheduler_policy { SCHEDULER_FCFS, SCHEDULER_PRIORITY };

#define SCHEDULER_MAX_PRIORITY 1000     /* |priority| of a sequence */

struct scheduler_options {
    int32_t n_blocks;           /* >= 1 */
    int32_t block_size;         /* >= 1 tokens */
    int32_t max_sequences;      /* >= 1 seats */
    int32_t max_step_tokens;    /* >= max_sequences */
    int32_t max_queue;          /* >= 0 sequences beyond the seats */
    int64_t max_queue_tokens;   /* prompt tokens not admitted yet; 0: no limit */
    int32_t max_model_len;      /* >= 1 tokens of one sequence */
    int32_t max_prefill_chunk;  /* 0: the whole budget */
    enum scheduler_policy policy;
    int32_t priority_places;    /* 0: 256 */
    int prefix_cache;           /* 0: off */
    int reuse_generated;        /* see prefix_cache.h */
    int32_t max_prefix_wait;    /* plans; 0: 1024 */
    struct siphash_key key;     /* random per process */
};

/* Tokens of one sequence in one step.  They are tokens[first_position ..
 * first_position + n_tokens), all known, in blocks the sequence already has.
 * Positions from n_prompt on are generated tokens, also when recomputed. */
struct step_row {
    struct sequence *sequence;
    int32_t first_position;
    int32_t n_tokens;
    int wants_logits;           /* of its last token: no known token follows */
};

/* Why a plan has no rows: what the engine has to wait for. */
enum step_reason {
    STEP_HAS_ROWS,
    STEP_NO_SEQUENCES,          /* a submit */
    STEP_ALL_PAUSED,            /* a resume, a cancel or a submit */
    STEP_AWAITS_TOKENS          /* a push_token: logits are there and no token yet */
};

/* Valid until the next call of scheduler_plan. */
struct step_plan {
    const struct step_row *rows;        /* [n_rows], decode rows first */
    int32_t n_rows;
    int32_t n_decode_rows;
    int32_t n_tokens;                   /* <= max_step_tokens */
    const struct block_copy *copies;    /* [n_copies], to be done in this order, before the rows */
    int32_t n_copies;
    enum step_reason reason;
};

/* What a sequence will need at most. */
struct scheduler_demand {
    int32_t n_prompt;
    int32_t max_new_tokens;
    int32_t priority;           /* -SCHEDULER_MAX_PRIORITY .. SCHEDULER_MAX_PRIORITY */
    int32_t n_choices;          /* >= 1 */
};

struct scheduler_stats {
    int32_t n_waiting;          /* with preempted ones */
    int32_t n_running;
    int32_t n_paused;           /* of both */
    int64_t n_waiting_tokens;   /* prompt tokens not admitted yet */
    uint64_t n_plans;
    uint64_t n_preemptions;
    uint64_t n_refused;         /* submits that failed */
    struct block_counts blocks;
    struct prefix_cache_stats prefix;
};

/* BAD_OPTION: a field is out of its range.  NO_MEMORY.  *out untouched. */
MUST_CHECK enum status scheduler_create(struct scheduler **out, const struct scheduler_options *options,
                                        struct error *err);
/* Every sequence must be FINISHED.  NULL is allowed. */
void scheduler_destroy(struct scheduler *sched);

/* Could it ever finish?  Reads only what is fixed at create: any thread may ask,
 * before memory is spent on a sequence.
 * BAD_REQUEST: prompt + max_new_tokens pass max_model_len, or need more blocks
 *   than exist, or priority or n_choices is out of range; the sentence has the
 *   numbers. */
MUST_CHECK enum status scheduler_check_fits(const struct scheduler *sched,
                                            const struct scheduler_demand *demand, struct error *err);

/* Queue seq, created with this block_size, never submitted before.  It counts as
 * n_choices sequences.
 * BAD_REQUEST: as scheduler_check_fits.
 * OVERLOADED: seats and queue are full, or its prompt does not fit into
 *   max_queue_tokens beside those that wait; a prompt that would wait alone
 *   always fits.  The same call may succeed later.
 * On failure the scheduler does not know seq, and the caller destroys it. */
MUST_CHECK enum status scheduler_submit(struct scheduler *sched, struct sequence *seq, struct error *err);

/* Decide the next step.  The plan before it must have been committed. */
void scheduler_plan(struct scheduler *sched, struct step_plan *out);

/* The step is done.  Rows of sequences that were finished or cancelled since the
 * plan are skipped and publish nothing: that is how the engine drops a row whose
 * result is unusable, and with all rows cancelled, a step that failed. */
void scheduler_commit(struct scheduler *sched, const struct step_plan *plan);

/* The token sampled from seq's logits.  seq->awaits_token and sequence_room. */
void scheduler_push_token(struct scheduler *sched, struct sequence *seq, int32_t token);

/* Make child (never submitted, same prompt, salt and block_size as parent, no
 * output) continue where parent is: parent->awaits_token, no output yet, and
 * n_choices of parent not used up.  They share all blocks; whoever writes the
 * shared last block first gets a copy of it.  Without a free seat child waits in
 * the queue behind its parent and computes what the prefix cache does not have;
 * its first token, from the same logits, can be pushed in either case. */
void scheduler_fork(struct scheduler *sched, struct sequence *parent, struct sequence *child);

/* seq becomes FINISHED; its blocks are dropped, published ones stay findable.
 * In any state; on a FINISHED sequence nothing happens.  cancel also sets
 * seq->cancelled. */
void scheduler_finish(struct scheduler *sched, struct sequence *seq);
void scheduler_cancel(struct scheduler *sched, struct sequence *seq);

/* paused 1: no rows from the next plan on; 0: go on. */
void scheduler_set_paused(struct sequence *seq, int paused);

/* Forget all prefixes; running sequences publish nothing more. */
void scheduler_reset_prefixes(struct scheduler *sched);

struct scheduler_stats scheduler_stats(const struct scheduler *sched);

/* What the plans are made of, for saving and restoring prefixes between plans.
 * prefixes is NULL without prefix_cache. */
struct prefix_cache *scheduler_prefixes(struct scheduler *sched);
struct block_pool *scheduler_blocks(struct scheduler *sched);

#endif
