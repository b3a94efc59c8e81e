#include "model/token_frame.h"

#include "model/tokenizer_spec.h"
#include "model/vocab.h"

#include <string.h>

void token_frame_init(struct token_frame *f)
{
    *f = (struct token_frame){ .bos = -1, .eos = -1, .pad = -1 };
}

static enum status too_many(const char *where, struct error *err)
{
    return fail(err, STATUS_BAD_MODEL, "%.150s puts more than %d tokens around a text", where,
                TOKEN_FRAME_MAX);
}

static int insert(int32_t *ids, int *n, int at, int32_t id)
{
    if (*n == TOKEN_FRAME_MAX)
        return 0;
    memmove(ids + at + 1, ids + at, (size_t)(*n - at) * sizeof *ids);
    ids[at] = id;
    (*n)++;
    return 1;
}

/* ---- post_processor ---- */

struct template {
    struct token_frame *frame;
    const json_t *special_tokens;
    const char *where;
    int behind_text;                /* the {"Sequence": ..} was seen */
    int n_before;                   /* of this template; they go in front of earlier ones */
};

/* One {"SpecialToken": {"id": name}}: its ids are in special_tokens. */
static enum status add_special(struct template *t, const json_t *item, struct error *err)
{
    const char *name = json_string_value(json_object_get(item, "id"));
    const json_t *ids = json_object_get(json_object_get(t->special_tokens, name == NULL ? "" : name), "ids");
    if (!json_is_array(ids))
        return fail(err, STATUS_BAD_MODEL, "%.150s: the special token '%.60s' has no 'ids'", t->where,
                    name == NULL ? "" : name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VOCAB_MAX_IDS)
            return fail(err, STATUS_BAD_MODEL, "%.150s: an id of '%.60s' must be an integer from 0 to %d",
                        t->where, name, VOCAB_MAX_IDS - 1);
        int32_t value = (int32_t)json_integer_value(id);
        struct token_frame *f = t->frame;
        int done = t->behind_text ? insert(f->after, &f->n_after, f->n_after, value)
                                  : insert(f->before, &f->n_before, t->n_before++, value);
        if (!done)
            return too_many(t->where, err);
    }
    return STATUS_OK;
}

static enum status add_template(struct token_frame *f, const struct json_reader *r, struct error *err)
{
    struct template t = { .frame = f, .where = r->where };
    const json_t *items = NULL;
    TRY(json_read_object(r, "special_tokens", &t.special_tokens, err));
    TRY(json_read_array(r, "single", &items, err));
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (json_is_object(special))
            TRY(add_special(&t, special, err));
        else if (json_is_object(json_object_get(item, "Sequence")) && !t.behind_text)
            t.behind_text = 1;
        else
            return fail(err, STATUS_BAD_MODEL,
                        "%.150s: item %zu of 'single' is neither a SpecialToken nor the "
                        "one Sequence", r->where, i);
    }
    if (!t.behind_text)
        return fail(err, STATUS_BAD_MODEL, "%.150s: 'single' has no Sequence", r->where);
    return STATUS_OK;
}

static enum status add_processor(void *part, const struct json_reader *r, const char *type, struct error *err)
{
    if (strcmp(type, "TemplateProcessing") == 0)
        return add_template(part, r, err);
    if (strcmp(type, "ByteLevel") == 0)
        return STATUS_OK;
    return tokenizer_spec_unknown(r, type, err);
}

enum status token_frame_read_processor(struct token_frame *f, const json_t *section, const char *where,
                                       struct error *err)
{
    const struct tokenizer_spec spec = { .where = where, .list = "processors", .add = add_processor,
                                         .part = f };
    return tokenizer_spec_walk(&spec, section, err);
}

/* ---- tokenizer_config.json ---- */

static int32_t find_role(const struct json_reader *r, const char *field, token_finder *find,
                         const void *context)
{
    const json_t *value = json_read_any(r, field);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? find(context, json_string_value(value), json_string_length(value)) : -1;
}

static int is_llama_class(const struct json_reader *r)
{
    const char *name = json_string_value(json_read_any(r, "tokenizer_class"));
    return name != NULL && strncmp(name, "LlamaTokenizer", 14) == 0;
}

enum status token_frame_read_config(struct token_frame *f, const json_t *config, const char *where,
                                    token_finder *find, const void *context, struct error *err)
{
    const struct json_reader r = { .object = config, .where = where, .code = STATUS_BAD_MODEL };
    f->bos = find_role(&r, "bos_token", find, context);
    f->eos = find_role(&r, "eos_token", find, context);
    f->pad = find_role(&r, "pad_token", find, context);
    int add_bos = -1, add_eos = -1;         /* -1: the file does not say */
    TRY(json_read_bool(&r, "add_bos_token", &add_bos, err));
    TRY(json_read_bool(&r, "add_eos_token", &add_eos, err));
    int has_bos = f->bos >= 0 && f->n_before > 0 && f->before[0] == f->bos;
    int has_eos = f->eos >= 0 && f->n_after > 0 && f->after[f->n_after - 1] == f->eos;
    if (add_bos == 1 && f->bos >= 0 && !has_bos && !insert(f->before, &f->n_before, 0, f->bos))
        return too_many(where, err);
    if (add_eos == 1 && f->eos >= 0 && !has_eos && !insert(f->after, &f->n_after, f->n_after, f->eos))
        return too_many(where, err);
    if (add_bos == 0 && has_bos && is_llama_class(&r))
        memmove(f->before, f->before + 1, (size_t)--f->n_before * sizeof *f->before);
    if (add_eos == 0 && has_eos && is_llama_class(&r))
        f->n_after--;
    return STATUS_OK;
}
