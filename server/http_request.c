#include "server/http_request.h"

#include "server/http_lines.h"

#include <assert.h>
#include <limits.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A chunk-size line with its extensions; RFC 9112 lets a receiver set a bound. */
#define MAX_CHUNK_LINE 1024
/* What a body of one-byte chunks spends on framing is 5 bytes a byte. */
#define FRAMING_PER_BODY_BYTE 8
/* Buffers up to this size are kept from request to request. */
#define KEPT_BYTES 4096

static const char versions[] = "this server speaks HTTP/1.1 and HTTP/1.0";
/* Which piece of a body comes next. */
enum part { PART_FIXED, PART_CHUNK_SIZE, PART_CHUNK_DATA, PART_CHUNK_END, PART_TRAILERS };

/* A slice of the head.  Offsets, because the buffer moves while it grows. */
struct slice {
    uint32_t at, len;
};

struct header {
    struct slice name, value;
};

struct http_request {
    const struct http_limits *limits;
    llhttp_t parser;
    enum http_request_state state;
    struct http_refusal refusal;

    struct http_lines lines;
    enum part part;
    struct buf head;            /* the whole head; slices point here and are 0-terminated in place */
    struct buf line;            /* a chunk-size line, a chunk's CRLF, or the trailers */
    struct buf body;
    size_t taken_bytes;         /* of a body that is someone else's now */
    size_t framing_bytes;       /* of the body: size lines and CRLFs */

    int parsed;                 /* the slices below are valid */
    int is_head_over;           /* llhttp agrees that the head ends at its blank line */
    int in_value;               /* the last header callback was for a value */
    int keeps_alive;
    int expects_continue;
    struct slice target;
    const char *path;
    const char *query;
    size_t n_headers;           /* may pass max_headers by counting; then the head is refused */
    struct header headers[];    /* [max_headers] */
};

static void refuse_body(struct http_request *request)
{
    http_request_refuse(request, 413, "the request body is too large", request->limits->max_body_bytes);
}

/* ---- llhttp's callbacks ---------------------------------------------------- */

/* Add a piece to a slice: llhttp may deliver one value in several pieces. */
static void extend(struct http_request *request, struct slice *slice, const char *at, size_t n)
{
    uint32_t start = (uint32_t)(at - request->head.data);
    if (slice->len == 0)
        slice->at = start;
    slice->len = (uint32_t)(start + n - slice->at);
}

static int on_url(llhttp_t *parser, const char *at, size_t n)
{
    struct http_request *request = parser->data;
    extend(request, &request->target, at, n);
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t n)
{
    struct http_request *request = parser->data;
    if (request->state == HTTP_REQUEST_BODY)
        return 0;               /* trailers are checked and dropped */
    if (request->n_headers == 0 || request->in_value) {
        request->n_headers++;
        request->in_value = 0;
        if (request->n_headers <= request->limits->max_headers)
            request->headers[request->n_headers - 1] = (struct header){ .name.len = 0 };
    }
    if (request->n_headers <= request->limits->max_headers)
        extend(request, &request->headers[request->n_headers - 1].name, at, n);
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t n)
{
    struct http_request *request = parser->data;
    if (request->state == HTTP_REQUEST_BODY)
        return 0;
    request->in_value = 1;
    if (request->n_headers <= request->limits->max_headers)
        extend(request, &request->headers[request->n_headers - 1].value, at, n);
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http_request *request = parser->data;
    request->is_head_over = 1;
    request->keeps_alive = llhttp_should_keep_alive(parser);
    parser->upgrade = 0;        /* an offer to upgrade is ignored, as the RFC allows */
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct http_request *request = parser->data;
    switch (buf_add(&request->body, at, n)) {
    case STATUS_OK:
        return 0;
    case STATUS_TOO_LARGE:
        refuse_body(request);
        return -1;
    default:
        http_request_refuse(request, 503, "no memory for the request body", 0);
        return -1;
    }
}

