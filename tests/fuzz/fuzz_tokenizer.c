/* fuzz_tokenizer - any text on tokenizers of all kinds: no error, known tokens, the bytes come back.
 *
 * The first byte of the input chooses tokenizer and flags, the rest is the text.
 * Run from the root of the tree: the tokenizers are those of tests/model/data.
 */
#include "base/json_read.h"
#include "base/utf8.h"
#include "model/detokenizer.h"
#include "model/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *name;
    int gives_back;                 /* no added token swallows spaces: the bytes are those of the text */
} kinds[] = {
    { "gpt2", 1 }, { "llama3", 0 }, { "deepseek_v3", 0 }, { "deepseek_v2", 1 }, { "kimi", 1 },
    { "words", 0 }, { "llama2", 0 }, { "gemma", 0 }, { "metaspace_first", 0 }, { "metaspace_always", 0 },
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static void require(int fact)
{
    if (!fact)
        abort();
}

static struct tokenizer *load(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "tests/model/data/tokenizer_%s.json", name);
    json_t *root = NULL;
    require(json_read_file(path, 1 << 24, STATUS_BAD_MODEL, &root, NULL) == STATUS_OK);
    char *text = json_dumps(json_object_get(root, "tokenizer"), 0);
    json_decref(root);
    struct tokenizer *t = NULL;
    const struct tokenizer_files files = { .json = text, .json_len = strlen(text) };
    require(tokenizer_load_memory(&t, &files, NULL) == STATUS_OK);
    free(text);
    return t;
}

static void check_bytes(const struct tokenizer *t, const struct token_array *out, const char *text,
                        size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < out->n; i++) {
        size_t n;
        const char *bytes = tokenizer_token_bytes(t, out->ids[i], &n);
        require(at + n <= len && memcmp(bytes, text + at, n) == 0);
        at += n;
    }
    require(at == len);
}

/* Every prefix that has been put out is whole characters. */
static void check_stream(const struct tokenizer *t, const struct token_array *out, int skip)
{
    struct buf text;
    buf_init(&text, 1 << 24);
    struct detokenizer d;
    detokenizer_init(&d, t, skip, 0);
    for (size_t i = 0, before = 0; i < out->n; i++) {
        require(detokenizer_push(&d, out->ids[i], &text) == STATUS_OK);
        require(text.len == before || utf8_is_valid(text.data + before, text.len - before));
        before = text.len;
    }
    require(detokenizer_flush(&d, &text) == STATUS_OK);
    buf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *tokenizers[N_KINDS];       /* loaded once; the process ends with them */
    static int32_t ids[MAX_IDS];
    if (size == 0 || size > MAX_IDS / 4)
        return 0;
    size_t kind = data[0] % N_KINDS;
    int flags = data[0] / (int)N_KINDS;
    if (tokenizers[kind] == NULL)
        tokenizers[kind] = load(kinds[kind].name);
    const struct tokenizer *t = tokenizers[kind];
    const struct tokenizer_input in = { .text = (const char *)data + 1, .len = size - 1,
                                        .add_special = flags & 1, .specials_are_text = (flags & 2) != 0 };
    struct token_array out = { .ids = ids, .max = MAX_IDS };
    require(tokenizer_encode(t, &in, &out, NULL) == STATUS_OK);
    for (size_t i = 0; i < out.n; i++)
        require(ids[i] >= 0 && ids[i] < tokenizer_n_ids(t));
    if (kinds[kind].gives_back && !in.add_special)
        check_bytes(t, &out, in.text, in.len);
    check_stream(t, &out, (flags & 4) != 0);
    return 0;
}
