/* peak.h - loops that do nothing but one kind of instruction, one set of them per
 * instruction set: what a kernel is measured against.
 *
 * The bodies stand once, in peak_body.h; each peak_<set>.c builds them with the
 * flags of the kernel table of the same name (attention/kernels.h).
 *
 * Threads: any; the sets are constant.  Memory: none.
 */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

enum peak_kind { PEAK_F32, PEAK_BF16, PEAK_INT8, PEAK_N_KINDS };

struct peak_set {
    const char *name;
    /* n rounds of register-resident multiply-adds; NULL: the set has no instruction
     * for it.  The result only keeps the compiler from leaving them out. */
    float (*run[PEAK_N_KINDS])(int64_t n_rounds);
    int64_t per_round[PEAK_N_KINDS];        /* multiply-adds */
    /* Read n bytes (a multiple of 128 * n_streams) as n_streams (1, 4, 8) runs in
     * turn; returns their sum. */
    uint32_t (*read)(const char *bytes, size_t n, int n_streams);
};

/* The set of the kernel table called name, or the plainest one. */
const struct peak_set *peak_find(const char *name);

const char *peak_kind_name(enum peak_kind kind);    /* "f32", "bf16", "int8" */

#ifdef __x86_64__
extern const struct peak_set peak_amx, peak_avx512bf16, peak_avx512, peak_avx2;
#endif
extern const struct peak_set peak_ref;

#endif
