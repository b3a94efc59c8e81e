/* compare_study.h - the standard questions, each as sweeps ready to run.
 *
 *   paper-kernel   one MLRA-4 rank on 4 against unsharded MLA: 64 heads, bf16,
 *                  batch 1, 128 K to 2 M tokens, attention alone
 *   fair           everybody on 4 ranks, batch x context, with the projections
 *   degrees        the kernel of everybody on 1, 2, 4 and 8 ranks
 *
 * Quick: fewer and shorter contexts.  Threads: any; memory: none.
 */
#ifndef BENCH_COMPARE_STUDY_H
#define BENCH_COMPARE_STUDY_H

#include "bench/compare_result.h"

/* Fill in the sweeps of the named study, or of all for "standard"; returns how
 * many in *n.  out[COMPARE_MAX_SWEEPS].  BAD_OPTION: no such study. */
MUST_CHECK enum status compare_study(const char *name, int is_quick, struct compare_sweep *out, int *n,
                                     struct error *err);

#endif
