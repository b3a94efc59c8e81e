/* verify_model.h - golden models: a model directory with golden.safetensors
 * (tokens [batch][length], logits [batch][length][vocab] of one causal forward).
 *
 * The same paths as verify_case.h, through the whole model: one forward, token
 * by token, chunks then token by token, on 1, 2, 3, 4, 8 ranks where the shape
 * allows; within the tolerance, and all with the same bits.
 *
 * Threads: the calling thread leads a team per degree.
 */
#ifndef BENCH_VERIFY_MODEL_H
#define BENCH_VERIFY_MODEL_H

#include "bench/verify_case.h"

MUST_CHECK enum status verify_model(const char *dir, const char *kernels,
                                    struct verify_result *out, struct error *err);

#endif
