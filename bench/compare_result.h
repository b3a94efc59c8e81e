/* compare_result.h - what a comparison yields: sweeps, and one result per point.
 *
 *   session
 *     host, profiles, settings
 *     sweeps[]        a title, a part, and who takes part
 *     results[]       in the order in which they were run: sweep, cache type,
 *                     context, batch, contender
 *
 * A number is either counted (arithmetic over shapes), measured (a clock of this
 * machine) or modelled (a profile's data sheet); compare_column.h says which, and
 * no column holds two kinds.
 *
 * Owner: one thread.  Memory: results grow while the session runs.
 */
#ifndef BENCH_COMPARE_RESULT_H
#define BENCH_COMPARE_RESULT_H

#include "bench/compare_host.h"
#include "bench/compare_rank.h"

enum { COMPARE_MAX_SWEEPS = 8, COMPARE_MAX_ENTRIES = 48, COMPARE_MAX_STEPS = 16 };

/* One contender of a sweep: a formulation on a number of ranks. */
struct compare_entry {
    int formulation;            /* of the sweep's set */
    int n_ranks;
};

struct compare_sweep {
    char name[24];              /* "paper-kernel" */
    char title[200];
    enum compare_part part;
    struct compare_set set;
    struct compare_entry entries[COMPARE_MAX_ENTRIES];     /* the first is what others are compared with */
    int n_entries;
    int same_degree;            /* compare with the first formulation at the same n_ranks instead */
    int64_t contexts[COMPARE_MAX_STEPS];
    int n_contexts;
    int batches[COMPARE_MAX_STEPS];
    int n_batches;
    unsigned cache_types;       /* bit per enum cache_type */
    int64_t max_tokens;         /* points with more than this many cached tokens are left out; 0: none are */
    char refused[400];          /* contenders that cannot lie on a degree, and why */
};

/* One rank of a result. */
struct compare_device {
    struct compare_work work;
    int measured_as;            /* the rank that was run for it: itself, or one with the same work */
    int64_t phases[COMPARE_N_PHASES];       /* measured, CPU ns */
    double busy_ns;             /* their sum */
    double waited_ns;           /* in collectives, wall clock; -1: ranks were run one by one */
};

struct compare_result {
    int sweep;
    struct compare_point point;
    int n_devices;
    struct compare_device devices[COMPARE_MAX_RANKS];
    int is_measured;
    char note[120];             /* why not */
    double collective_ns;       /* measured, see compare_collective.h */
    double device_ns;           /* measured: the busiest device and the collectives */
    double wall_ns;             /* measured; -1: ranks were run one by one */
    double modelled_s[COMPARE_MAX_PROFILES];
    int64_t tokens_that_fit;
};

struct compare_settings {
    const struct kernels *kernels;
    enum weight_type weight_type;
    int block_size;
    int n_repeats;
    int serial;                 /* 1: one rank after the other; 0: all at once; -1: by the number of cores,
                                   the same for all contenders of a sweep */
    int every_rank;             /* 1: run every rank, also those with equal work */
    int64_t device_memory;
    int64_t max_memory;         /* of everything that is built at one time */
    struct compare_profile profiles[COMPARE_MAX_PROFILES];
    int n_profiles;
    void (*progress)(void *context, const char *what, int done, int total);     /* or NULL */
    int (*is_interrupted)(void *context);   /* asked before every sample; or NULL */
    void *context;              /* of both */
};

struct compare_session {
    struct compare_settings settings;
    struct compare_host host;
    struct compare_sweep sweeps[COMPARE_MAX_SWEEPS];
    int n_sweeps;
    struct compare_result *results;
    int n_results, capacity;
    char when[32];              /* date and time of the start, UTC */
    double seconds;             /* the whole session took */
    int was_interrupted;        /* results are those of the points before that */
};

/* The result of the contender that `r` is compared with, at the same context,
 * batch and cache type; NULL if there is none or it is not measured. */
const struct compare_result *compare_baseline(const struct compare_session *session, const struct compare_result *r);

/* baseline / r, of the measured device time, or of profile i's modelled one;
 * 0 if there is no baseline or either is not measured. */
double compare_speedup(const struct compare_session *session, const struct compare_result *r);
double compare_modelled_speedup(const struct compare_session *session, const struct compare_result *r, int profile);

/* Results of one sweep, batch and cache type stand in one table; those of one
 * contender in it, over the contexts, are a line of it. */
int compare_same_batch(const struct compare_result *a, const struct compare_result *b);
int compare_same_line(const struct compare_result *a, const struct compare_result *b);
/* Is r, one of session->results, the first of its table, or of its line? */
int compare_is_first_of_batch(const struct compare_session *session, const struct compare_result *r);
int compare_is_first(const struct compare_session *session, const struct compare_result *r);

/* The result of r's line at that context, or NULL. */
const struct compare_result *compare_at_context(const struct compare_session *session, const struct compare_result *r,
                                                int64_t context);

/* "mlra-4 TP 4" */
void compare_label(const struct compare_result *r, char *out, size_t max);

#endif
