/* bench_accuracy.h - the next-token distributions of a model over a text, with its
 * weights and cache in some type, against those with both in f32.
 *
 * Owner: the thread that creates it.  Memory: the reference's logits, one row of the
 * vocabulary a token, at create; a model at a time while measuring.
 */
#ifndef BENCH_BENCH_ACCURACY_H
#define BENCH_BENCH_ACCURACY_H

#include "model/model.h"

struct bench_accuracy;          /* opaque */

struct bench_accuracy_options {
    const char *dir;            /* of the model, with its tokenizer; must outlive the object */
    const char *text;           /* file */
    const char *kernels;        /* NULL: the fastest table */
    int max_tokens;             /* of the text; no more than the model has positions */
    int n_ranks;
};

/* Reads the text and runs the reference.  BAD_OPTION: the text has fewer than two
 * tokens.  Else the failures of tokenizer_load, file_read and model_load. */
MUST_CHECK enum status bench_accuracy_create(struct bench_accuracy **out,
                                             const struct bench_accuracy_options *options, struct error *err);
void bench_accuracy_destroy(struct bench_accuracy *a);      /* NULL is allowed */
const char *bench_accuracy_dir(const struct bench_accuracy *a);

struct bench_accuracy_types {
    int weights;                /* enum weight_type */
    enum cache_type cache;
};

struct bench_divergence {
    int tokens;                 /* that were predicted */
    double loss, reference_loss;    /* nats a token */
    double mean_kl, worst_kl;   /* sum p log(p / q), p the reference's */
};
MUST_CHECK enum status bench_accuracy_measure(struct bench_accuracy *a, const struct bench_accuracy_types *types,
                                              struct bench_divergence *out, struct error *err);

#endif
