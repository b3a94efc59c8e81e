/* api_tokenize.c - POST /tokenize and /detokenize, GET /tokenizer_info.
 *
 * Two dialects are served at once: vLLM's (prompt, messages, tokens, count) and llama-server's (content,
 * with_pieces); a reply has the fields of both.
 */
#include "base/json_write.h"
#include "base/utf8.h"
#include "model/chat_template.h"
#include "model/detokenizer.h"
#include "model/tokenizer.h"
#include "server/api_intake.h"
#include "server/api_prompts.h"

#include <stdlib.h>

struct tokenize_body {
    struct body_text prompt;
    const json_t *messages;
    int add_special, with_pieces, return_strings;
};

static const struct body_field tokenize_fields[] = {
    { "prompt", BODY_TEXT(struct tokenize_body, prompt), .help = "the text" },
    { "content", BODY_TEXT(struct tokenize_body, prompt), .help = "another name of prompt" },
    { "messages", BODY_ARRAY(struct tokenize_body, messages),
      .help = "instead of a text: a conversation, with the other fields of a chat" },
    { "model", BODY_IGNORED, .schema = "\"type\":[\"string\",\"null\"]", .help = "a served name" },
    { "add_special_tokens", BODY_FLAG(struct tokenize_body, add_special),
      .help = "put the tokenizer's special tokens around the text" },
    { "add_special", BODY_FLAG(struct tokenize_body, add_special),
      .help = "another name of add_special_tokens" },
    { "with_pieces", BODY_FLAG(struct tokenize_body, with_pieces),
      .help = "tokens are objects of id and piece; a piece that is no UTF-8 is a list of bytes" },
    { "return_token_strs", BODY_FLAG(struct tokenize_body, return_strings), .help = "add token_strs" },
};
const struct body_table api_tokenize_fields = BODY_TABLE(tokenize_fields);

struct detokenize_body {
    const json_t *tokens;
    int skip_special;
};

static const struct body_field detokenize_fields[] = {
    { "tokens", BODY_ARRAY(struct detokenize_body, tokens),
      .schema = "\"type\":\"array\",\"items\":" API_TOKEN_SCHEMA,
      .help = "token ids" },
    { "model", BODY_IGNORED, .schema = "\"type\":[\"string\",\"null\"]", .help = "a served name" },
    { "skip_special_tokens", BODY_FLAG(struct detokenize_body, skip_special),
      .help = "special tokens have no text" },
};
const struct body_table api_detokenize_fields = BODY_TABLE(detokenize_fields);

/* ---- tokenize ---- */

static enum status write_piece(const struct tokenizer *t, int32_t id, struct buf *out)
{
    size_t len;
    const char *bytes = tokenizer_token_bytes(t, id, &len);
    if (utf8_is_valid(bytes, len))
        return json_write_string(out, bytes, len);
    TRY(buf_add_char(out, '['));
    for (size_t i = 0; i < len; i++)
        TRY(buf_printf(out, i == 0 ? "%d" : ",%d", (unsigned char)bytes[i]));
    return buf_add_char(out, ']');
}

static enum status write_token(const struct api *api, const struct tokenize_body *b, int32_t id,
                               struct buf *out)
{
    if (!b->with_pieces)
        return buf_printf(out, "%d", (int)id);
    TRY(buf_printf(out, "{\"id\":%d,\"piece\":", (int)id));
    TRY(write_piece(api->options.tokenizer, id, out));
    return buf_add_char(out, '}');
}

static enum status write_strings(const struct api *api, const struct api_prompt *prompt, struct buf *out)
{
    TRY(buf_add_text(out, ",\"token_strs\":["));
    for (int32_t i = 0; i < prompt->n; i++) {
        size_t len;
        const char *text = tokenizer_token_text(api->options.tokenizer, prompt->ids[i], &len);
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(json_write_string(out, text != NULL ? text : "", text != NULL ? len : 0));
    }
    return buf_add_char(out, ']');
}

static enum status write_tokens(const struct api *api, const struct tokenize_body *b,
                                const struct api_prompt *prompt, struct buf *out)
{
    TRY(buf_printf(out, "{\"count\":%d,\"max_model_len\":%d,\"tokens\":[", (int)prompt->n,
                   api_max_length(api)));
    for (int32_t i = 0; i < prompt->n; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_token(api, b, prompt->ids[i], out));
    }
    TRY(buf_add_char(out, ']'));
    if (b->return_strings)
        TRY(write_strings(api, prompt, out));
    return buf_add_char(out, '}');
}

