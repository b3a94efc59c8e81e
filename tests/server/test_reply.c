/* test_reply - engine events become chunks and bodies: one path, exact shapes, any interleaving. */
#include "base/rng.h"
#include "server/reply.h"
#include "tests/server/bytewise_tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- a scripted call ---- */

static struct tokenizer *tokenizer;

static const int end_tokens[] = { BYTE_END };

static struct reply_options options_of(enum reply_shape shape)
{
    return (struct reply_options){
        .shape = shape, .id = "id-1", .model = "m\"1", .created = 1700000000, .tokenizer = tokenizer,
        .end_tokens = end_tokens, .n_end_tokens = 1, .n_prompts = 1, .n_choices = 1, .n_returned = 1,
    };
}

struct script {
    struct reply *reply;
    struct request *request;
    struct buf out;
};

static void script_start(struct script *s, const struct reply_options *options)
{
    struct error err;
    assert_int_equal(reply_create(&s->reply, options, &err), STATUS_OK);
    assert_int_equal(request_create(&s->request, &err), STATUS_OK);
    s->request->n_choices = options->n_choices;
    buf_init(&s->out, REPLY_MAX_BYTES);
}

static void script_end(struct script *s)
{
    reply_destroy(s->reply);
    request_destroy(s->request);
    buf_clear(&s->out);
}

static void take(struct script *s, int prompt, struct engine_event event)
{
    struct error err;
    event.request = s->request;
    assert_int_equal(reply_take(s->reply, prompt, &event, &s->out, &err), STATUS_OK);
}

static struct engine_event token_event(int choice, int32_t token, const char *text, float logprob)
{
    struct engine_event e = { .kind = ENGINE_TOKEN, .choice = choice, .token = token, .logprob = logprob };
    e.n_text = (int32_t)strlen(text);
    memcpy(e.text, text, strlen(text));
    return e;
}

static struct engine_event end_event(int choice, enum finish_reason finish)
{
    return (struct engine_event){ .kind = ENGINE_CHOICE_END, .choice = choice, .finish = finish,
                                  .stop_index = -1, .stop_token = -1 };
}

static struct engine_event done_event(int prompt_tokens, int output_tokens)
{
    return (struct engine_event){ .kind = ENGINE_DONE,
                                  .usage = { .prompt_tokens = prompt_tokens, .output_tokens = output_tokens,
                                             .cached_tokens = 2 } };
}

static void finish(struct script *s)
{
    struct error err;
    assert_int_equal(reply_finish(s->reply, &s->out, &err), STATUS_OK);
}

static json_t *parse(const char *text, size_t len)
{
    json_error_t where;
    json_t *json = json_loadb(text, len, JSON_ALLOW_NUL, &where);
    if (json == NULL)
        fail_msg("%s in: %.*s", where.text, (int)len, text);
    return json;
}

/* The events of a stream as a JSON array; checks the framing. */
static json_t *parse_stream(const struct buf *out)
{
    static const char end[] = "data: [DONE]\n\n";
    json_t *events = json_array();
    size_t at = 0;
    while (at < out->len) {
        const char *line = out->data + at;
        const char *stop = strstr(line, "\n\n");
        assert_non_null(stop);
        assert_memory_equal(line, "data: ", 6);
        size_t len = (size_t)(stop - line);
        assert_null(memchr(line, '\n', len));
        at += len + 2;
        if (strncmp(line, end, sizeof end - 1) == 0) {
            assert_int_equal(at, out->len);
            return events;
        }
        json_array_append_new(events, parse(line + 6, len - 6));
    }
    fail_msg("the stream has no [DONE]");
    return events;
}

static const char *text_at(const json_t *object, const char *a, const char *b)
{
    return json_string_value(json_object_get(json_object_get(object, a), b));
}

static json_t *choice_of(const json_t *chunk, size_t i)
{
    return json_array_get(json_object_get(chunk, "choices"), i);
}

/* ---- shapes ---- */

