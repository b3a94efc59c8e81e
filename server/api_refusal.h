/* api_refusal.h - why a request is refused before anything is promised: the sentence, the field, the code.
 *
 * Threads: any.  Memory: none.
 */
#ifndef SERVER_API_REFUSAL_H
#define SERVER_API_REFUSAL_H

#include "base/status.h"

#include <stdint.h>

struct http_exchange;

struct api_refusal {
    struct error err;
    const char *param;          /* the field at fault, or NULL */
    const char *code;           /* for programs: "context_length_exceeded"; or NULL */
    char extra[96];             /* more members as JSON, without a leading comma; "" if none */
};

#define API_REFUSAL_NONE ((struct api_refusal){ .param = NULL })

/* Name the field, fill the sentence, and return code, so a refusal is one statement. */
enum status api_refuse(struct api_refusal *why, const char *param, enum status code,
                       const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* prompt tokens, and those asked for, do not fit into max_length: BAD_REQUEST with the words, the code and
 * the numbers that clients look for.  n_new 0: the prompt alone is too long. */
enum status api_refuse_length(struct api_refusal *why, const char *param, int64_t n_prompt, int64_t n_new,
                              int32_t max_length);

void api_refusal_reply(struct http_exchange *ex, const struct api_refusal *why);

#endif
