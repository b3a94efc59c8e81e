/* kernels_sets.h - the tables that this build may hold; only kernels.c and the
 * kernels_<set>.c files include it. */
#ifndef ATTENTION_KERNELS_SETS_H
#define ATTENTION_KERNELS_SETS_H

#include "attention/kernels.h"

extern const struct kernels kernels_ref;        /* plain, any CPU */
#ifdef __x86_64__
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_avx512bf16;     /* and VNNI */
extern const struct kernels kernels_amx;            /* and tiles of bf16 and int8 */
#endif

#endif