static void a_completion_has_the_openai_shape(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_COMPLETION);
    script_start(&s, &o);
    take(&s, 0, token_event(0, 'H', "H", -0.5f));
    take(&s, 0, token_event(0, 'i', "i", -0.25f));
    take(&s, 0, end_event(0, FINISH_LENGTH));
    take(&s, 0, done_event(3, 2));
    finish(&s);
    assert_string_equal(
        s.out.data,
        "{\"id\":\"id-1\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"m\\\"1\","
        "\"system_fingerprint\":\"latentd-0.1.0\",\"choices\":[{\"index\":0,\"text\":\"Hi\","
        "\"logprobs\":null,"
        "\"finish_reason\":\"length\",\"stop_reason\":null}],\"usage\":{\"prompt_tokens\":3,"
        "\"completion_tokens\":2,\"total_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":2}}}");
    script_end(&s);
}

static void a_chat_completion_has_the_openai_shape(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_CHAT);
    script_start(&s, &o);
    take(&s, 0, token_event(0, 'H', "H", 0));
    take(&s, 0, end_event(0, FINISH_STOP));
    take(&s, 0, done_event(3, 1));
    finish(&s);
    json_t *body = parse(s.out.data, s.out.len);
    assert_string_equal(json_string_value(json_object_get(body, "object")), "chat.completion");
    json_t *choice = choice_of(body, 0);
    assert_string_equal(text_at(choice, "message", "role"), "assistant");
    assert_string_equal(text_at(choice, "message", "content"), "H");
    assert_true(json_is_null(json_object_get(choice, "logprobs")));
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    json_decref(body);
    script_end(&s);
}

static void a_chat_stream_has_role_content_finish_usage_done(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_CHAT);
    o.is_stream = 1;
    o.include_usage = 1;
    script_start(&s, &o);
    assert_int_equal(s.out.len, 0);
    take(&s, 0, token_event(0, 0xc3, "", 0));           /* half a character: nothing to show, no role yet */
    assert_int_equal(s.out.len, 0);
    take(&s, 0, token_event(0, 0xa9, "\xc3\xa9", 0));
    assert_non_null(strstr(s.out.data, "\"role\":\"assistant\""));
    take(&s, 0, end_event(0, FINISH_STOP));
    take(&s, 0, done_event(1, 2));
    finish(&s);
    json_t *events = parse_stream(&s.out);
    assert_int_equal(json_array_size(events), 4);
    json_t *role = choice_of(json_array_get(events, 0), 0),
           *content = choice_of(json_array_get(events, 1), 0);
    json_t *last = choice_of(json_array_get(events, 2), 0), *usage = json_array_get(events, 3);
    assert_string_equal(text_at(role, "delta", "content"), "");
    assert_true(json_is_null(json_object_get(role, "finish_reason")));
    assert_string_equal(text_at(content, "delta", "content"), "\xc3\xa9");
    assert_null(json_object_get(json_object_get(content, "delta"), "role"));
    assert_true(json_is_null(json_object_get(content, "finish_reason")));
    assert_int_equal(json_object_size(json_object_get(last, "delta")), 0);
    assert_string_equal(json_string_value(json_object_get(last, "finish_reason")), "stop");
    assert_int_equal(json_array_size(json_object_get(usage, "choices")), 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(usage, "usage"), "total_tokens")), 3);
    for (size_t i = 0; i < 4; i++) {
        json_t *event = json_array_get(events, i);
        assert_string_equal(json_string_value(json_object_get(event, "id")), "id-1");
        assert_string_equal(json_string_value(json_object_get(event, "object")), "chat.completion.chunk");
        assert_true(i == 3 || json_object_get(event, "usage") == NULL);
    }
    json_decref(events);
    script_end(&s);
}

static void a_stream_has_no_usage_unless_asked(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_COMPLETION);
    o.is_stream = 1;
    script_start(&s, &o);
    take(&s, 0, token_event(0, 'x', "x", 0));
    take(&s, 0, end_event(0, FINISH_LENGTH));
    take(&s, 0, done_event(1, 1));
    finish(&s);
    json_t *events = parse_stream(&s.out);
    assert_int_equal(json_array_size(events), 2);
    assert_string_equal(json_string_value(json_object_get(choice_of(json_array_get(events, 1), 0), "text")),
                        "");
    assert_null(strstr(s.out.data, "usage"));
    json_decref(events);
    script_end(&s);
}

