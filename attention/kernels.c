#include "attention/kernels_sets.h"

#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static int fits_any(void)
{
    return 1;
}

#ifdef __x86_64__
static int fits_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int fits_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static int fits_avx512bf16(void)
{
    return fits_avx512() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

/* Linux gives a process the tile registers when it asks, for all its threads; older
 * kernels and processors without tiles refuse.  (clang 14 has no name for these bits.) */
static int fits_amx(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, ALL = AMX_BF16 | AMX_TILE | AMX_INT8 };
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, features = 0;
    return fits_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &features) && (features & ALL) == ALL
        && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

/* Fastest first; the last row fits every CPU. */
static const struct {
    const struct kernels *kernels;
    int (*fits)(void);
} choices[] = {
#ifdef __x86_64__
    { &kernels_amx,        fits_amx        },
    { &kernels_avx512bf16, fits_avx512bf16 },
    { &kernels_avx512,     fits_avx512     },
    { &kernels_avx2,       fits_avx2       },
#endif
    { &kernels_ref,        fits_any        },
};

const struct kernels *kernels_select(const char *name)
{
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct kernels *k = choices[i].kernels;
        if ((name == NULL || strcmp(name, k->name) == 0) && choices[i].fits())
            return k;
    }
    return NULL;
}

const char *kernels_names(void)
{
#ifdef __x86_64__
    return "amx, avx512bf16, avx512, avx2, ref";
#else
    return "ref";
#endif
}
