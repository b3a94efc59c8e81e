#include "model/tokenizer.h"

#include "base/file.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/byte_level.h"
#include "model/normalizer.h"
#include "model/pretokenizer.h"
#include "model/token_decoder.h"
#include "model/token_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES   ((size_t)64 << 20)
#define MAX_GROWN_BYTES  (8 * TOKENIZER_MAX_TEXT)   /* of a text while it is rewritten */
#define MAX_TOKEN_TABLE  ((size_t)256 << 20)        /* bytes of all tokens together */

struct tokenizer {
    struct bpe *bpe;
    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    struct added_tokens *added;
    struct token_frame frame;
    struct token_start start;
    int32_t n_ids;
    char *bytes;                    /* of all tokens, one after the other, each 0-terminated */
    size_t *begins;                 /* [n_ids + 1] token id is bytes[begins[id], begins[id + 1] - 1) */
};

/* ---- load ---- */

static enum status parse(const char *text, size_t len, const char *where, json_t **out, struct error *err)
{
    json_error_t place;
    if (len > MAX_FILE_BYTES)
        return fail(err, STATUS_BAD_MODEL, "%.200s is larger than %zu bytes", where, MAX_FILE_BYTES);
    json_t *root = json_loadb(text, len, JSON_ALLOW_NUL, &place);
    if (root == NULL)
        return fail(err, STATUS_BAD_MODEL, "%.150s is not valid JSON: line %d column %d: %s",
                    where, place.line, place.column, place.text);
    if (!json_is_object(root)) {
        enum status s = fail(err, STATUS_BAD_MODEL, "%.200s must be an object, got %s", where,
                             json_type_phrase(root));
        json_decref(root);
        return s;
    }
    *out = root;
    return STATUS_OK;
}

/* The bytes of one token; the decoder is only needed here. */
static enum status add_token_bytes(struct tokenizer *t, int32_t id, const struct token_decoder *decoder,
                                   struct pattern_scratch *scratch, struct buf *work)
{
    struct buf *all = &work[0], *one = &work[1], *spare = &work[2];
    t->begins[id] = all->len;
    struct token_text token = { .is_added = added_tokens_at(t->added, id) != NULL };
    token.text = tokenizer_token_text(t, id, &token.len);
    if (token.text != NULL) {
        TRY(token_decoder_bytes(decoder, &token, scratch, one, spare));
        TRY(buf_add(all, one->data, one->len));
    }
    return buf_add_char(all, '\0');
}