static void every_chunk_tells_the_usage_so_far_if_asked(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_CHAT);
    o.is_stream = o.usage_in_chunks = 1;
    o.n_choices = o.n_returned = 2;
    o.prompt_tokens = 7;
    script_start(&s, &o);
    take(&s, 0, token_event(0, 'x', "x", 0));           /* role and content: 1 */
    take(&s, 0, token_event(1, 'y', "y", 0));           /* role and content: 2 */
    take(&s, 0, token_event(1, BYTE_END, "", 0));       /* no chunk: 3 */
    take(&s, 0, end_event(1, FINISH_STOP));
    take(&s, 0, end_event(0, FINISH_LENGTH));
    take(&s, 0, done_event(7, 3));
    finish(&s);
    static const int expected[] = { 1, 1, 2, 2, 3, 3 };
    json_t *events = parse_stream(&s.out);
    assert_int_equal(json_array_size(events), 6);       /* no last chunk: include_usage was not asked for */
    for (size_t i = 0; i < 6; i++) {
        json_t *usage = json_object_get(json_array_get(events, i), "usage");
        assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 7);
        assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), expected[i]);
        assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 7 + expected[i]);
    }
    json_decref(events);
    script_end(&s);
}

static void the_stop_that_ended_a_choice_is_named(void **state)
{
    (void)state;
    struct script s;
    struct error err;
    struct reply_options o = options_of(REPLY_COMPLETION);
    o.n_choices = o.n_returned = 3;
    script_start(&s, &o);
    assert_int_equal(request_add_stop(s.request, "\"q", 2, &err), STATUS_OK);
    s.request->stop_tokens[0] = 'z';
    s.request->n_stop_tokens = 1;
    struct engine_event by_string = end_event(0, FINISH_STOP), by_token = end_event(1, FINISH_STOP),
                        by_end = end_event(2, FINISH_STOP);
    by_string.stop_index = 0;
    by_token.stop_token = 'z';
    by_end.stop_token = BYTE_END;
    take(&s, 0, by_string);
    take(&s, 0, by_token);
    take(&s, 0, by_end);
    take(&s, 0, done_event(1, 3));
    finish(&s);
    json_t *body = parse(s.out.data, s.out.len);
    assert_string_equal(json_string_value(json_object_get(choice_of(body, 0), "stop_reason")), "\"q");
    assert_int_equal(json_integer_value(json_object_get(choice_of(body, 1), "stop_reason")), 'z');
    assert_true(json_is_null(json_object_get(choice_of(body, 2), "stop_reason")));
    json_decref(body);
    script_end(&s);
}

/* ---- echo, logprobs, best_of ---- */

static struct engine_event prompt_event(int position, int32_t token, float logprob)
{
    return (struct engine_event){ .kind = ENGINE_PROMPT_TOKEN,
                                  .position = position,
                                  .token = token,
                                  .logprob = logprob,
                                  .n_top = 1,
                                  .top = { { .token = 'e', .logprob = -0.125f } } };
}

