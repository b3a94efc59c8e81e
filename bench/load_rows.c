#include "bench/load_rows.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 10000000, MAX_ROW_TOKENS = 10000000, MAX_HASH_IDS = 1000000 };

#define MAX_FILE_BYTES ((size_t)1 << 30)

static void row_clear(struct load_row *row)
{
    free(row->json);
    free(row->hash_ids);
    *row = (struct load_row){ 0 };
}

void load_rows_clear(struct load_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        row_clear(&rows->at[i]);
    free(rows->at);
    *rows = (struct load_rows){ 0 };
}

/* *row is taken over, also on failure. */
static enum status rows_add(struct load_rows *rows, struct load_row *row, struct error *err)
{
    if (rows->n == rows->capacity) {
        size_t capacity = rows->capacity > 0 ? rows->capacity * 2 : 64;
        struct load_row *at = rows->n < MAX_ROWS ? realloc(rows->at, capacity * sizeof *at) : NULL;
        if (at == NULL) {
            row_clear(row);
            return fail(err, STATUS_NO_MEMORY, "no memory for more than %zu rows", rows->n);
        }
        rows->at = at;
        rows->capacity = capacity;
    }
    rows->at[rows->n++] = *row;
    return STATUS_OK;
}

/* ---- JSONL ---- */

static enum status set_prompt(struct load_row *row, const json_t *prompt, const json_t *messages,
                              const char *where, struct error *err)
{
    const json_t *value = messages != NULL ? messages : prompt;
    if (value == NULL)
        return STATUS_OK;
    if (messages != NULL && json_is_array(messages)) {
        row->form = LOAD_ROW_MESSAGES;
    } else if (messages == NULL && json_is_string(prompt)) {
        row->form = LOAD_ROW_TEXT;
        row->text_bytes = json_string_length(prompt);
    } else if (messages == NULL && json_is_array(prompt)) {
        row->form = LOAD_ROW_IDS;
        row->input_tokens = (int64_t)json_array_size(prompt);
    } else {
        return fail(err, STATUS_BAD_REQUEST,
                    "%s: the prompt must be a string or an array of ids, messages an array", where);
    }
    row->json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return row->json != NULL ? STATUS_OK : fail(err, STATUS_NO_MEMORY, "%s: no memory for the prompt", where);
}

static enum status set_hash_ids(struct load_row *row, const json_t *ids, const char *where, struct error *err)
{
    size_t n = json_array_size(ids);
    if (n == 0)
        return STATUS_OK;
    if (n > MAX_HASH_IDS)
        return fail(err, STATUS_BAD_REQUEST, "%s: %zu hash_ids, limit %d", where, n, MAX_HASH_IDS);
    row->hash_ids = calloc(n, sizeof *row->hash_ids);
    if (row->hash_ids == NULL)
        return fail(err, STATUS_NO_MEMORY, "%s: no memory for %zu hash_ids", where, n);
    for (size_t i = 0; i < n; i++)
        row->hash_ids[i] = (int64_t)json_integer_value(json_array_get(ids, i));
    row->n_hash_ids = n;
    return STATUS_OK;
}

static const char *const input_names[] = { "input_length", "input_tokens", "prompt_tokens" };
static const char *const output_names[] = { "output_length", "output_tokens", "max_tokens" };

/* The first of three names that is there. */
static enum status read_length(const struct json_reader *r, const char *const names[3], int64_t *out,
                               struct error *err)
{
    for (size_t i = 0; i < 3; i++)
        if (json_read_any(r, names[i]) != NULL)
            return json_read_int(r, names[i], 1, MAX_ROW_TOKENS, out, err);
    return STATUS_OK;
}

static enum status read_row(struct load_row *row, const json_t *object, const char *where, int *has_timestamp,
                            struct error *err)
{
    struct json_reader r = { .object = object, .where = where, .code = STATUS_BAD_REQUEST };
    const json_t *prompt = json_read_any(&r, "prompt");
    if (prompt == NULL)
        prompt = json_read_any(&r, "text");
    TRY(read_length(&r, input_names, &row->input_tokens, err));
    TRY(read_length(&r, output_names, &row->output_tokens, err));
    TRY(set_prompt(row, prompt, json_read_any(&r, "messages"), where, err));
    const json_t *hash_ids = NULL;
    TRY(json_read_array(&r, "hash_ids", &hash_ids, err));
    TRY(set_hash_ids(row, hash_ids, where, err));
    *has_timestamp = json_read_any(&r, "timestamp") != NULL;
    TRY(json_read_double(&r, "timestamp", -1e15, 1e15, &row->timestamp_ms, err));
    if (row->form == LOAD_ROW_LENGTHS && row->input_tokens == 0)
        return fail(err, STATUS_BAD_REQUEST, "%s: neither prompt, messages nor input_length", where);
    return STATUS_OK;
}

