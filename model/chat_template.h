/* chat_template.h - the chat format of a model: messages to prompt text.
 *
 *   model directory                                   a request
 *   chat_template.jinja ----------+                   messages, tools, documents,
 *   tokenizer_config.json         |                   chat_template_kwargs
 *     chat_template (text, or ----+-> chat_template        |
 *     [{name, template}, ..])     |        +-----> chat_template_render -> prompt
 *     bos_token, eos_token, .. ---+
 *
 * Found in this order: the file, the text, of a list the entry "default" (with
 * tools "tool_use", if there is one).  A model that brings none gets a built-in
 * template in ChatML's form; chat_template_is_builtin says so, since such a
 * model may never have seen that form.
 *
 * Templates differ in what they read.  At load each is tried on small probe
 * conversations, which settles whether it takes content as text or as parts, and
 * the arguments of tool calls as objects or as text; render converts what the
 * client sent accordingly (chat_messages.h).
 *
 * The prompt has its special tokens written out, the begin of text included if
 * the template prints it: tokenise it without adding any.
 *
 * Threads: constant after load; any number may render at once, each with its own
 * request.
 */
#ifndef MODEL_CHAT_TEMPLATE_H
#define MODEL_CHAT_TEMPLATE_H

#include "model/chat_messages.h"
#include "model/jinja.h"

struct chat_template;           /* opaque */

/* The template of a model directory.  *out goes to chat_template_destroy.
 * BAD_MODEL: a file is there but is no template or no JSON of this kind; the
 * sentence has the file's line.  IO, TOO_LARGE, NO_MEMORY. */
MUST_CHECK enum status chat_template_load(struct chat_template **out, const char *directory,
                                          struct error *err);

/* From text[len] (NULL: the built-in one) and an object of special tokens,
 * {"bos_token": "<s>", ..} or NULL, which is copied.  Failures as above. */
MUST_CHECK enum status chat_template_create(struct chat_template **out, const char *text, size_t len,
                                            const json_t *special_tokens, struct error *err);
void chat_template_destroy(struct chat_template *template);     /* NULL is allowed */

int chat_template_is_builtin(const struct chat_template *template);

/* Its source; of two, the one for conversations without tools. */
const char *chat_template_text(const struct chat_template *template);

/* What the probes found. */
int chat_template_takes_text(const struct chat_template *template);
int chat_template_takes_parts(const struct chat_template *template);
enum chat_arguments chat_template_arguments(const struct chat_template *template);

struct chat_input {
    const json_t *messages;     /* array of objects */
    const json_t *tools;        /* array; NULL or null: none */
    const json_t *documents;    /* array; NULL or null: none */
    const json_t *variables;    /* object of chat_template_kwargs, or NULL */
    int add_generation_prompt;
    int keep_messages;          /* render the messages as they are, converting nothing */
};

/* Append the prompt to out.
 * BAD_REQUEST: the template refuses the conversation (its own words), a limit of
 * options was met, or variables names one of the input's other fields.
 * TOO_LARGE, NO_MEMORY.  out then has what it had before. */
MUST_CHECK enum status chat_template_render(const struct chat_template *template,
                                            const struct chat_input *input,
                                            const struct jinja_options *options, struct buf *out,
                                            struct error *err);

#endif