static void echo_shows_the_prompt_and_its_logprobs_in_every_choice(void **state)
{
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        struct script s;
        struct error err;
        struct reply_options o = options_of(REPLY_COMPLETION);
        o.echo = o.want_logprobs = 1;
        o.n_choices = o.n_returned = 2;
        o.is_stream = is_stream;
        script_start(&s, &o);
        assert_int_equal(reply_set_echo(s.reply, 0, "ab", 2, &err), STATUS_OK);
        take(&s, 0, prompt_event(0, 'a', 0));
        take(&s, 0, prompt_event(1, 'b', -2));
        take(&s, 0, end_event(1, FINISH_LENGTH));       /* max_tokens 0: no token comes */
        take(&s, 0, end_event(0, FINISH_LENGTH));
        take(&s, 0, done_event(2, 0));
        finish(&s);
        json_t *whole = is_stream ? parse_stream(&s.out) : parse(s.out.data, s.out.len);
        for (size_t i = 0; i < 2; i++) {
            /* In the stream: content of 1, end of 1, content of 0, end of 0. */
            json_t *choice = is_stream ? choice_of(json_array_get(whole, 2 * i), 0) : choice_of(whole, i);
            json_t *logprobs = json_object_get(choice, "logprobs");
            assert_string_equal(json_string_value(json_object_get(choice, "text")), "ab");
            assert_int_equal(json_integer_value(json_object_get(choice, "index")), is_stream ? 1 - i : i);
            char *text = json_dumps(logprobs, JSON_COMPACT);
            assert_string_equal(text,
                                "{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[null,-2],\"top_logprobs\":"
                                "[null,{\"e\":-0.125,\"b\":-2}],\"text_offset\":[0,1]}");
            free(text);
        }
        json_decref(whole);
        script_end(&s);
    }
}

static void the_tokens_of_logprobs_are_the_text(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_CHAT);
    o.want_logprobs = 1;
    script_start(&s, &o);
    take(&s, 0, token_event(0, 'a', "a", -1));
    take(&s, 0, token_event(0, BYTE_SEP, "", -1));      /* special: no text, no entry */
    take(&s, 0, token_event(0, 'b', "b", -1));
    take(&s, 0, token_event(0, BYTE_END, "", -1));      /* the end: likewise */
    take(&s, 0, end_event(0, FINISH_STOP));
    take(&s, 0, done_event(1, 4));
    finish(&s);
    json_t *body = parse(s.out.data, s.out.len);
    json_t *content = json_object_get(json_object_get(choice_of(body, 0), "logprobs"), "content");
    assert_int_equal(json_array_size(content), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "token")), "a");
    assert_string_equal(json_string_value(json_object_get(json_array_get(content, 1), "token")), "b");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(body, "usage"), "completion_tokens")), 4);
    json_decref(body);
    script_end(&s);
}

static void best_of_keeps_the_choices_with_the_highest_mean_logprob(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_COMPLETION);
    o.n_choices = 4;
    o.n_returned = 2;
    script_start(&s, &o);
    static const struct { const char *text; float first, second; } choices[] = {
        { "a", -3, -3 }, { "b", -1, -1.5f }, { "c", -0.5f, -4 }, { "d", -1, -1 },
    };
    for (int i = 0; i < 4; i++) {
        take(&s, 0, token_event(i, 'x', choices[i].text, choices[i].first));
        take(&s, 0, token_event(i, 'x', choices[i].text, choices[i].second));
        take(&s, 0, end_event(i, FINISH_LENGTH));
    }
    take(&s, 0, done_event(1, 8));
    finish(&s);
    json_t *body = parse(s.out.data, s.out.len);
    assert_int_equal(json_array_size(json_object_get(body, "choices")), 2);
    assert_string_equal(json_string_value(json_object_get(choice_of(body, 0), "text")), "dd");
    assert_string_equal(json_string_value(json_object_get(choice_of(body, 1), "text")), "bb");
    assert_int_equal(json_integer_value(json_object_get(choice_of(body, 1), "index")), 1);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(body, "usage"), "completion_tokens")), 8);
    json_decref(body);
    script_end(&s);
}

static void choices_of_several_prompts_are_numbered_through(void **state)
{
    (void)state;
    struct script s;
    struct reply_options o = options_of(REPLY_COMPLETION);
    o.n_prompts = 3;
    o.n_choices = o.n_returned = 2;
    script_start(&s, &o);
    for (int p = 2; p >= 0; p--)
        for (int c = 0; c < 2; c++) {
            char text[32];
            snprintf(text, sizeof text, "p%dc%d", p, c);
            take(&s, p, token_event(c, 'x', text, 0));
            take(&s, p, end_event(c, FINISH_LENGTH));
        }
    for (int p = 0; p < 3; p++)
        take(&s, p, done_event(5, 2));
    finish(&s);
    json_t *body = parse(s.out.data, s.out.len);
    for (int i = 0; i < 6; i++) {
        char text[32];
        snprintf(text, sizeof text, "p%dc%d", i / 2, i % 2);
        assert_int_equal(json_integer_value(json_object_get(choice_of(body, (size_t)i), "index")), i);
        assert_string_equal(json_string_value(json_object_get(choice_of(body, (size_t)i), "text")), text);
    }
    json_t *usage = json_object_get(body, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 15);
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 6);
    json_decref(body);
    script_end(&s);
}

