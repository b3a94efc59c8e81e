#include "model/synth.h"

#include "base/rng.h"
#include "model/byte_tokenizer.h"
#include "model/model_directory.h"
#include "model/safetensors_writer.h"
#include "model/synth_private.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 16 };

/* ---- numbers ---- */

/* Nearly normal with deviation 1, from one random word: the sum of its four parts
 * of 16 bits, each uniform with variance (2^32 - 1) / 12.  It has no entries past
 * 3.5, which weights do not miss, and needs no function whose last bit depends on
 * the C library. */
static float nearly_normal(struct rng *rng)
{
    uint64_t word = rng_next(rng);
    int32_t sum = (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));
    const float mean = 2 * 65535.0f, deviation = 37837.227f;    /* sqrt(4 * (2^32 - 1) / 12) */
    return ((float)sum - mean) / deviation;
}

static void make_numbers(struct rng *rng, struct synth_fill fill, enum dtype dtype, size_t n,
                         unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        float value = (float)fill.mean;
        if (fill.deviation > 0)
            value += (float)fill.deviation * nearly_normal(rng);
        if (dtype == DTYPE_F32) {
            memcpy(out + 4 * i, &value, 4);
        } else {
            uint16_t bits = f32_to_bf16(value);
            memcpy(out + 2 * i, &bits, 2);
        }
    }
}

/* ---- files ---- */

struct writing {
    const struct synth_spec *spec;
    const struct synth_output *output;
    const struct synth_plan *plan;
    struct safetensors_writer *writer;
    unsigned char *buffer;          /* [BUFFER_BYTES] */
    size_t done;
};

static enum status write_tensor(struct writing *w, size_t index, struct error *err)
{
    const struct tensor *t = &w->plan->tensors.tensors[index];
    size_t element = dtype_bytes(t->dtype), per_piece = BUFFER_BYTES / element;
    struct rng rng;
    rng_seed(&rng, rng_sub_seed((uint64_t)w->spec->seed, index));
    for (size_t left = (size_t)t->n_elements; left > 0;) {
        size_t n = left < per_piece ? left : per_piece;
        make_numbers(&rng, w->plan->fills[index], t->dtype, n, w->buffer);
        TRY(safetensors_writer_add(w->writer, w->buffer, n * element, err));
        left -= n;
        w->done += n * element;
        if (w->output->progress != NULL)
            w->output->progress(w->output->context, w->done, w->plan->tensors.bytes);
    }
    return STATUS_OK;
}

static enum status write_tensors(struct writing *w, struct error *err)
{
    for (size_t i = 0; i < w->plan->tensors.n; i++)
        TRY(write_tensor(w, i, err));
    return STATUS_OK;
}

static enum status write_weights(const struct synth_spec *spec, const struct synth_output *output,
                                 const struct synth_plan *plan, struct error *err)
{
    char path[4096];
    model_directory_path(output->dir, "model.safetensors", path);
    const struct safetensors_pair metadata = { "format", "pt" };
    const struct safetensors_plan file = {
        .path = path, .tensors = plan->tensors.tensors, .n_tensors = plan->tensors.n,
        .metadata = &metadata, .n_metadata = 1,
    };
    struct writing w = { .spec = spec, .output = output, .plan = plan, .buffer = malloc(BUFFER_BYTES) };
    if (w.buffer == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to make weights");
    enum status s = safetensors_writer_open(&w.writer, &file, err);
    if (s == STATUS_OK) {
        s = write_tensors(&w, err);
        if (s == STATUS_OK)
            s = safetensors_writer_close(w.writer, err);
        else
            safetensors_writer_abandon(w.writer);
    }
    free(w.buffer);
    return s;
}

static enum status write_all(const struct synth_spec *spec, const struct synth_output *output,
                             const json_t *config, struct synth_plan *plan, struct error *err)
{
    struct attention_config attention;
    TRY(synth_attention(config, spec, &attention, err));
    TRY(synth_plan_tensors(plan, spec, &attention, err));
    TRY(model_directory_prepare(output->dir, err));
    TRY(byte_tokenizer_write(output->dir, spec->vocab, err));
    TRY(write_weights(spec, output, plan, err));
    return model_directory_write_json(output->dir, "config.json", config, err);
}

enum status synth_write(const struct synth_spec *spec, const struct synth_output *output, struct error *err)
{
    if (spec->vocab < BYTE_TOKENIZER_MIN)
        return fail(err, STATUS_BAD_OPTION, "--vocab must be at least %d, the bytes and the special tokens, "
                    "got %d", BYTE_TOKENIZER_MIN, spec->vocab);
    json_t *config = synth_config_json(spec);
    if (config == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for config.json");
    struct synth_plan plan = { 0 };
    enum status s = write_all(spec, output, config, &plan, err);
    tensor_plan_clear(&plan.tensors);
    json_decref(config);
    return s;
}