static enum status add_line(struct load_rows *rows, const char *line, size_t n, const char *where,
                            size_t *n_timestamps, struct error *err)
{
    json_error_t why;
    json_t *object = json_loadb(line, n, JSON_ALLOW_NUL, &why);
    if (!json_is_object(object)) {
        json_decref(object);
        return fail(err, STATUS_BAD_REQUEST, "%s: not a JSON object", where);
    }
    struct load_row row = { 0 };
    int has_timestamp = 0;
    enum status s = read_row(&row, object, where, &has_timestamp, err);
    json_decref(object);
    if (s != STATUS_OK) {
        row_clear(&row);
        return s;
    }
    *n_timestamps += (size_t)has_timestamp;
    return rows_add(rows, &row, err);
}

static int is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0')
            return 0;
    return 1;
}

static enum status add_lines(struct load_rows *rows, const struct buf *text, const char *path,
                             size_t *n_timestamps, struct error *err)
{
    size_t at = 0, number = 0;
    while (at < text->len) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->len - at);
        size_t n = end != NULL ? (size_t)(end - line) : text->len - at;
        at += n + 1;
        number++;
        if (is_blank(line, n))
            continue;
        char where[160];
        snprintf(where, sizeof where, "%.120s line %zu", path, number);
        TRY(add_line(rows, line, n, where, n_timestamps, err));
    }
    if (rows->n == 0)
        return fail(err, STATUS_BAD_REQUEST, "%s has no row", path);
    return STATUS_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct load_row *x = a, *y = b;
    return (x->timestamp_ms > y->timestamp_ms) - (x->timestamp_ms < y->timestamp_ms);
}

enum status load_rows_read_jsonl(struct load_rows *out, const char *path, struct error *err)
{
    *out = (struct load_rows){ 0 };
    struct buf text;
    buf_init(&text, MAX_FILE_BYTES);
    size_t n_timestamps = 0;
    enum status s = file_read(path, &text, err);
    if (s == STATUS_OK)
        s = add_lines(out, &text, path, &n_timestamps, err);
    buf_clear(&text);
    if (s != STATUS_OK) {
        load_rows_clear(out);
        return s;
    }
    out->have_timestamps = n_timestamps == out->n;
    if (out->have_timestamps)
        qsort(out->at, out->n, sizeof *out->at, compare_rows);
    return STATUS_OK;
}

/* ---- ShareGPT ---- */

static int64_t tokens_of(size_t bytes, double bytes_per_token)
{
    double n = (double)bytes / bytes_per_token;
    return n < 1 ? 1 : n > MAX_ROW_TOKENS ? MAX_ROW_TOKENS : (int64_t)n;
}

static enum status add_conversation(struct load_rows *rows, const json_t *conversation,
                                    double bytes_per_token, int64_t max_tokens, struct error *err)
{
    const json_t *turns = json_object_get(conversation, "conversations");
    const json_t *question = json_object_get(json_array_get(turns, 0), "value");
    const json_t *answer = json_object_get(json_array_get(turns, 1), "value");
    if (json_string_length(question) == 0 || json_string_length(answer) == 0)
        return STATUS_OK;
    struct load_row row = {
        .form = LOAD_ROW_TEXT,
        .text_bytes = json_string_length(question),
        .input_tokens = tokens_of(json_string_length(question), bytes_per_token),
        .output_tokens = tokens_of(json_string_length(answer), bytes_per_token),
    };
    if (row.input_tokens + row.output_tokens > max_tokens)
        return STATUS_OK;
    row.json = json_dumps(question, JSON_COMPACT | JSON_ENCODE_ANY);
    if (row.json == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a conversation");
    return rows_add(rows, &row, err);
}

enum status load_rows_read_sharegpt(struct load_rows *out, const char *path, double bytes_per_token,
                                    int64_t max_tokens, struct error *err)
{
    *out = (struct load_rows){ 0 };
    json_t *root = NULL;
    TRY(json_read_file(path, MAX_FILE_BYTES, STATUS_BAD_REQUEST, &root, err));
    enum status s = STATUS_OK;
    if (!json_is_array(root))
        s = fail(err, STATUS_BAD_REQUEST, "%s is not an array of conversations", path);
    for (size_t i = 0; s == STATUS_OK && i < json_array_size(root); i++)
        s = add_conversation(out, json_array_get(root, i), bytes_per_token, max_tokens, err);
    json_decref(root);
    if (s == STATUS_OK && out->n == 0)
        s = fail(err, STATUS_BAD_REQUEST, "%s has no conversation of two turns within %lld tokens", path,
                 (long long)max_tokens);
    if (s != STATUS_OK)
        load_rows_clear(out);
    return s;
}
