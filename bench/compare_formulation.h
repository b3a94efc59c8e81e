/* compare_formulation.h - the contenders of `latentd compare`: a name, one
 * attention layer's shape, and the model around it.
 *
 *   preset    what it holds
 *   paper     the MLRA paper's 2.9 billion (hidden 3072, 24 heads of 128), equal
 *             in parameters; plus the seed's block-diagonal MLRA at that width,
 *             and mlra-2 and mlra-4 with replicated_output
 *   paper-64  the paper's kernel setting: 64 heads of 128, 8 KV groups
 *   seed      the seeds at the defaults of their library (hidden 2048, 16 heads)
 *   demo      the models under models/demo-* of the working directory
 *
 * Weights are not part of a contender: only shapes decide how long a step takes,
 * so they are drawn at random (compare_weights.h), also for a directory.
 *
 * Threads: any; memory: none kept.
 */
#ifndef BENCH_COMPARE_FORMULATION_H
#define BENCH_COMPARE_FORMULATION_H

#include "attention/attention_config.h"
#include "base/status.h"

enum { COMPARE_MAX_FORMULATIONS = 16 };

struct compare_formulation {
    char name[40];              /* "mlra-4", "mla-by-chunk" */
    struct attention_config attention;
    int by_chunk;               /* MLA's cache sharded by chunk of positions */
    /* W_O for every head whose branch a rank computes, so that the all-reduce
     * after it adds the branches too and nothing is exchanged before it. */
    int replicated_output;
    int n_layers;
    int intermediate;           /* width of the MLP */
    int vocab;                  /* rows of the head */
};

struct compare_set {
    struct compare_formulation items[COMPARE_MAX_FORMULATIONS];
    int n;
};

/* Append the preset's contenders.  BAD_OPTION: no such preset (the sentence
 * lists them), no demo models here, or the set is full. */
MUST_CHECK enum status compare_add_preset(struct compare_set *set, const char *name, struct error *err);

/* Append "name=DIR,name=DIR": model directories.  A decoupled MLA is added a
 * second time as NAME-by-chunk.  BAD_OPTION, or the failures of model_config_load. */
MUST_CHECK enum status compare_add_models(struct compare_set *set, const char *list, struct error *err);

/* One phrase that says what it is, with its sizes: "MLRA-4 (paper): 4 latents of 128 + 64, .." */
void compare_describe(const struct compare_formulation *f, char *out, size_t max);

/* The index of the contender called name, or -1. */
int compare_find(const struct compare_set *set, const char *name);

/* Keep those of the comma-separated names, in that order.
 * BAD_OPTION: one is not in the set (the sentence lists what is). */
MUST_CHECK enum status compare_keep(struct compare_set *set, const char *names, struct error *err);

#endif
