#include "model/vocab.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const char *text;               /* in the arena; NULL: no text has this id */
    size_t len;
};

struct vocab {
    char *arena;                    /* every text, one after the other */
    struct entry *by_id;            /* [n_ids] */
    int32_t n_ids;
    int32_t *slots;                 /* [n_slots] id, or -1: open addressing by text */
    size_t n_slots;                 /* a power of two, at least twice the texts */
};

static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* The slot where text is, or where it would go. */
static size_t slot_of(const struct vocab *v, const char *text, size_t len)
{
    size_t slot = hash_text(text, len) & (v->n_slots - 1);
    while (v->slots[slot] >= 0) {
        const struct entry *e = &v->by_id[v->slots[slot]];
        if (e->len == len && memcmp(e->text, text, len) == 0)
            break;
        slot = (slot + 1) & (v->n_slots - 1);
    }
    return slot;
}

/* First pass: every id is an integer in range.  Gives the sizes to allocate. */
static enum status measure(json_t *object, const char *where, int32_t *n_ids, size_t *n_bytes,
                           struct error *err)
{
    const char *text;
    size_t len;
    json_t *value;
    *n_ids = 0;
    *n_bytes = 0;
    json_object_keylen_foreach(object, text, len, value) {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= VOCAB_MAX_IDS)
            return fail(err, STATUS_BAD_MODEL, "%.150s: the id of '%.80s' must be an integer from 0 to %d",
                        where, text, VOCAB_MAX_IDS - 1);
        if (id >= *n_ids)
            *n_ids = (int32_t)id + 1;
        *n_bytes += len;
    }
    return STATUS_OK;
}

static enum status fill(struct vocab *v, json_t *object, const char *where, struct error *err)
{
    const char *text;
    size_t len;
    json_t *value;
    char *room = v->arena;
    json_object_keylen_foreach(object, text, len, value) {
        int32_t id = (int32_t)json_integer_value(value);
        struct entry *e = &v->by_id[id];
        if (e->text != NULL)
            return fail(err, STATUS_BAD_MODEL, "%.100s: '%.60s' and '%.60s' have the same id %" PRId32,
                        where, e->text, text, id);
        memcpy(room, text, len);
        *e = (struct entry){ .text = room, .len = len };
        room[len] = '\0';
        room += len + 1;
        size_t slot = slot_of(v, text, len);
        assert(v->slots[slot] < 0);     /* the keys of an object are distinct */
        v->slots[slot] = id;
    }
    return STATUS_OK;
}

enum status vocab_create(struct vocab **out, const json_t *object, const char *where, struct error *err)
{
    json_t *texts = (json_t *)object;   /* jansson's iterators are not const */
    int32_t n_ids;
    size_t n_bytes, n_texts = json_object_size(object);
    TRY(measure(texts, where, &n_ids, &n_bytes, err));
    struct vocab *v = calloc(1, sizeof *v);
    if (v == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a vocabulary");
    v->n_ids = n_ids;
    v->n_slots = 16;
    while (v->n_slots < 2 * n_texts)
        v->n_slots *= 2;
    v->arena = malloc(n_bytes + n_texts + 1);
    v->by_id = calloc((size_t)n_ids + 1, sizeof *v->by_id);
    v->slots = malloc(v->n_slots * sizeof *v->slots);
    enum status s;
    if (v->arena == NULL || v->by_id == NULL || v->slots == NULL) {
        s = fail(err, STATUS_NO_MEMORY, "no memory for a vocabulary of %zu texts", n_texts);
    } else {
        memset(v->slots, 0xff, v->n_slots * sizeof *v->slots);
        s = fill(v, texts, where, err);
    }
    if (s != STATUS_OK) {
        vocab_destroy(v);
        return s;
    }
    *out = v;
    return STATUS_OK;
}

void vocab_destroy(struct vocab *v)
{
    if (v == NULL)
        return;
    free(v->arena);
    free(v->by_id);
    free(v->slots);
    free(v);
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    return v->slots[slot_of(v, text, len)];
}

const char *vocab_text(const struct vocab *v, int32_t id, size_t *len)
{
    if (id < 0 || id >= v->n_ids || v->by_id[id].text == NULL) {
        *len = 0;
        return NULL;
    }
    *len = v->by_id[id].len;
    return v->by_id[id].text;
}

int32_t vocab_n_ids(const struct vocab *v)
{
    return v->n_ids;
}
