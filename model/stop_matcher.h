/* stop_matcher.h - how much of the text so far may be shown, and whether a stop
 * string ends it.
 *
 * The caller keeps the text; the matcher sees its bytes once, in pieces of any
 * size, and answers with a count from the start of the text:
 *
 *   stops: "AB", "\n\n"
 *   text pushed:   x y A          safe = 2 : "A" may be the beginning of "AB"
 *                  x y A C        safe = 4 : it was not
 *                  x y A C A B    safe = 4, stopped by "AB"
 *
 * Rules
 *   - The stop string that is complete first (at the lowest byte) wins; of those
 *     complete at the same byte the longest.  This does not depend on how the
 *     text was cut into pieces, so a stream and a whole reply end alike.
 *   - Only a real beginning of a stop string is held back, never a fixed window:
 *     text that cannot become a stop passes at once.
 *   - safe never falls.  If text comes in pieces that end between characters,
 *     safe lies between characters too (stop strings are valid UTF-8).
 *
 * Owner:  the engine thread, one matcher per sequence.  Memory: all of it at
 * create; about 3 bytes per byte of stop string.
 */
#ifndef MODEL_STOP_MATCHER_H
#define MODEL_STOP_MATCHER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct stop_matcher;            /* opaque */

struct stop_string {
    const char *text;           /* borrowed during the call */
    size_t len;
};

struct stop_limits {
    int max_stops;              /* > 0 */
    size_t max_bytes;           /* of one stop string, 1..65535 */
};

#define STOP_LIMITS_DEFAULT ((struct stop_limits){ .max_stops = 16, .max_bytes = 1024 })

struct stop_result {
    size_t safe;                /* bytes from the start of the text that may be shown */
    int stopped;                /* 1: a stop string was found; safe is the final length */
    int which;                  /* its index if stopped, else -1 */
};

/* NO_MEMORY: *out is untouched. */
MUST_CHECK enum status stop_matcher_create(struct stop_matcher **out, const struct stop_limits *limits,
                                           struct error *err);
void stop_matcher_destroy(struct stop_matcher *m);      /* NULL is allowed */

/* Whether stops[n_stops] can be given to stop_matcher_start; any thread.
 * BAD_REQUEST: too many, an empty or too long one, or one that is not UTF-8. */
MUST_CHECK enum status stop_strings_check(const struct stop_string *stops, int n_stops,
                                          const struct stop_limits *limits, struct error *err);

/* A new text.  stops[n_stops] have passed stop_strings_check with the matcher's
 * limits and are copied; n_stops may be 0.
 * include_stop: 1 if the stop string itself belongs to the shown text. */
void stop_matcher_start(struct stop_matcher *m, const struct stop_string *stops, int n_stops,
                        int include_stop);

/* The next bytes of the text.  After a stop, further pushes change nothing. */
struct stop_result stop_matcher_push(struct stop_matcher *m, const char *text, size_t len);

/* The text ends here for another reason: everything held may be shown.  No
 * push follows but after a new start. */
struct stop_result stop_matcher_finish(struct stop_matcher *m);

#endif