static enum status make_token_bytes(struct tokenizer *t, const struct token_decoder *decoder,
                                    struct error *err)
{
    t->begins = calloc((size_t)t->n_ids + 1, sizeof *t->begins);
    if (t->begins == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the text of %d tokens", t->n_ids);
    struct pattern_scratch *scratch = NULL;
    TRY(pattern_scratch_create(&scratch, err));
    struct buf work[3];
    for (int i = 0; i < 3; i++)
        buf_init(&work[i], MAX_TOKEN_TABLE);
    enum status s = STATUS_OK;
    for (int32_t id = 0; s == STATUS_OK && id < t->n_ids; id++)
        s = add_token_bytes(t, id, decoder, scratch, work);
    t->begins[t->n_ids] = work[0].len;
    t->bytes = work[0].data;
    buf_clear(&work[1]);
    buf_clear(&work[2]);
    pattern_scratch_destroy(scratch);
    if (s == STATUS_OK)
        return s;
    return fail(err, s == STATUS_TOO_LARGE ? STATUS_BAD_MODEL : s,
                "the text of all tokens cannot be made: %s",
                status_meaning(s));
}

static enum status read_sections(struct tokenizer *t, const json_t *root, struct error *err)
{
    const struct json_reader r = { .object = root, .where = "tokenizer.json", .code = STATUS_BAD_MODEL };
    const json_t *model = NULL, *added = NULL;
    TRY(json_read_object(&r, "model", &model, err));
    TRY(json_read_array(&r, "added_tokens", &added, err));
    if (model == NULL)
        return fail(err, STATUS_BAD_MODEL, "tokenizer.json has no 'model'");
    TRY(bpe_create(&t->bpe, model, "tokenizer.json: model", err));
    TRY(normalizer_create(&t->normalizer, json_object_get(root, "normalizer"), "tokenizer.json: normalizer",
                          err));
    TRY(pretokenizer_create(&t->pretokenizer, json_object_get(root, "pre_tokenizer"),
                            "tokenizer.json: pre_tokenizer", err));
    TRY(added_tokens_create(&t->added, added, bpe_vocab(t->bpe), t->normalizer,
                            "tokenizer.json: added_tokens", err));
    TRY(token_frame_read_processor(&t->frame, json_object_get(root, "post_processor"),
                                   "tokenizer.json: post_processor", err));
    t->n_ids = vocab_n_ids(bpe_vocab(t->bpe));
    if (added_tokens_n_ids(t->added) > t->n_ids)
        t->n_ids = added_tokens_n_ids(t->added);
    struct token_decoder *decoder = NULL;
    TRY(token_decoder_create(&decoder, json_object_get(root, "decoder"), "tokenizer.json: decoder", err));
    t->start = token_decoder_start(decoder);
    enum status s = make_token_bytes(t, decoder, err);
    token_decoder_destroy(decoder);
    return s;
}

static int32_t find_token(const void *context, const char *content, size_t len)
{
    return tokenizer_find(context, content, len);
}

static enum status read_files(struct tokenizer *t, const struct tokenizer_files *files, struct error *err)
{
    json_t *root = NULL;
    TRY(parse(files->json, files->json_len, "tokenizer.json", &root, err));
    enum status s = read_sections(t, root, err);
    json_decref(root);
    TRY(s);
    if (files->config == NULL)
        return STATUS_OK;
    TRY(parse(files->config, files->config_len, "tokenizer_config.json", &root, err));
    s = token_frame_read_config(&t->frame, root, "tokenizer_config.json", find_token, t, err);
    json_decref(root);
    return s;
}

enum status tokenizer_load_memory(struct tokenizer **out, const struct tokenizer_files *files,
                                  struct error *err)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
    token_frame_init(&t->frame);
    enum status s = read_files(t, files, err);
    if (s != STATUS_OK) {
        tokenizer_destroy(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

static enum status read_beside(const char *dir, const char *name, struct buf *out, struct error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return fail(err, STATUS_IO, "the path of %s is longer than %zu bytes", name, sizeof path);
    return file_read(path, out, err);
}

static int exists_beside(const char *dir, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && file_exists(path);
}

enum status tokenizer_load(struct tokenizer **out, const char *dir, struct error *err)
{
    struct buf json, config;
    buf_init(&json, MAX_FILE_BYTES);
    buf_init(&config, MAX_FILE_BYTES);
    enum status s = read_beside(dir, "tokenizer.json", &json, err);
    if (s == STATUS_OK && exists_beside(dir, "tokenizer_config.json"))
        s = read_beside(dir, "tokenizer_config.json", &config, err);
    if (s == STATUS_TOO_LARGE)
        s = STATUS_BAD_MODEL;               /* the sentence is right: the file passes its limit */
    if (s == STATUS_OK) {
        const struct tokenizer_files files = { .json = json.data == NULL ? "" : json.data,
                                               .json_len = json.len,
                                               .config = config.data, .config_len = config.len };
        s = tokenizer_load_memory(out, &files, err);
    }
    buf_clear(&json);
    buf_clear(&config);
    return s;
}

void tokenizer_destroy(struct tokenizer *t)
{
    if (t == NULL)
        return;
    bpe_destroy(t->bpe);
    normalizer_destroy(t->normalizer);
    pretokenizer_destroy(t->pretokenizer);
    added_tokens_destroy(t->added);
    free(t->bytes);
    free(t->begins);
    free(t);
}

/* ---- encode ---- */

/* What one call of tokenizer_encode carries along. */
struct encoder {
    const struct tokenizer *t;
    int specials_are_text;
    struct token_array *out;
    struct pattern_scratch *patterns;
    struct bpe_scratch bpe;
    struct buf normalized, spare;
    struct pretokens pretokens;
};

/* A stretch of the text between added tokens, and where it stands. */
struct segment {
    const char *text;
    size_t len;
    int is_first;                   /* the text begins here */
    int joined;                     /* a byte that is not text comes directly before */
};

/* text[begin, end) as a segment; text is s, perhaps normalised. */
static struct segment part_of(const struct segment *s, const char *text, size_t begin, size_t end)
{
    return (struct segment){ .text = text + begin, .len = end - begin,
                             .is_first = s->is_first && begin == 0, .joined = s->joined && begin == 0 };
}

static enum status encode_pieces(struct encoder *e, const struct segment *s)
{
    const struct pretokenizer_input in = { .text = s->text, .len = s->len, .is_first = s->is_first,
                                           .joined = s->joined };
    TRY(pretokenizer_run(e->t->pretokenizer, &in, e->patterns, &e->pretokens));
    const struct piece_list *pieces = &e->pretokens.pieces;
    for (size_t i = 0; i < pieces->n; i++)
        TRY(bpe_encode(e->t->bpe, &e->bpe, e->pretokens.text.data + pieces->at[i].begin,
                       pieces->at[i].end - pieces->at[i].begin, e->out));
    return STATUS_OK;
}

static enum status encode_normalized(struct encoder *e, const struct segment *s)
{
    const struct normalizer_input in = { .text = s->text, .len = s->len, .joined = s->joined };
    TRY(normalizer_run(e->t->normalizer, &in, e->patterns, &e->normalized, &e->spare));
    const struct buf *text = &e->normalized;
    const struct added_search search = { .stage = ADDED_NORMALIZED, .text = text->data, .len = text->len,
                                         .specials_are_text = e->specials_are_text };
    size_t done = 0;
    while (done < text->len) {
        struct added_match match = { .begin = text->len, .end = text->len, .id = -1 };
        added_tokens_next(e->t->added, &search, done, &match);
        if (match.begin > done) {
            const struct segment part = part_of(s, text->data, done, match.begin);
            TRY(encode_pieces(e, &part));
        }
        if (match.id >= 0)
            token_array_push(e->out, match.id);
        done = match.end;
    }
    return STATUS_OK;
}

static enum status encode_valid(struct encoder *e, const struct segment *s)
{
    const struct added_search search = { .stage = ADDED_RAW, .text = s->text, .len = s->len,
                                         .specials_are_text = e->specials_are_text };
    size_t done = 0;
    while (done < s->len) {
        struct added_match match = { .begin = s->len, .end = s->len, .id = -1 };
        added_tokens_next(e->t->added, &search, done, &match);
        if (match.begin > done) {
            const struct segment part = part_of(s, s->text, done, match.begin);
            TRY(encode_normalized(e, &part));
        }
        if (match.id >= 0)
            token_array_push(e->out, match.id);
        done = match.end;
    }
    return STATUS_OK;
}

static enum status encode_stray_bytes(struct encoder *e, const char *bytes, size_t len)
{
    if (!pretokenizer_is_byte_level(e->t->pretokenizer))
        return bpe_encode(e->t->bpe, &e->bpe, bytes, len, e->out);
    buf_reset(&e->spare);
    TRY(byte_level_map(&e->spare, bytes, len));
    return bpe_encode(e->t->bpe, &e->bpe, e->spare.data, e->spare.len, e->out);
}

/* Length of the run of valid (or, if there is none, of stray) bytes at text. */
static size_t run_length(const char *text, size_t len, int *valid)
{
    size_t n = 0, step;
    *valid = utf8_sequence_length(text, len) > 0;
    while (n < len && ((step = utf8_sequence_length(text + n, len - n)) > 0) == *valid)
        n += step > 0 ? step : 1;
    return n;
}

static enum status encode_text(struct encoder *e, const char *text, size_t len)
{
    int joined = 0;
    for (size_t i = 0, n; i < len; i += n) {
        int valid;
        n = run_length(text + i, len - i, &valid);
        const struct segment s = { .text = text + i, .len = n, .is_first = i == 0, .joined = joined };
        if (valid)
            TRY(encode_valid(e, &s));
        else
            TRY(encode_stray_bytes(e, s.text, s.len));
        joined = !valid;
    }
    return STATUS_OK;
}

static enum status encode_all(struct encoder *e, const struct tokenizer_input *input)
{
    const struct token_frame *frame = &e->t->frame;
    for (int i = 0; input->add_special && i < frame->n_before; i++)
        token_array_push(e->out, frame->before[i]);
    TRY(encode_text(e, input->text, input->len));
    for (int i = 0; input->add_special && i < frame->n_after; i++)
        token_array_push(e->out, frame->after[i]);
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *t, const struct tokenizer_input *input,
                             struct token_array *out, struct error *err)
{
    if (input->len > TOKENIZER_MAX_TEXT)
        return fail(err, STATUS_TOO_LARGE, "text has %zu bytes, limit %zu", input->len, TOKENIZER_MAX_TEXT);
    struct encoder e = { .t = t, .specials_are_text = input->specials_are_text, .out = out };
    TRY(pattern_scratch_create(&e.patterns, err));
    buf_init(&e.normalized, MAX_GROWN_BYTES);
    buf_init(&e.spare, MAX_GROWN_BYTES);
    pretokens_init(&e.pretokens, MAX_GROWN_BYTES);
    enum status s = encode_all(&e, input);
    pattern_scratch_destroy(e.patterns);
    bpe_scratch_clear(&e.bpe);
    buf_clear(&e.normalized);
    buf_clear(&e.spare);
    pretokens_clear(&e.pretokens);
    if (s == STATUS_NO_MEMORY)
        return fail(err, s, "no memory to tokenise %zu bytes", input->len);
    if (s == STATUS_TOO_LARGE)
        return fail(err, s, "a text of %zu bytes is too costly for the patterns of this tokenizer",
                    input->len);
    TRY(s);
    if (out->n > out->max)
        return fail(err, STATUS_TOO_LARGE, "text has %zu tokens, limit %zu", out->n, out->max);
    return STATUS_OK;
}

/* ---- tokens ---- */

int32_t tokenizer_n_ids(const struct tokenizer *t)
{
    return t->n_ids;
}

const char *tokenizer_token_bytes(const struct tokenizer *t, int32_t id, size_t *len)
{
    *len = 0;
    if (id < 0 || id >= t->n_ids)
        return "";
    *len = t->begins[id + 1] - t->begins[id] - 1;
    return t->bytes + t->begins[id];
}

const char *tokenizer_token_text(const struct tokenizer *t, int32_t id, size_t *len)
{
    const struct added_token *added = added_tokens_at(t->added, id);
    if (added == NULL)
        return vocab_text(bpe_vocab(t->bpe), id, len);
    *len = added->len;
    return added->content;
}

int tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    const struct added_token *added = added_tokens_at(t->added, id);
    return added != NULL && added->special;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len)
{
    const struct added_token *added = added_tokens_find(t->added, text, len);
    return added != NULL ? added->id : vocab_find(bpe_vocab(t->bpe), text, len);
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->frame.bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->frame.eos;
}

int32_t tokenizer_pad(const struct tokenizer *t)
{
    return t->frame.pad;
}

struct token_start tokenizer_start(const struct tokenizer *t)
{
    return t->start;
}
