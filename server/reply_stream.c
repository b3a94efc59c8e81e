/* reply_stream.c - a reply as server-sent events, one chunk for what one event makes visible. */
#include "server/reply_private.h"

static enum status begin_chunk(const struct reply *r, int index, struct buf *out)
{
    TRY(buf_add(out, r->prefix.data, r->prefix.len));
    return buf_printf(out, "{\"index\":%d,", index);
}

static enum status end_chunk(const struct reply *r, struct buf *out)
{
    int32_t prompt = r->options.prompt_tokens;
    if (!r->options.usage_in_chunks)
        return buf_add_text(out, "]}\n\n");
    return buf_printf(out, "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
                      prompt, r->n_tokens, prompt + r->n_tokens);
}

/* Told with the first content and not earlier: some clients take this chunk for the first token. */
static enum status stream_role(struct reply *r, int index, struct choice *c, struct buf *out)
{
    c->has_role = 1;
    TRY(begin_chunk(r, index, out));
    TRY(buf_add_text(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                          "\"finish_reason\":null}"));
    return end_chunk(r, out);
}

static enum status stream_content(struct reply *r, int index, struct choice *c, struct buf *out)
{
    int is_chat = r->options.shape == REPLY_CHAT;
    TRY(begin_chunk(r, index, out));
    TRY(buf_add_text(out, is_chat ? "\"delta\":{\"content\":" : "\"text\":"));
    TRY(reply_write_text(c, out));
    if (is_chat)
        TRY(buf_add_char(out, '}'));
    TRY(reply_write_tail(r, c, 0, out));
    return end_chunk(r, out);
}

static enum status stream_end_of_choice(struct reply *r, int index, struct choice *c, struct buf *out)
{
    TRY(begin_chunk(r, index, out));
    TRY(buf_add_text(out, r->options.shape == REPLY_CHAT ? "\"delta\":{}" : "\"text\":\"\""));
    TRY(reply_write_tail(r, c, 1, out));
    return end_chunk(r, out);
}

enum status reply_stream_choice(struct reply *r, int index, struct choice *c, struct buf *out)
{
    int has_news = c->text.len > 0 || c->logprobs.n_entries > 0 || c->token_ids.len > 0;
    if (r->options.shape == REPLY_CHAT && !c->has_role && (has_news || c->has_ended))
        TRY(stream_role(r, index, c, out));
    if (has_news)
        TRY(stream_content(r, index, c, out));
    return c->has_ended ? stream_end_of_choice(r, index, c, out) : STATUS_OK;
}

enum status reply_stream_finish(struct reply *r, struct buf *out)
{
    if (r->options.include_usage) {
        TRY(buf_add(out, r->prefix.data, r->prefix.len));
        TRY(buf_add_text(out, "],"));
        TRY(reply_write_usage(r, out));
        TRY(buf_add_text(out, "}\n\n"));
    }
    return buf_add_text(out, "data: [DONE]\n\n");
}
