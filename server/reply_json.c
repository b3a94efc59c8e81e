/* reply_json.c - a reply as one JSON object. */
#include "server/reply_private.h"

static enum status write_choice(struct reply *r, int index, struct choice *c, struct buf *out)
{
    int is_chat = r->options.shape == REPLY_CHAT;
    TRY(buf_printf(out, "%s{\"index\":%d,", index > 0 ? "," : "", index));
    TRY(buf_add_text(out, is_chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":"));
    TRY(reply_write_text(c, out));
    if (is_chat)
        TRY(buf_add_text(out, ",\"refusal\":null}"));
    return reply_write_tail(r, c, 1, out);
}

static double mean_logprob(const struct choice *c)
{
    return c->n_tokens > 0 ? c->logprob_sum / c->n_tokens : 0;
}

/* The likeliest of n choices that is not written yet; of equals the first. */
static int best_of(const struct choice *choices, const char *is_written, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!is_written[i] && (best < 0 || mean_logprob(&choices[i]) > mean_logprob(&choices[best])))
            best = i;
    return best;
}

static enum status write_prompt(struct reply *r, int prompt, struct buf *out)
{
    char is_written[REQUEST_MAX_CHOICES] = { 0 };
    struct choice *choices = &r->choices[prompt * r->options.n_choices];
    int n_returned = r->options.n_returned;
    for (int i = 0; i < n_returned; i++) {
        int next =
            n_returned == r->options.n_choices ? i : best_of(choices, is_written, r->options.n_choices);
        is_written[next] = 1;
        TRY(write_choice(r, prompt * n_returned + i, &choices[next], out));
    }
    return STATUS_OK;
}

enum status reply_json_finish(struct reply *r, struct buf *out)
{
    TRY(buf_add(out, r->prefix.data, r->prefix.len));
    for (int prompt = 0; prompt < r->options.n_prompts; prompt++)
        TRY(write_prompt(r, prompt, out));
    TRY(buf_add_text(out, "],"));
    TRY(reply_write_usage(r, out));
    return buf_add_char(out, '}');
}
