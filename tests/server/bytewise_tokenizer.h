/* bytewise_tokenizer.h - a tokenizer for tests: token b is the byte b (0..255), 256 is the special token
 * "<|end|>" and 257 the special token "<|sep|>".  Any text, any cut, no file.
 */
#ifndef TESTS_SERVER_BYTEWISE_TOKENIZER_H
#define TESTS_SERVER_BYTEWISE_TOKENIZER_H

#include "base/buf.h"
#include "model/tokenizer.h"

#include <assert.h>
#include <stdlib.h>

enum { BYTE_END = 256, BYTE_SEP = 257, BYTE_N_IDS = 258 };

/* The character that byte-level vocabularies write for a byte. */
static inline int bytewise_character(int byte)
{
    int next = 256;
    for (int b = 0; b < 256; b++) {
        int is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int character = is_itself ? b : next++;
        if (b == byte)
            return character;
    }
    return -1;
}

static inline struct tokenizer *bytewise_tokenizer_create(void)
{
    static const char config[] = "{\"eos_token\":\"<|end|>\",\"bos_token\":\"<|end|>\"}";
    struct tokenizer *t = NULL;
    struct buf json;
    buf_init(&json, 1 << 20);
    enum status s = buf_add_text(&json, "{\"added_tokens\":["
        "{\"id\":256,\"content\":\"<|end|>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false},"
        "{\"id\":257,\"content\":\"<|sep|>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int b = 0; b < 256 && s == STATUS_OK; b++)
        s = buf_printf(&json, "%s\"\\u%04x\":%d", b > 0 ? "," : "", (unsigned)bytewise_character(b), b);
    if (s == STATUS_OK)
        s = buf_add_text(&json, ",\"<|end|>\":256,\"<|sep|>\":257}}}");
    assert(s == STATUS_OK);
    struct tokenizer_files files = { .json = json.data, .json_len = json.len, .config = config,
                                     .config_len = sizeof config - 1 };
    struct error err = { .text = "" };
    s = tokenizer_load_memory(&t, &files, &err);
    if (s != STATUS_OK) {
        fprintf(stderr, "bytewise tokenizer: %s\n", err.text);
        abort();
    }
    buf_clear(&json);
    return t;
}

#endif
