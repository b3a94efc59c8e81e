#include "bench/peak.h"

#include <string.h>

static const struct peak_set *const sets[] = {
#ifdef __x86_64__
    &peak_amx, &peak_avx512bf16, &peak_avx512, &peak_avx2,
#endif
    &peak_ref,
};

const struct peak_set *peak_find(const char *name)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcmp(sets[i]->name, name) == 0)
            return sets[i];
    return &peak_ref;
}

const char *peak_kind_name(enum peak_kind kind)
{
    static const char *const names[PEAK_N_KINDS] = { "f32", "bf16", "int8" };
    return names[kind];
}
