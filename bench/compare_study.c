#include "bench/compare_study.h"

#include "bench/compare_run.h"

#include <stdio.h>
#include <string.h>

struct study {
    const char *name, *title, *preset;
    const char *formulations;       /* in order; the first is what others are compared with */
    enum compare_part part;
    int degrees[4];                 /* up to the first 0 */
    const char *pairs;              /* or "mla:1 mlra-4:4": exactly these contenders */
    int same_degree;
    int64_t contexts[COMPARE_MAX_STEPS], quick_contexts[COMPARE_MAX_STEPS];
    int batches[4];
    int64_t max_tokens;
};

enum { K = 1024, M = 1024 * 1024 };

static const struct study studies[] = {
    { .name = "paper-kernel", .preset = "paper-64", .part = COMPARE_KERNEL,
      .title = "The paper's setting: one rank's attention alone, 64 heads, bf16, batch 1, against MLA on one device",
      .formulations = "mla,mlra-4,mlra-2,gla-2,gqa-8,mla-by-chunk,mlra",
      .pairs = "mla:1 mlra-4:4 mlra-2:4 gla-2:2 gqa-8:8 mla-by-chunk:4 mlra:4",
      .contexts = { 128 * K, 256 * K, 512 * K, M, 2 * M }, .quick_contexts = { 32 * K, 128 * K }, .batches = { 1 } },
    { .name = "fair", .preset = "paper", .part = COMPARE_ATTENTION, .degrees = { 4 },
      .title = "The setting nobody printed: everybody on 4 devices, projections and collectives included",
      .formulations = "mla,mlra-4,mlra-4-replicated,mlra-2,mlra,gla-2,gla-4,gqa-8,mla-by-chunk", .same_degree = 1,
      .contexts = { K, 2 * K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 128 * K, 256 * K },
      .quick_contexts = { K, 8 * K, 32 * K }, .batches = { 1, 16 }, .max_tokens = 256 * K },
    { .name = "degrees", .preset = "paper", .part = COMPARE_ATTENTION, .degrees = { 1, 2, 4, 8 },
      .title = "Attention on 1, 2, 4 and 8 devices, against MLA on as many",
      .formulations = "mla,mlra-4,mlra-2,mlra,gla-2,gqa-8,mla-by-chunk,mha", .same_degree = 1,
      .contexts = { 2 * K, 8 * K, 32 * K }, .quick_contexts = { 2 * K, 8 * K }, .batches = { 1 } },
};
#define N_STUDIES (sizeof studies / sizeof studies[0])

/* "mla:1 mlra-4:4" */
static enum status add_pairs(struct compare_sweep *sweep, const char *pairs, struct error *err)
{
    char name[40];
    int n_ranks, used;
    for (; sscanf(pairs, " %39[^:]:%d%n", name, &n_ranks, &used) == 2; pairs += used) {
        int at = compare_find(&sweep->set, name);
        TRY(compare_check_ranks(&sweep->set.items[at], n_ranks, err));
        sweep->entries[sweep->n_entries++] = (struct compare_entry){ at, n_ranks };
    }
    return STATUS_OK;
}

static enum status fill(const struct study *study, int is_quick, struct compare_sweep *sweep, struct error *err)
{
    *sweep = (struct compare_sweep){
        .part = study->part, .same_degree = study->same_degree, .cache_types = 1u << CACHE_BF16,
        .max_tokens = study->max_tokens,
    };
    snprintf(sweep->name, sizeof sweep->name, "%s", study->name);
    snprintf(sweep->title, sizeof sweep->title, "%s", study->title);
    TRY(compare_add_preset(&sweep->set, study->preset, err));
    TRY(compare_keep(&sweep->set, study->formulations, err));
    const int64_t *contexts = is_quick ? study->quick_contexts : study->contexts;
    for (; sweep->n_contexts < COMPARE_MAX_STEPS && contexts[sweep->n_contexts] > 0; sweep->n_contexts++)
        sweep->contexts[sweep->n_contexts] = contexts[sweep->n_contexts];
    for (; sweep->n_batches < 4 && study->batches[sweep->n_batches] > 0; sweep->n_batches++)
        sweep->batches[sweep->n_batches] = study->batches[sweep->n_batches];
    if (study->pairs != NULL)
        return add_pairs(sweep, study->pairs, err);
    int n = 0;
    while (n < 4 && study->degrees[n] > 0)
        n++;
    return compare_sweep_cross(sweep, study->degrees, n, err);
}

enum status compare_study(const char *name, int is_quick, struct compare_sweep *out, int *n, struct error *err)
{
    *n = 0;
    for (size_t i = 0; i < N_STUDIES; i++)
        if (strcmp(name, "standard") == 0 || strcmp(name, studies[i].name) == 0)
            TRY(fill(&studies[i], is_quick, &out[(*n)++], err));
    if (*n == 0)
        return fail(err, STATUS_BAD_OPTION, "study '%.40s' is not one of standard, paper-kernel, fair, degrees", name);
    return STATUS_OK;
}