/* ---- a stream put together is the whole reply ---- */

enum { N_PROMPTS = 2, N_CHOICES = 3, MAX_STEPS = 40 };

/* Random visible text: nothing, ASCII, quotes and control bytes, characters of 2 to 4 bytes. */
static void random_text(struct rng *rng, char *out)
{
    static const char *const pieces[] = { "",
                                          "a",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "\t",
                                          "\x01",
                                          "\xc3\xa9",
                                          "\xe6\xad\xa6",
                                          "\xf0\x9f\x91\xa9",
                                          "\xe2\x80\x8d",
                                          " the",
                                          "</s>",
                                          "data: ",
                                          "\x7f" };
    out[0] = '\0';
    for (uint64_t n = rng_below(rng, 4); n > 0; n--)
        strcat(out, pieces[rng_below(rng, sizeof pieces / sizeof pieces[0])]);
}

/* Not the token of the byte 0, which jansson reads in texts but not as a name in top_logprobs. */
static int32_t random_token(struct rng *rng)
{
    return 1 + (int32_t)rng_below(rng, BYTE_N_IDS - 1);
}

static void random_events(struct script *s, uint64_t seed)
{
    struct rng rng;
    int left[N_PROMPTS * N_CHOICES], n_left = N_PROMPTS * N_CHOICES;
    rng_seed(&rng, seed);
    for (int i = 0; i < n_left; i++)
        left[i] = 1 + (int)rng_below(&rng, MAX_STEPS);
    for (int p = 0; p < N_PROMPTS; p++)
        for (int i = 0; i < 3; i++)
            take(s, p, prompt_event(i, random_token(&rng), -1));
    while (n_left > 0) {
        int i = (int)rng_below(&rng, N_PROMPTS * N_CHOICES);
        if (left[i] == 0)
            continue;
        char text[64];
        random_text(&rng, text);
        struct engine_event e = token_event(i % N_CHOICES, random_token(&rng), text,
                                            -(float)rng_uniform(&rng));
        e.kind = rng_below(&rng, 5) == 0 ? ENGINE_TEXT : ENGINE_TOKEN;
        e.n_top = (int32_t)rng_below(&rng, 3);
        for (int k = 0; k < e.n_top; k++)
            e.top[k] = (struct token_logprob){ random_token(&rng), -(float)k };
        take(s, i / N_CHOICES, e);
        if (--left[i] > 0)
            continue;
        n_left--;
        take(s, i / N_CHOICES, end_event(i % N_CHOICES, rng_below(&rng, 2) ? FINISH_STOP : FINISH_LENGTH));
    }
    for (int p = 0; p < N_PROMPTS; p++)
        take(s, p, done_event(3, 10));
    finish(s);
}

/* Lists and texts of b behind those of a. */
static void append_json(json_t *to, const char *name, const json_t *from)
{
    json_t *have = json_object_get(to, name);
    if (from == NULL || json_is_null(from))
        return;
    if (have == NULL || json_is_null(have)) {
        json_object_set_new(to, name, json_deep_copy(from));
    } else if (json_is_string(from)) {
        json_object_set_new(to, name, json_sprintf("%s%s", json_string_value(have), json_string_value(from)));
    } else if (json_is_array(from)) {
        json_array_extend(have, (json_t *)from);
    } else if (json_is_object(from)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)from, key, value)
            append_json(have, key, value);
    }
}

