#include "model/tokenizer_spec.h"

#include <string.h>

#define MAX_DEPTH 8

static enum status walk(const struct tokenizer_spec *spec, const json_t *section, int depth, int *n_steps,
                        struct error *err)
{
    const struct json_reader step = { .object = section, .where = spec->where, .code = STATUS_BAD_MODEL };
    if (!json_is_object(section))
        return fail(err, STATUS_BAD_MODEL, "%.200s must be an object, got %s", spec->where,
                    json_type_phrase(section));
    const char *type = NULL;
    size_t len = 0;
    TRY(tokenizer_spec_text(&step, "type", &type, &len, err));
    if (strcmp(type, "Sequence") != 0) {
        if (++*n_steps > TOKENIZER_MAX_STEPS)
            return fail(err, STATUS_BAD_MODEL, "%.200s has more than %d steps", spec->where,
                        TOKENIZER_MAX_STEPS);
        return spec->add(spec->part, &step, type, err);
    }
    if (depth == MAX_DEPTH)
        return fail(err, STATUS_BAD_MODEL, "%.200s is nested more than %d deep", spec->where, MAX_DEPTH);
    const json_t *list = NULL;
    TRY(json_read_array(&step, spec->list, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(walk(spec, json_array_get(list, i), depth + 1, n_steps, err));
    return STATUS_OK;
}

enum status tokenizer_spec_walk(const struct tokenizer_spec *spec, const json_t *section, struct error *err)
{
    int n_steps = 0;
    if (section == NULL || json_is_null(section))
        return STATUS_OK;
    return walk(spec, section, 0, &n_steps, err);
}

enum status tokenizer_spec_text(const struct json_reader *step, const char *field,
                                const char **text, size_t *len, struct error *err)
{
    *text = NULL;
    TRY(json_read_string(step, field, text, len, err));
    if (*text == NULL)
        return fail(err, STATUS_BAD_MODEL, "%.200s: there is no '%s'", step->where, field);
    return STATUS_OK;
}

enum status tokenizer_spec_content(const struct json_reader *step, const char *field, struct buf *out,
                                   struct error *err)
{
    const char *text;
    size_t len;
    buf_init(out, TOKENIZER_MAX_CONTENT);
    TRY(tokenizer_spec_text(step, field, &text, &len, err));
    enum status s = buf_add(out, text, len);
    if (s == STATUS_TOO_LARGE)
        return fail(err, STATUS_BAD_MODEL, "%.200s: '%s' has %zu bytes, limit %d", step->where, field, len,
                    TOKENIZER_MAX_CONTENT);
    return s == STATUS_OK ? s : fail(err, s, "no memory for a text of %zu bytes", len);
}

enum status tokenizer_spec_unknown(const struct json_reader *step, const char *type, struct error *err)
{
    return fail(err, STATUS_UNSUPPORTED, "%.200s: type '%.60s' is not one this build knows", step->where,
                type);
}