static int on_message_complete(llhttp_t *parser)
{
    struct http_request *request = parser->data;
    request->state = HTTP_REQUEST_COMPLETE;
    return HPE_PAUSED;          /* the next request is parsed after a reset */
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- life ------------------------------------------------------------------- */

enum status http_request_create(struct http_request **out, const struct http_limits *limits,
                                struct error *err)
{
    assert(limits->max_header_bytes < UINT32_MAX);
    size_t table_bytes = limits->max_headers * sizeof(struct header);
    struct http_request *request = calloc(1, sizeof *request + table_bytes);
    if (request == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a request");
    request->limits = limits;
    llhttp_init(&request->parser, HTTP_REQUEST, &settings);
    request->parser.data = request;
    buf_init(&request->head, limits->max_header_bytes);
    buf_init(&request->line, limits->max_header_bytes);
    buf_init(&request->body, limits->max_body_bytes);
    http_request_reset(request);
    *out = request;
    return STATUS_OK;
}

void http_request_destroy(struct http_request *request)
{
    if (request == NULL)
        return;
    buf_clear(&request->head);
    buf_clear(&request->line);
    buf_clear(&request->body);
    free(request);
}

static void reset_buffer(struct buf *b)
{
    if (b->capacity > KEPT_BYTES)
        buf_clear(b);
    else
        buf_reset(b);
}

void http_request_reset(struct http_request *request)
{
    llhttp_reset(&request->parser);
    reset_buffer(&request->head);
    reset_buffer(&request->line);
    reset_buffer(&request->body);
    request->state = HTTP_REQUEST_IDLE;
    request->refusal = (struct http_refusal){ .status = 0 };
    http_lines_init(&request->lines);
    request->taken_bytes = 0;
    request->framing_bytes = 0;
    request->parsed = 0;
    request->is_head_over = 0;
    request->in_value = 0;
    request->keeps_alive = 0;
    request->expects_continue = 0;
    request->target = (struct slice){ .len = 0 };
    request->path = request->query = "";
    request->n_headers = 0;
}

void http_request_refuse(struct http_request *request, int status, const char *text, uint64_t limit)
{
    assert(request->state != HTTP_REQUEST_COMPLETE);
    if (request->state == HTTP_REQUEST_REFUSED)
        return;                 /* the first reason is the one to tell */
    request->state = HTTP_REQUEST_REFUSED;
    request->refusal = (struct http_refusal){ .status = status, .text = text, .limit = limit };
    request->keeps_alive = 0;
}

/* ---- the head ------------------------------------------------------------------ */

/* Collect into b what belongs to the line (blank: to the lines up to a blank one) that is being read. */
static size_t collect(struct http_request *request, struct buf *b, const char *bytes, size_t n, int blank,
                      int *ended)
{
    size_t room = b->max - b->len;
    const char *fault = NULL;
    size_t used = http_lines_scan(&request->lines, bytes, n < room ? n : room, blank, ended, &fault);
    if (fault != NULL) {
        http_request_refuse(request, 400, fault, 0);
        return used;
    }
    if (buf_add(b, bytes, used) != STATUS_OK)
        http_request_refuse(request, 503, "no memory for the request head", 0);
    else if (!*ended && b->len == b->max)
        http_request_refuse(request, 431, "the request's header lines are too long", b->max);
    return used;
}

static void terminate(struct http_request *request, struct slice slice)
{
    request->head.data[slice.at + slice.len] = '\0';
}

static const char *text_of(const struct http_request *request, struct slice slice)
{
    return slice.len == 0 ? "" : request->head.data + slice.at;
}

/* Split the target into path and query, in place.  "http://host/path" is accepted as RFC 9112 demands. */
static void split_target(struct http_request *request)
{
    terminate(request, request->target);
    char *target = request->head.data + request->target.at;
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        target = strstr(target, "//") + 2;
        target += strcspn(target, "/?");
    }
    char *query = strchr(target, '?');
    if (query != NULL)
        *query++ = '\0';
    request->path = *target == '\0' ? "/" : target;
    request->query = query == NULL ? "" : query;
}

/* Make the slices texts: a name ends at its colon, a value before its CR, bytes nobody needs any more. */
static void terminate_all(struct http_request *request)
{
    split_target(request);
    for (size_t i = 0; i < request->n_headers; i++) {
        struct header *header = &request->headers[i];
        char *behind = request->head.data + header->name.at + header->name.len;
        if (*behind != ':')
            http_request_refuse(request, 400, "a header name is not followed by its colon", 0);
        *behind = '\0';
        const char *value = request->head.data + header->value.at;
        while (header->value.len > 0 && strchr(" \t", value[header->value.len - 1]) != NULL)
            header->value.len--;
        if (header->value.len > 0)
            terminate(request, header->value);
    }
    request->parsed = 1;
}

/* How many headers have that name; *value is the first one's. */
static int count_header(const struct http_request *request, const char *name, const char **value)
{
    int n = 0;
    for (size_t i = 0; i < request->n_headers; i++)
        if (strcasecmp(text_of(request, request->headers[i].name), name) == 0 && n++ == 0)
            *value = text_of(request, request->headers[i].value);
    return n;
}

static void check_framing(struct http_request *request)
{
    const char *length = NULL, *coding = NULL;
    int n_lengths = count_header(request, "content-length", &length);
    int n_codings = count_header(request, "transfer-encoding", &coding);
    if (n_lengths > 0 && n_codings > 0) {
        http_request_refuse(request, 400, "Content-Length and Transfer-Encoding exclude each other", 0);
    } else if (n_lengths > 1) {
        http_request_refuse(request, 400, "Content-Length is given more than once", 0);
    } else if (n_lengths == 1) {
        size_t digits = strspn(length, "0123456789");
        if (digits == 0 || length[digits] != '\0')
            http_request_refuse(request, 400, "Content-Length is not a number", 0);
        else if (request->parser.content_length > request->limits->max_body_bytes)
            refuse_body(request);
    } else if (n_codings > 0 && request->parser.http_minor == 0) {
        http_request_refuse(request, 400, "Transfer-Encoding needs HTTP/1.1", 0);
    } else if (n_codings > 1 || (n_codings == 1 && strcasecmp(coding, "chunked") != 0)) {
        http_request_refuse(request, 501, "the only Transfer-Encoding known here is chunked", 0);
    }
}

/* Of two, a proxy in front may take another one than we do. */
static void check_singles(struct http_request *request)
{
    static const struct { const char *name, *refusal; } singles[] = {
        { "authorization", "Authorization is given more than once" },
        { "x-api-key", "X-Api-Key is given more than once" },
        { "content-type", "Content-Type is given more than once" },
    };
    const char *value;
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        if (count_header(request, singles[i].name, &value) > 1)
            http_request_refuse(request, 400, singles[i].refusal, 0);
}

static void check_head(struct http_request *request)
{
    const char *value = NULL;
    for (size_t i = 0; i < request->n_headers; i++)
        if (!http_lines_is_token(text_of(request, request->headers[i].name)))
            http_request_refuse(request, 400, "a header name holds a byte that is not allowed there", 0);
    if (request->parser.http_major != 1)
        http_request_refuse(request, 505, versions, 0);
    int n_hosts = count_header(request, "host", &value);
    if (n_hosts > 1 || (n_hosts == 0 && request->parser.http_minor > 0))
        http_request_refuse(request, 400, "HTTP/1.1 needs exactly one Host header", 0);
    if (count_header(request, "expect", &value) > 0) {
        if (strcasecmp(value, "100-continue") == 0)
            request->expects_continue = request->parser.http_minor > 0;
        else
            http_request_refuse(request, 417, "the only expectation known here is 100-continue", 0);
    }
    check_singles(request);
    check_framing(request);
}

/* A method llhttp does not know is a wrong method, if it has the form of one. */
static void refuse_parse(struct http_request *request)
{
    static const struct { llhttp_errno_t code; int status; const char *text; } rows[] = {
        { HPE_INVALID_METHOD, 400, "the request line does not start with a method" },
        { HPE_INVALID_URL, 400, "the request target is not valid" },
        { HPE_INVALID_VERSION, 505, versions },
        { HPE_PAUSED_H2_UPGRADE, 505, versions },
        { HPE_UNEXPECTED_CONTENT_LENGTH, 400, "Content-Length stands beside another framing" },
        { HPE_INVALID_CONTENT_LENGTH, 400, "Content-Length is not valid" },
        { HPE_INVALID_TRANSFER_ENCODING, 400, "Transfer-Encoding does not end in chunked" },
    };
    llhttp_errno_t code = llhttp_get_errno(&request->parser);
    size_t upper = strspn(request->head.data, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (code == HPE_INVALID_METHOD && upper > 0 && request->head.data[upper] == ' ')
        http_request_refuse(request, 405, "no resource here answers this method", 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            http_request_refuse(request, rows[i].status, rows[i].text, 0);
    http_request_refuse(request, 400, "the request line or a header line is not valid HTTP", 0);
}

static void parse_head(struct http_request *request)
{
    if (!http_lines_is_request(request->head.data)) {
        http_request_refuse(request, 400, "the request line is not METHOD TARGET VERSION", 0);
        return;
    }
    llhttp_errno_t code = llhttp_execute(&request->parser, request->head.data, request->head.len);
    if (code != HPE_OK && code != HPE_PAUSED) {
        refuse_parse(request);
        return;
    }
    if (!request->is_head_over) {
        /* HTTP/2's "PRI" has a second part behind the blank line. */
        http_request_refuse(request, 505, versions, 0);
        return;
    }
    int complete = request->state == HTTP_REQUEST_COMPLETE;
    request->state = HTTP_REQUEST_HEAD;     /* it can still be refused */
    if (request->n_headers > request->limits->max_headers) {
        request->n_headers = 0;
        http_request_refuse(request, 431, "the request has too many header lines",
                            request->limits->max_headers);
        return;
    }
    terminate_all(request);
    check_head(request);
    if (request->state == HTTP_REQUEST_REFUSED)
        return;
    request->part = request->parser.flags & F_CHUNKED ? PART_CHUNK_SIZE : PART_FIXED;
    request->state = complete ? HTTP_REQUEST_COMPLETE : HTTP_REQUEST_HEAD_DONE;
}

static size_t feed_head(struct http_request *request, const char *bytes, size_t n)
{
    int ended;
    request->state = HTTP_REQUEST_HEAD;
    size_t used = collect(request, &request->head, bytes, n, 1, &ended);
    if (request->state == HTTP_REQUEST_REFUSED || !ended)
        return used;
    if (request->head.len == 2 && request->framing_bytes == 0) {
        /* One empty line before the request line is some clients' habit. */
        request->framing_bytes = 2;
        buf_reset(&request->head);
        return used;
    }
    request->framing_bytes = 0;
    parse_head(request);
    return used;
}

/* ---- the body ------------------------------------------------------------------ */

static void execute(struct http_request *request, const char *bytes, size_t n)
{
    llhttp_errno_t code = llhttp_execute(&request->parser, bytes, n);
    if (code != HPE_OK && code != HPE_PAUSED)
        http_request_refuse(request, 400, "the chunked body is not valid", 0);
}

/* Content bytes: of a body with a length, or of one chunk. */
static size_t feed_content(struct http_request *request, const char *bytes, size_t n)
{
    size_t take = request->parser.content_length < n ? (size_t)request->parser.content_length : n;
    execute(request, bytes, take);
    if (request->part == PART_CHUNK_DATA && request->parser.content_length == 0)
        request->part = PART_CHUNK_END;
    return take;
}

static void count_framing(struct http_request *request)
{
    request->framing_bytes += request->line.len;
    size_t allowed = request->limits->max_header_bytes + FRAMING_PER_BODY_BYTE * request->body.len;
    if (request->framing_bytes > allowed)
        http_request_refuse(request, 400, "the chunked body is mostly framing", allowed);
}

static size_t feed_chunk_size(struct http_request *request, const char *bytes, size_t n)
{
    int ended;
    size_t used = collect(request, &request->line, bytes, n, 0, &ended);
    if (request->state == HTTP_REQUEST_REFUSED)
        return used;
    if (request->line.len > MAX_CHUNK_LINE) {
        http_request_refuse(request, 400, "a chunk-size line is too long", MAX_CHUNK_LINE);
        return used;
    }
    if (!ended)
        return used;
    /* Extensions mean nothing here, and llhttp 8 refuses some valid ones: it gets the size alone. */
    execute(request, request->line.data, strcspn(request->line.data, ";\r"));
    if (request->state != HTTP_REQUEST_REFUSED)
        execute(request, "\r\n", 2);
    count_framing(request);
    buf_reset(&request->line);
    if (request->parser.content_length > request->limits->max_body_bytes - request->body.len)
        refuse_body(request);
    request->part = request->parser.content_length == 0 ? PART_TRAILERS : PART_CHUNK_DATA;
    return used;
}

static size_t feed_chunk_end(struct http_request *request, const char *bytes)
{
    static const char crlf[] = "\r\n";
    if (bytes[0] != crlf[request->line.len]) {
        http_request_refuse(request, 400, "a chunk is longer than its size says", 0);
        return 0;
    }
    if (buf_add_char(&request->line, bytes[0]) != STATUS_OK) {
        http_request_refuse(request, 503, "no memory for the request body", 0);
    } else if (request->line.len == 2) {
        execute(request, crlf, 2);
        count_framing(request);
        buf_reset(&request->line);
        request->part = PART_CHUNK_SIZE;
    }
    return 1;
}

static size_t feed_trailers(struct http_request *request, const char *bytes, size_t n)
{
    int ended;
    size_t used = collect(request, &request->line, bytes, n, 1, &ended);
    if (request->state != HTTP_REQUEST_REFUSED && ended)
        execute(request, request->line.data, request->line.len);
    return used;
}

static size_t feed_body(struct http_request *request, const char *bytes, size_t n)
{
    request->state = HTTP_REQUEST_BODY;
    switch (request->part) {
    case PART_CHUNK_SIZE: return feed_chunk_size(request, bytes, n);
    case PART_CHUNK_END:  return feed_chunk_end(request, bytes);
    case PART_TRAILERS:   return feed_trailers(request, bytes, n);
    default:              return feed_content(request, bytes, n);
    }
}

size_t http_request_feed(struct http_request *request, const char *bytes, size_t n)
{
    size_t used = 0;
    while (used < n) {
        switch (request->state) {
        case HTTP_REQUEST_IDLE:
        case HTTP_REQUEST_HEAD:
            used += feed_head(request, bytes + used, n - used);
            if (request->state == HTTP_REQUEST_HEAD_DONE)
                return used;
            break;
        case HTTP_REQUEST_HEAD_DONE:
        case HTTP_REQUEST_BODY:
            used += feed_body(request, bytes + used, n - used);
            break;
        case HTTP_REQUEST_COMPLETE:
        case HTTP_REQUEST_REFUSED:
            return used;
        }
    }
    return used;
}

/* ---- accessors ------------------------------------------------------------------- */

enum http_request_state http_request_state(const struct http_request *request)
{
    return request->state;
}

const struct http_refusal *http_request_refusal(const struct http_request *request)
{
    return &request->refusal;
}

const char *http_request_method(const struct http_request *request)
{
    return request->parsed ? llhttp_method_name((llhttp_method_t)request->parser.method) : "";
}

const char *http_request_path(const struct http_request *request)
{
    return request->path;
}

const char *http_request_query(const struct http_request *request)
{
    return request->query;
}

int http_request_minor(const struct http_request *request)
{
    return request->parsed ? request->parser.http_minor : 1;
}

int http_request_keeps_alive(const struct http_request *request)
{
    return request->keeps_alive;
}

int http_request_expects_continue(const struct http_request *request)
{
    return request->expects_continue;
}

const char *http_request_header(const struct http_request *request, const char *name)
{
    const char *value = NULL;
    if (request->parsed)
        count_header(request, name, &value);
    return value;
}

const char *http_request_body(const struct http_request *request)
{
    return request->body.data;
}

size_t http_request_body_bytes(const struct http_request *request)
{
    return request->taken_bytes + request->body.len;
}

void http_request_take_body(struct http_request *request, struct buf *out)
{
    assert(request->state == HTTP_REQUEST_COMPLETE);
    *out = request->body;
    request->taken_bytes = out->len;
    buf_init(&request->body, out->max);
}