/* The reply a client builds from a stream's chunks: [choices] of message or text, logprobs, .. */
static json_t *join_stream(const json_t *events)
{
    json_t *choices = json_array();
    for (int i = 0; i < N_PROMPTS * N_CHOICES; i++)
        json_array_append_new(choices, json_pack("{s:i}", "index", i));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *choice = choice_of(json_array_get(events, i), 0);
        json_t *to = json_array_get(choices, (size_t)json_integer_value(json_object_get(choice, "index")));
        if (choice == NULL)
            continue;
        append_json(to, "text", json_object_get(choice, "text"));
        append_json(to, "text", json_object_get(json_object_get(choice, "delta"), "content"));
        append_json(to, "logprobs", json_object_get(choice, "logprobs"));
        append_json(to, "token_ids", json_object_get(choice, "token_ids"));
        append_json(to, "finish_reason", json_object_get(choice, "finish_reason"));
    }
    return choices;
}

static json_t *join_whole(const json_t *body)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(body, "choices")); i++) {
        const json_t *choice = choice_of(body, i);
        json_t *to = json_pack("{s:i}", "index", (int)json_integer_value(json_object_get(choice, "index")));
        append_json(to, "text", json_object_get(choice, "text"));
        append_json(to, "text", json_object_get(json_object_get(choice, "message"), "content"));
        append_json(to, "logprobs", json_object_get(choice, "logprobs"));
        append_json(to, "token_ids", json_object_get(choice, "token_ids"));
        append_json(to, "finish_reason", json_object_get(choice, "finish_reason"));
        json_array_append_new(choices, to);
    }
    return choices;
}

static void a_stream_put_together_is_the_whole_reply(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct script stream, whole;
        struct error err;
        struct reply_options o = options_of(seed % 2 ? REPLY_CHAT : REPLY_COMPLETION);
        o.n_prompts = N_PROMPTS;
        o.n_choices = o.n_returned = N_CHOICES;
        o.want_logprobs = seed % 3 != 0;
        o.want_token_ids = seed % 5 != 0;
        o.echo = o.shape == REPLY_COMPLETION && seed % 4 == 0;
        script_start(&whole, &o);
        o.is_stream = 1;
        script_start(&stream, &o);
        for (int p = 0; o.echo && p < N_PROMPTS; p++) {
            assert_int_equal(reply_set_echo(stream.reply, p, "the prompt", 10, &err), STATUS_OK);
            assert_int_equal(reply_set_echo(whole.reply, p, "the prompt", 10, &err), STATUS_OK);
        }
        random_events(&stream, seed);
        random_events(&whole, seed);
        json_t *events = parse_stream(&stream.out), *body = parse(whole.out.data, whole.out.len);
        json_t *a = join_stream(events), *b = join_whole(body);
        if (!json_equal(a, b))
            fail_msg("seed %d:\n%s\n%s", (int)seed, json_dumps(a, 0), json_dumps(b, 0));
        json_decref(a);
        json_decref(b);
        json_decref(events);
        json_decref(body);
        script_end(&stream);
        script_end(&whole);
    }
}

static int start(void **state)
{
    (void)state;
    tokenizer = bytewise_tokenizer_create();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completion_has_the_openai_shape),
        cmocka_unit_test(a_chat_completion_has_the_openai_shape),
        cmocka_unit_test(a_chat_stream_has_role_content_finish_usage_done),
        cmocka_unit_test(a_stream_has_no_usage_unless_asked),
        cmocka_unit_test(every_chunk_tells_the_usage_so_far_if_asked),
        cmocka_unit_test(the_stop_that_ended_a_choice_is_named),
        cmocka_unit_test(echo_shows_the_prompt_and_its_logprobs_in_every_choice),
        cmocka_unit_test(the_tokens_of_logprobs_are_the_text),
        cmocka_unit_test(best_of_keeps_the_choices_with_the_highest_mean_logprob),
        cmocka_unit_test(choices_of_several_prompts_are_numbered_through),
        cmocka_unit_test(a_stream_put_together_is_the_whole_reply),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
