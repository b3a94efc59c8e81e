/* byte_machine.h - runs a byte_program one byte at a time, remembering where it
 * has been.
 *
 * A state is a set of (pc, stack of frames), all the places the text so far may
 * have led to; it is made the first time it is reached and its transitions are
 * filled in as they are asked for:
 *
 *   states       0 = dead   1 = {(17, -)}   2 = {(3, f4), (9, f4)}  ..
 *   transitions  [state][class of byte] -> state, or not asked yet
 *   frames       f4 = (return to pc 31, below it f1)     shared, a tree of stacks
 *
 * Invariants
 *   - state 0 is the empty set; every other state can reach the end of the text
 *     (a place that needs more frames than are left is never entered);
 *   - equal sets are the same state.
 *
 * Owner: one thread.  Memory: all at create.  When a table is full the machine
 * says so; byte_machine_collect then forgets all states but those named.
 */
#ifndef MODEL_BYTE_MACHINE_H
#define MODEL_BYTE_MACHINE_H

#include "model/byte_program.h"

struct byte_machine;                    /* opaque */

#define BYTE_MACHINE_DEAD 0u

/* program is sealed for max_depth and outlives the machine; max_states > 1.
 * NO_MEMORY: *out is untouched.  TOO_LARGE: the first state does not fit. */
MUST_CHECK enum status byte_machine_create(struct byte_machine **out, const struct byte_program *program,
                                           uint32_t max_depth, uint32_t max_states, struct error *err);
void byte_machine_destroy(struct byte_machine *machine);        /* NULL is allowed */

/* Where every text begins.  It is kept by every collect. */
uint32_t byte_machine_first(const struct byte_machine *machine);

/* How many places may be entered from now on to make states; a step that needs more
 * fails.  What is known already costs nothing.  At create: no limit. */
void byte_machine_allow(struct byte_machine *machine, uint64_t max_work);

/* The state after one more byte in *out; BYTE_MACHINE_DEAD if the byte does not fit.
 * BUSY: a table is full; collect and call again.
 * TOO_LARGE: this one state has more places than the machine can hold, or the work
 * allowed is used up. */
MUST_CHECK enum status byte_machine_step(struct byte_machine *machine, uint32_t state, uint8_t byte,
                                         uint32_t *out);

/* The text may end here; and: no byte fits any more. */
int byte_machine_is_accepting(const struct byte_machine *machine, uint32_t state);
int byte_machine_is_finished(const struct byte_machine *machine, uint32_t state);

/* Forget every state but the first and roots[n_roots] (which may repeat and may be
 * DEAD); their numbers change and are put back into roots. */
void byte_machine_collect(struct byte_machine *machine, uint32_t *roots, uint32_t n_roots);

#endif
