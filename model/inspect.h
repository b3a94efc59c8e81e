/* inspect.h - what a model directory is, without loading it.
 *
 * Reads config.json and the headers of the weight files, checks that every
 * tensor the model needs is there with its shape, and counts.  Plain data, meant
 * to be read; `latentd inspect` prints it.
 *
 *   cache of one token on rank r of N  =  layers * cache_layout of that rank
 *   per device  =  the largest of the ranks;  total  =  the sum over them
 *
 * A latent that is replicated is counted on every device that holds it: that is
 * the difference between a replicated and a partitioned cache.  Where the cache may
 * be sharded by chunk of positions instead (MLA), a device holds 1/N of one copy on
 * the average over a long sequence.
 *
 * Threads: any.  Memory: none kept.
 */
#ifndef MODEL_INSPECT_H
#define MODEL_INSPECT_H

#include "model/model_config.h"

enum { INSPECT_DEGREES = 4, INSPECT_CACHE_TYPES = CACHE_INT8 + 1, INSPECT_MAX_DEGREE = 16 };

extern const int inspect_degrees[INSPECT_DEGREES];      /* 1, 2, 4, 8 */

/* The cache on n_ranks devices.  Only is_valid means something if it is 0. */
struct inspect_degree {
    int n_ranks;
    int is_valid;
    int64_t elements_per_device;                        /* of one token, all layers */
    int64_t bytes_per_device[INSPECT_CACHE_TYPES];      /* by enum cache_type */
    int64_t bytes_total[INSPECT_CACHE_TYPES];
    int may_shard_by_chunk;                             /* then the next two mean something */
    int64_t by_chunk_elements_per_device;
    int64_t by_chunk_bytes_per_device[INSPECT_CACHE_TYPES];
    int64_t state_bytes_per_device;     /* of one sequence: what is not per token (CCA), all layers */
};

/* Numbers of the checkpoint that the model uses; a tensor it does not use counts
 * nowhere. */
struct inspect_parameters {
    int64_t total;
    int64_t attention;
    int64_t mlp;
    int64_t embedding;          /* a tied head is counted once */
    int64_t head;               /* 0 if tied */
    int64_t norms;
};

struct inspection {
    struct model_config config;
    struct inspect_parameters parameters;
    int64_t weight_bytes;                       /* of the tensors, as stored */
    unsigned weight_types;                      /* bit t: some tensor is of enum dtype t */
    struct inspect_degree degrees[INSPECT_DEGREES];
    int valid_degrees[INSPECT_MAX_DEGREE];      /* all valid ones up to 16, ascending */
    int n_valid_degrees;
};

/* Fill *out from the model in dir.
 * NOT_FOUND, IO, BAD_MODEL as model_load would say it; NO_MEMORY.  *out is then
 * partly filled. */
MUST_CHECK enum status inspect_model(const char *dir, struct inspection *out, struct error *err);

#endif