/* Any length is told here, also one that the model could not take; an empty text has no tokens. */
static enum status encode_text(const struct api *api, const struct tokenize_body *b, struct api_prompt *out,
                               struct api_refusal *why)
{
    struct tokenizer_input input = { .text = b->prompt.bytes,
                                     .len = b->prompt.len,
                                     .add_special = b->add_special };
    struct token_array counted = { .ids = NULL };
    struct error err;
    enum status s = tokenizer_encode(api->options.tokenizer, &input, &counted, &err);
    if (s != STATUS_OK && !(s == STATUS_TOO_LARGE && counted.n > 0)) {
        why->err = err;
        return s;
    }
    struct token_array tokens = { .ids = malloc((counted.n + 1) * sizeof *tokens.ids), .max = counted.n };
    if (tokens.ids == NULL)
        return api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for %zu tokens", counted.n);
    out->ids = tokens.ids;
    TRY(tokenizer_encode(api->options.tokenizer, &input, &tokens, &why->err));
    out->n = (int32_t)tokens.n;
    return STATUS_OK;
}

static enum status read_tokenize(struct api *api, const json_t *object, struct api_intake_result *out,
                                 struct api_refusal *why)
{
    struct tokenize_body b = { .add_special = 1 };
    struct api_prompt prompt = { .ids = NULL };
    TRY(body_fields_read(&api_tokenize_fields, object, &b, &why->param, &why->err));
    if (b.prompt.bytes == NULL && b.messages == NULL)
        return api_refuse(why, "prompt", STATUS_BAD_REQUEST,
                          "'prompt' (or 'content', or 'messages') is required");
    enum status s = b.messages != NULL ? api_chat_encode(api, object, &prompt, why)
                                       : encode_text(api, &b, &prompt, why);
    if (s == STATUS_OK && write_tokens(api, &b, &prompt, &out->reply) != STATUS_OK)
        s = api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for the reply");
    api_prompt_clear(&prompt);
    return s;
}

/* ---- detokenize ---- */

static enum status write_text(const struct api *api, const int32_t *ids, size_t n, int skip_special,
                              struct buf *out)
{
    struct buf text;
    buf_init(&text, API_MAX_REPLY_BYTES / 2);
    enum status s = detokenizer_decode(api->options.tokenizer, ids, n, skip_special, &text);
    const char *names[] = { "{\"prompt\":", ",\"content\":" };
    for (size_t i = 0; i < 2 && s == STATUS_OK; i++) {
        s = buf_add_text(out, names[i]);
        if (s == STATUS_OK)
            s = json_write_string(out, text.len > 0 ? text.data : "", text.len);
    }
    buf_clear(&text);
    return s == STATUS_OK ? buf_add_char(out, '}') : s;
}

static enum status read_detokenize(struct api *api, const json_t *object, struct api_intake_result *out,
                                   struct api_refusal *why)
{
    struct detokenize_body b = { .tokens = NULL };
    struct api_prompts_rules rules = { .api = api, .field = "tokens" };
    int32_t *ids;
    size_t n;
    TRY(body_fields_read(&api_detokenize_fields, object, &b, &why->param, &why->err));
    if (b.tokens == NULL)
        return api_refuse(why, "tokens", STATUS_BAD_REQUEST, "'tokens' is required");
    TRY(api_token_ids_read(b.tokens, &rules, &ids, &n, why));
    enum status s = write_text(api, ids, n, b.skip_special, &out->reply);
    free(ids);
    return s == STATUS_OK
               ? s
               : api_refuse(why, "tokens", s, "the text is larger than %zu bytes", API_MAX_REPLY_BYTES / 2);
}

/* ---- tokenizer_info ---- */

static enum status write_role(const struct api *api, const char *name, int32_t id, struct buf *out)
{
    size_t len = 0;
    const char *text = id >= 0 ? tokenizer_token_text(api->options.tokenizer, id, &len) : NULL;
    TRY(buf_printf(out, ",\"%s\":", name));
    TRY(text != NULL ? json_write_string(out, text, len) : buf_add_text(out, "null"));
    return buf_printf(out, ",\"%s_id\":%d", name, (int)id);
}

static enum status write_info(const struct api *api, struct buf *out)
{
    const struct tokenizer *t = api->options.tokenizer;
    TRY(buf_printf(
        out, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"vocab_size\":%d,\"model_max_length\":%d",
        (int)tokenizer_n_ids(t), api_max_length(api)));
    TRY(write_role(api, "bos_token", tokenizer_bos(t), out));
    TRY(write_role(api, "eos_token", tokenizer_eos(t), out));
    TRY(write_role(api, "pad_token", tokenizer_pad(t), out));
    if (api->options.chat_template == NULL)
        return buf_add_text(out, ",\"has_chat_template\":false,\"chat_template\":null}");
    TRY(buf_add_text(out, ",\"has_chat_template\":true,\"chat_template\":"));
    TRY(json_write_cstring(out, chat_template_text(api->options.chat_template)));
    return buf_add_char(out, '}');
}

/* ---- handlers ---- */

void api_handle_tokenize(void *context, struct http_exchange *ex)
{
    api_intake(context, ex, read_tokenize);
}

void api_handle_detokenize(void *context, struct http_exchange *ex)
{
    api_intake(context, ex, read_detokenize);
}

void api_handle_tokenizer_info(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    api_reply_out(api, ex, write_info(api, &api->out));
}
