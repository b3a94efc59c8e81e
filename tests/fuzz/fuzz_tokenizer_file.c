/* fuzz_tokenizer_file - any bytes as a tokenizer file: refused with a sentence, or usable on any text.
 *
 * The input is the json, then a byte 1, then the config, then a byte 1, then a
 * text; what is missing is empty.
 */
#include "model/detokenizer.h"
#include "model/tokenizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int fact)
{
    if (!fact)
        abort();
}

static const char *part(const char **text, size_t *left, size_t *len)
{
    const char *start = *text, *end = memchr(start, 1, *left);
    *len = end == NULL ? *left : (size_t)(end - start);
    *text += *len + (end != NULL);
    *left -= *len + (end != NULL);
    return start;
}

static void use(const struct tokenizer *t, const char *text, size_t len)
{
    static int32_t ids[MAX_IDS];
    struct token_array out = { .ids = ids, .max = MAX_IDS };
    const struct tokenizer_input in = { .text = text, .len = len, .add_special = 1 };
    enum status s = tokenizer_encode(t, &in, &out, NULL);
    require(s == STATUS_OK || s == STATUS_TOO_LARGE);
    struct buf decoded;
    buf_init(&decoded, 1 << 20);
    s = detokenizer_decode(t, ids, out.n < MAX_IDS ? out.n : MAX_IDS, 0, &decoded);
    require(s == STATUS_OK || s == STATUS_TOO_LARGE);
    buf_clear(&decoded);
    for (int32_t id = -1; id <= tokenizer_n_ids(t) && id < 1000; id++) {
        size_t n;
        const char *bytes = tokenizer_token_bytes(t, id, &n);
        require(bytes[n] == '\0');
        tokenizer_token_text(t, id, &n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    size_t left = size, text_len;
    struct tokenizer_files files = { 0 };
    if (size == 0)
        return 0;
    files.json = part(&at, &left, &files.json_len);
    files.config = part(&at, &left, &files.config_len);
    const char *text = part(&at, &left, &text_len);
    if (files.config_len == 0)
        files.config = NULL;
    struct tokenizer *t = NULL;
    struct error err = { 0 };
    if (tokenizer_load_memory(&t, &files, &err) == STATUS_OK)
        use(t, text, text_len);
    else
        require(err.text[0] != '\0');
    tokenizer_destroy(t);
    return 0;
}
