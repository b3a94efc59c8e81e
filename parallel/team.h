/* team.h - the ranks of one model: an OpenMP team of long-lived workers.
 *
 *   caller == rank 0:  team_run -> lead(context) .. team_step .. team_step .. return
 *   ranks 1 .. n-1:                sleep ........... work ....... work ..... end
 *
 * team_run opens the one parallel region.  Rank 0 runs `lead`, which hands out
 * steps; between steps the others sleep in the kernel after a short spin, so an
 * idle server costs no processor time.  A step ends when every rank has
 * returned from it.
 *
 * Failure: a rank whose work returns anything but OK poisons the team; the step
 * then returns that status (or PEER_FAILED) and no further step is possible.
 *
 * Threads: team_step by rank 0 inside lead only; team_poison by any.
 */
#ifndef PARALLEL_TEAM_H
#define PARALLEL_TEAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct comm;
struct team;                /* opaque */

struct team_options {
    int n_ranks;            /* >= 1 */
    size_t max_floats;      /* of a collective, see comm.h */
    int bind;               /* 1: rank r stays on core r, when there are enough cores */
};

MUST_CHECK enum status team_create(struct team **out, const struct team_options *options, struct error *err);
void team_destroy(struct team *team);           /* NULL is allowed */

int team_size(const struct team *team);
struct comm *team_comm(struct team *team);

/* Returns what lead returns; may be called again afterwards.  PEER_FAILED: the runtime gave fewer threads than
 * ranks; lead has not run. */
MUST_CHECK enum status team_run(struct team *team, enum status (*lead)(void *context), void *context);

/* work(context, rank) on every rank at once. */
MUST_CHECK enum status team_step(struct team *team, enum status (*work)(void *context, int rank),
                                 void *context);

void team_poison(struct team *team);

/* CPU nanoseconds rank has spent in steps, waiting in collectives not counted;
 * any thread, a recent moment. */
int64_t team_busy_ns(const struct team *team, int rank);

#endif
