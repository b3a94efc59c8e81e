#include "bench/compare_profile.h"

#include "base/file.h"
#include "base/json_read.h"

#include <stdio.h>
#include <string.h>

/* Dense bf16 rates (data sheets print twice that, with 2:4 sparsity) and one
 * direction of the link.  A collective's latency is in no data sheet: 2 us is an
 * assumption for switched GPU links, 1 us for two sockets. */
static const struct compare_profile builtins[] = {
    { "a100", "NVIDIA A100 80GB SXM data sheet: 312 TFLOP/s bf16 dense, 2039 GB/s HBM2e, NVLink 600 GB/s both ways; "
              "latency assumed", 312e12, 2039e9, 80e9, 300e9, 2e-6, 2 },
    { "h100-sxm", "NVIDIA H100 SXM5 data sheet: 989.4 TFLOP/s bf16 dense, 3.35 TB/s HBM3, NVLink 900 GB/s both ways; "
                  "latency assumed", 989.4e12, 3350e9, 80e9, 450e9, 2e-6, 2 },
    { "h200", "NVIDIA H200 SXM data sheet: 989.4 TFLOP/s bf16 dense, 4.8 TB/s HBM3e, NVLink 900 GB/s both ways; "
              "latency assumed", 989.4e12, 4800e9, 141e9, 450e9, 2e-6, 2 },
    { "b200", "NVIDIA HGX B200 data sheet: 2.25 PFLOP/s bf16 dense, 8 TB/s HBM3e, NVLink 1.8 TB/s both ways; "
              "latency assumed", 2250e12, 8000e9, 180e9, 900e9, 2e-6, 2 },
    { "mi300x", "AMD Instinct MI300X data sheet: 1307.4 TFLOP/s bf16 dense, 5.3 TB/s HBM3, 7 links of 64 GB/s each "
                "way; latency assumed", 1307.4e12, 5300e9, 192e9, 448e9, 2e-6, 2 },
    { "xeon-2s", "one socket of two Intel Xeon Platinum 8592+: 64 cores x 1024 bf16 FLOP/cycle (AMX) x 1.9 GHz base, "
                 "8 x DDR5-5600, 4 UPI links of 20 GT/s x 2 bytes; 512 GB and latency assumed",
      64 * 1024 * 1.9e9, 358.4e9, 512e9, 160e9, 1e-6, 4 },
};
#define N_BUILTINS ((int)(sizeof builtins / sizeof builtins[0]))

const struct compare_profile *compare_profile_builtin(int i)
{
    return i >= 0 && i < N_BUILTINS ? &builtins[i] : NULL;
}

/* ---- files ---- */

static enum status read_text(const struct json_reader *r, const char *field, char *out, size_t max,
                             struct error *err)
{
    const char *text = NULL;
    size_t n = 0;
    TRY(json_read_string(r, field, &text, &n, err));
    if (text == NULL || n == 0)
        return fail(err, r->code, "%s: a profile needs %s", r->where, field);
    snprintf(out, max, "%s", text);
    return STATUS_OK;
}

static enum status read_profile(const struct json_reader *r, struct compare_profile *out, struct error *err)
{
    TRY(read_text(r, "name", out->name, sizeof out->name, err));
    TRY(read_text(r, "source", out->source, sizeof out->source, err));
    struct { const char *field; double unit, low, *out; } numbers[] = {
        { "peak_tflops", 1e12, 1e-6, &out->peak_flops },   { "bandwidth_gbs", 1e9, 1e-6, &out->bandwidth },
        { "memory_gb", 1e9, 1e-6, &out->memory },          { "link_gbs", 1e9, 1e-6, &out->link_bandwidth },
        { "link_latency_us", 1e-6, 0, &out->link_latency },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double value = -1;
        TRY(json_read_double(r, numbers[i].field, numbers[i].low, 1e9, &value, err));
        if (value < 0)
            return fail(err, r->code, "%s: a profile needs %s", r->where, numbers[i].field);
        *numbers[i].out = value * numbers[i].unit;
    }
    int64_t bytes = 2;
    TRY(json_read_int(r, "activation_bytes", 1, 8, &bytes, err));
    out->activation_bytes = (int)bytes;
    return STATUS_OK;
}

enum status compare_profile_find(const char *name, struct compare_profile *out, struct error *err)
{
    char list[200] = "host";
    for (int i = 0; i < N_BUILTINS; i++) {
        if (strcmp(builtins[i].name, name) == 0) {
            *out = builtins[i];
            return STATUS_OK;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), ", %.31s", builtins[i].name);
    }
    if (!file_exists(name))
        return fail(err, STATUS_BAD_OPTION, "profile '%.60s' is not one of %s, nor a file", name, list);
    json_t *json;
    TRY(json_read_file(name, 1 << 16, STATUS_BAD_MODEL, &json, err));
    struct json_reader r = { json, name, STATUS_BAD_MODEL };
    enum status s = json_is_object(json) ? read_profile(&r, out, err)
                                         : fail(err, STATUS_BAD_MODEL, "%s: a profile is a JSON object", name);
    json_decref(json);
    return s;
}

/* ---- time ---- */

static double kernel(const struct compare_profile *p, double macs, double bytes)
{
    double arithmetic = 2 * macs / p->peak_flops, memory = bytes / p->bandwidth;
    return arithmetic > memory ? arithmetic : memory;
}

double compare_profile_rank(const struct compare_profile *profile, const struct compare_point *point,
                            const struct compare_work *w)
{
    double size = weight_type_bits(point->weight_type) / 8;
    return kernel(profile, (double)w->projection_macs, (double)compare_projection_bytes(point, w))
         + kernel(profile, (double)w->attend_macs, (double)w->cache_bytes_read)
         + kernel(profile, (double)w->mlp_macs, (double)w->mlp_weights * size)
         + kernel(profile, (double)w->head_macs, (double)w->head_weights * size);
}

double compare_profile_step(const struct compare_profile *profile, const struct compare_point *point)
{
    double slowest = 0, collectives = 0;
    for (int rank = 0; rank < point->n_ranks; rank++) {
        struct compare_work w;
        compare_count(point, rank, &w);
        double busy = compare_profile_rank(profile, point, &w), waits = 0;
        for (int i = 0; i < w.n_exchanges; i++)
            waits += w.exchanges[i].repeats
                   * (profile->link_latency
                      + (double)w.exchanges[i].link * profile->activation_bytes / profile->link_bandwidth);
        slowest = busy > slowest ? busy : slowest;
        collectives = waits > collectives ? waits : collectives;
    }
    return slowest + collectives;
}
