/* chat_messages.h - messages as clients send them, brought into the form that a
 * chat template reads.
 *
 * Clients write text as a string or as parts, and the arguments of a tool call
 * as JSON inside a string.  Templates differ: some join parts on their own, some
 * print a list of them as Python would; most want arguments as an object.
 *
 *   content    "text"                      <->  [{"type": "text", "text": "text"}]
 *   arguments  "{\"city\": \"Bern\"}"      <->  {"city": "Bern"}
 *
 * Threads: any; the messages given are only read.
 */
#ifndef MODEL_CHAT_MESSAGES_H
#define MODEL_CHAT_MESSAGES_H

#include "base/status.h"

#include <jansson.h>

enum chat_content {
    CHAT_CONTENT_AS_IS,
    CHAT_CONTENT_TEXT,      /* text parts joined by newlines; other parts are refused */
    CHAT_CONTENT_PARTS      /* a string becomes one text part */
};

enum chat_arguments {
    CHAT_ARGUMENTS_AS_IS,
    CHAT_ARGUMENTS_OBJECT,  /* a string that is no JSON stays a string */
    CHAT_ARGUMENTS_TEXT
};

/* A new array in *out, for json_decref; unchanged parts are shared.
 * BAD_REQUEST: messages is not an array of objects, or a part is no text where
 * text is wanted.  NO_MEMORY. */
MUST_CHECK enum status chat_messages_convert(const json_t *messages, enum chat_content content,
                                             enum chat_arguments arguments, json_t **out, struct error *err);

#endif
