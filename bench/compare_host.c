#include "bench/compare_host.h"

#include "base/clock.h"
#include "bench/compare_collective.h"
#include "parallel/topology.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 256, KEYS = 32, ROWS = 24,      /* the peak's block: 24 KiB of sums, 32 KiB of values */
    STREAM_WIDTH = 512, STREAM_KEYS = 256,
    COPY_FLOATS = 16384,
    TRIES = 5,
};

static void read_processor(char *out, size_t max)
{
    snprintf(out, max, "unknown processor");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (f == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, max, "%.90s", colon + 2);
        break;
    }
    fclose(f);
}

/* Multiply-adds a second of the value kernel, everything in the nearest caches. */
static double measure_peak(const struct compare_host *host)
{
    float *weights = host->buffer, *values = weights + ROWS * KEYS, *sums = values + KEYS * WIDTH;
    struct value_block b = {
        .weights = weights, .weight_stride = KEYS, .values = values, .value_stride = WIDTH,
        .sums = sums, .sum_stride = WIDTH, .n_rows = ROWS, .n_keys = KEYS, .width = WIDTH,
    };
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const int n = 200;
        int64_t start = clock_thread_cpu_ns();
        for (int k = 0; k < n; k++)
            host->kernels->add_values(&b);
        double rate = (double)n * ROWS * KEYS * WIDTH / ((double)(clock_thread_cpu_ns() - start) / 1e9);
        best = rate > best ? rate : best;
    }
    return best;
}

static void stream(const struct compare_host *host)
{
    float query[STREAM_WIDTH] = { 1 }, scores[STREAM_KEYS];
    size_t block = (size_t)STREAM_WIDTH * STREAM_KEYS, n = COMPARE_FLUSH_BYTES / sizeof(float) / block;
    for (size_t i = 0; i < n; i++) {
        struct score_block b = {
            .queries = query, .query_stride = STREAM_WIDTH, .keys = host->buffer + i * block,
            .key_stride = STREAM_WIDTH, .scores = scores, .score_stride = STREAM_KEYS,
            .n_rows = 1, .n_keys = STREAM_KEYS, .width = STREAM_WIDTH,
        };
        host->kernels->score(&b);
    }
}

static double measure_bandwidth(const struct compare_host *host)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t start = clock_thread_cpu_ns();
        stream(host);
        double rate = COMPARE_FLUSH_BYTES / ((double)(clock_thread_cpu_ns() - start) / 1e9);
        best = rate > best ? rate : best;
    }
    return best;
}

static double measure_copy(const struct compare_host *host)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const int n = 64;
        int64_t start = clock_thread_cpu_ns();
        for (int k = 0; k < n; k++)
            memcpy(host->buffer + COPY_FLOATS * (k & 1), host->buffer + COPY_FLOATS * (2 + (k & 1)),
                   COPY_FLOATS * sizeof(float));
        double rate = (double)n * COPY_FLOATS * sizeof(float) / ((double)(clock_thread_cpu_ns() - start) / 1e9);
        best = rate > best ? rate : best;
    }
    return best;
}

enum status compare_host_init(struct compare_host *host, const struct kernels *kernels, struct error *err)
{
    *host = (struct compare_host){ .kernels = kernels };
    arena_init(&host->arena);
    struct topology topology;
    topology_read(&topology);
    host->n_cores = topology.usable;
    read_processor(host->processor, sizeof host->processor);
    TRY(ARENA_ARRAY(&host->arena, COMPARE_FLUSH_BYTES / sizeof(float), &host->buffer, err));
    for (size_t i = 0; i < COMPARE_FLUSH_BYTES / sizeof(float); i++)
        host->buffer[i] = 1;        /* pages that were never written are all one zero page */
    TRY(compare_barrier_ns(host->n_cores, &host->barrier_ns, err));
    host->profile = (struct compare_profile){
        .name = "host", .peak_flops = 2 * measure_peak(host), .bandwidth = measure_bandwidth(host),
        .link_bandwidth = measure_copy(host), .link_latency = host->barrier_ns / 1e9, .activation_bytes = 4,
    };
    snprintf(host->profile.source, sizeof host->profile.source,
             "measured here: one core of %.60s with the %s kernels", host->processor, kernels->name);
    return STATUS_OK;
}

void compare_host_clear(struct compare_host *host)
{
    arena_clear(&host->arena);
}

void compare_host_flush(const struct compare_host *host)
{
    stream(host);
}
