/* status.h - every way a call can fail, in one table.
 *
 * A fallible function returns enum status and takes a struct error last.
 * The deepest frame that knows the reason writes the sentence; the frames
 * above pass it on untouched.  err may be NULL.  On success err is not
 * written.
 *
 * Threads: any; a struct error belongs to its caller.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/*    code           HTTP  what it means                                      */
#define STATUS_MAP(X)                                                          \
    X(OK,            200, "done")                                              \
    X(BAD_REQUEST,   400, "the caller's input does not fit the contract")      \
    X(UNAUTHORIZED,  401, "the key is missing or unknown")                     \
    X(NOT_FOUND,     404, "there is no such thing here")                       \
    X(BAD_METHOD,    405, "the resource does not answer this method")          \
    X(TIMED_OUT,     408, "the peer took too long")                            \
    X(TOO_LARGE,     413, "a size limit was reached")                          \
    X(OVERLOADED,    429, "the queue is full; the same call may succeed later")\
    X(CANCELLED,     499, "the client left")                                   \
    X(INTERNAL,      500, "the program met a state it cannot go on from")      \
    X(NO_MEMORY,     500, "an allocation failed")                              \
    X(BAD_MODEL,     500, "the model files are not what this build reads")     \
    X(BAD_OPTION,    500, "a command line option is unknown or out of range")  \
    X(IO,            500, "the operating system refused a read or a write")    \
    X(PEER_FAILED,   500, "another rank failed; the team is poisoned")         \
    X(UNSUPPORTED,   501, "this build cannot do that")                         \
    X(BUSY,          503, "no room now; the same call may succeed later")

enum status {
#define X(code, http, text) STATUS_##code,
    STATUS_MAP(X)
#undef X
};

struct error {
    enum status code;
    char text[320];         /* one sentence, no newline, always terminated */
};

const char *status_name(enum status s);      /* "BAD_REQUEST" */
const char *status_meaning(enum status s);   /* the sentence of the table */
int status_http(enum status s);              /* 400 */

/* Fill *err (if not NULL) and return code, so a failure is one statement:
 *     return fail(err, STATUS_TOO_LARGE, "prompt has %zu tokens, limit %zu", n, max);
 * Control bytes in the text become spaces, so it is always one line. */
enum status fail(struct error *err, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define MUST_CHECK __attribute__((warn_unused_result))

/* Return at once if a call failed; its callee has filled err. */
#define TRY(call)                           \
    do {                                    \
        enum status try_status_ = (call);   \
        if (try_status_ != STATUS_OK)       \
            return try_status_;             \
    } while (0)

#endif
