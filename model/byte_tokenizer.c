#include "model/byte_tokenizer.h"

#include "base/file.h"
#include "base/json_write.h"
#include "model/byte_level.h"

#include <stdio.h>
#include <string.h>

/* Groups grow from 27 roots, the letters and the blank, by one letter at a time:
 * entry i >= N_ROOTS is entry (i - N_ROOTS) / 26 with letter (i - N_ROOTS) % 26. */
enum { N_LETTERS = 26, N_ROOTS = 27, MAX_GROUP = 16 };

#define MAX_FILE_BYTES ((size_t)256 << 20)

static const struct {
    int id;
    const char *text;
} specials[] = {
    { BYTE_TOKENIZER_BOS, "<|bos|>" },
    { BYTE_TOKENIZER_EOS, "<|eos|>" },
    { BYTE_TOKENIZER_START, "<|im_start|>" },
    { BYTE_TOKENIZER_END, "<|im_end|>" },
};
#define N_SPECIALS (sizeof specials / sizeof specials[0])

static const char chat_template[] =
    "{%- for message in messages -%}\n"
    "<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n"
    "{% endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "<|im_start|>assistant\n"
    "{% endif -%}\n";

static const char config[] =
    "{\n"
    "  \"bos_token\": \"<|bos|>\",\n"
    "  \"eos_token\": \"<|eos|>\",\n"
    "  \"clean_up_tokenization_spaces\": false\n"
    "}\n";

/* The letters of entry i, first letter first; returns how many. */
static size_t group_text(int i, char out[MAX_GROUP])
{
    char backwards[MAX_GROUP];
    size_t n = 0;
    for (; i >= N_ROOTS; i = (i - N_ROOTS) / N_LETTERS)
        backwards[n++] = (char)('a' + (i - N_ROOTS) % N_LETTERS);
    backwards[n++] = i < N_LETTERS ? (char)('a' + i) : ' ';
    for (size_t k = 0; k < n; k++)
        out[k] = backwards[n - 1 - k];
    return n;
}

/* "..." of bytes as a byte-level tokenizer writes them. */
static enum status add_mapped(struct buf *out, const char *bytes, size_t len)
{
    struct buf text;
    buf_init(&text, 4 * MAX_GROUP);
    enum status s = byte_level_map(&text, bytes, len);
    if (s == STATUS_OK)
        s = json_write_string(out, text.data, text.len);
    buf_clear(&text);
    return s;
}

static enum status add_specials(struct buf *out)
{
    for (size_t i = 0; i < N_SPECIALS; i++)
        TRY(buf_printf(out, "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                       "\"rstrip\":false,\"normalized\":false,\"special\":true}", i > 0 ? ",\n" : "",
                       specials[i].id, specials[i].text));
    return STATUS_OK;
}

static enum status add_vocabulary(struct buf *out, int n_groups)
{
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        TRY(add_mapped(out, &c, 1));
        TRY(buf_printf(out, ":%d,\n", byte));
    }
    for (size_t i = 0; i < N_SPECIALS; i++)
        TRY(buf_printf(out, "%s\"%s\":%d", i > 0 ? ",\n" : "", specials[i].text, specials[i].id));
    for (int i = 0; i < n_groups; i++) {
        char text[MAX_GROUP];
        TRY(buf_add_text(out, ",\n"));
        TRY(add_mapped(out, text, group_text(N_ROOTS + i, text)));
        TRY(buf_printf(out, ":%d", BYTE_TOKENIZER_MIN + i));
    }
    return STATUS_OK;
}

static enum status add_merges(struct buf *out, int n_groups)
{
    for (int i = 0; i < n_groups; i++) {
        char text[MAX_GROUP];
        size_t len = group_text(N_ROOTS + i, text);
        TRY(buf_add_text(out, i > 0 ? ",\n[" : "["));
        TRY(add_mapped(out, text, len - 1));
        TRY(buf_add_char(out, ','));
        TRY(add_mapped(out, text + len - 1, 1));
        TRY(buf_add_char(out, ']'));
    }
    return STATUS_OK;
}

static enum status make_tokenizer(struct buf *out, int vocab)
{
    int n_groups = vocab - BYTE_TOKENIZER_MIN;
    TRY(buf_add_text(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":["));
    TRY(add_specials(out));
    TRY(buf_add_text(out, "],\n\"normalizer\":null,\n"
                     "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                     "\"trim_offsets\":true,\"use_regex\":true},\n"
                     "\"post_processor\":null,\n"
                     "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                     "\"trim_offsets\":true,\"use_regex\":true},\n"
                     "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                     "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                     "\"byte_fallback\":false,\"ignore_merges\":false,\n\"vocab\":{"));
    TRY(add_vocabulary(out, n_groups));
    TRY(buf_add_text(out, "},\n\"merges\":["));
    TRY(add_merges(out, n_groups));
    return buf_add_text(out, "]}}\n");
}

static enum status write_file(const char *dir, const char *name, const char *text, size_t len,
                              struct error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return file_replace(path, text, len, err);
}

enum status byte_tokenizer_write(const char *dir, int vocab, struct error *err)
{
    if (vocab < BYTE_TOKENIZER_MIN)
        return fail(err, STATUS_BAD_OPTION, "a vocabulary of 256 bytes and %zu special tokens needs at least "
                    "%d ids, got %d", N_SPECIALS, BYTE_TOKENIZER_MIN, vocab);
    struct buf text;
    buf_init(&text, MAX_FILE_BYTES);
    enum status s = make_tokenizer(&text, vocab);
    if (s != STATUS_OK)
        s = fail(err, s, "a tokenizer of %d tokens cannot be made: %s", vocab, status_meaning(s));
    else
        s = write_file(dir, "tokenizer.json", text.data, text.len, err);
    buf_clear(&text);
    TRY(s);
    TRY(write_file(dir, "tokenizer_config.json", config, sizeof config - 1, err));
    return write_file(dir, "chat_template.jinja", chat_template, sizeof chat_template - 1, err);
}
