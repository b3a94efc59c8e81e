/* http_limits.h - every bound of the HTTP layer, in one struct.
 *
 * Plain data, meant to be filled from the options: take http_limits_default()
 * and overwrite what the user set.  Bytes are bytes, times are nanoseconds;
 * none may be 0 unless its line says so.  Whoever is refused because of a
 * limit reads the limit in the error.
 */
#ifndef SERVER_HTTP_LIMITS_H
#define SERVER_HTTP_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct http_limits {
    /* One request. */
    size_t max_header_bytes;        /* request line, headers, CRLFs; and again for trailers: 431 */
    size_t max_headers;             /* header lines: 431 */
    size_t max_body_bytes;          /* decoded body, whatever its framing: 413 */

    /* All connections together. */
    size_t max_connections;         /* one more evicts the longest idle one, else it gets 503 */
    size_t max_total_body_bytes;    /* bodies held at the same time: 503 */

    /* One connection. */
    size_t max_pipelined_bytes;     /* requests read ahead while a reply is in progress; then reading stops */
    size_t max_pending_bytes;       /* reply bytes waiting for a slow client; past it the client is dropped */
    size_t high_water_bytes;        /* pending above it: the endpoint should pause */
    size_t low_water_bytes;         /* pending back at or under it: on_drain is called */

    /* Time. */
    int64_t header_timeout_ns;      /* first byte to end of head (also the TLS handshake): 408 */
    int64_t body_timeout_ns;        /* between two pieces of a body: 408 */
    int64_t min_body_bytes_per_s;   /* a body slower than this for longer than body_timeout_ns: 408; 0: any */
    int64_t keep_alive_ns;          /* an idle connection is closed after it */
    int64_t stall_timeout_ns;       /* a client that takes no reply byte for so long is dropped */
    int64_t linger_ns;              /* after the last reply: time for the client to read it and close */
};

#define HTTP_SECONDS(n) ((int64_t)(n) * 1000000000)

static inline struct http_limits http_limits_default(void)
{
    return (struct http_limits){
        .max_header_bytes = 64 << 10,
        .max_headers = 100,
        .max_body_bytes = 32 << 20,
        .max_connections = 1024,
        .max_total_body_bytes = 512 << 20,
        .max_pipelined_bytes = 64 << 10,
        .max_pending_bytes = 64 << 20,
        .high_water_bytes = 256 << 10,
        .low_water_bytes = 64 << 10,
        .header_timeout_ns = HTTP_SECONDS(10),
        .body_timeout_ns = HTTP_SECONDS(60),
        .min_body_bytes_per_s = 1024,
        .keep_alive_ns = HTTP_SECONDS(90),
        .stall_timeout_ns = HTTP_SECONDS(60),
        .linger_ns = HTTP_SECONDS(2),
    };
}

#endif
