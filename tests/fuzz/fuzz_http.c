/* fuzz_http - any bytes, cut anywhere, leave the request parser and a whole server connection in order.
 *
 * Build (from the root, after `make`; llhttp's three files are compiled along):
 *   clang -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE \
 *     -I. -I/usr/share/include/llhttp \
 *     tests/fuzz/fuzz_http.c base/[a-z]*.c server/loop.c server/http_*.c server/router.c server/api_error.c \
 *     /usr/share/llhttp/[ahl]*.c -luv -ljansson -lcrypto -lssl -lm -o fuzz_http
 * Run: ./fuzz_http -max_len=4096 CORPUS_DIR
 *
 * Byte 0 chooses where the input is cut; the rest is what a client sends.  Checked:
 *   - the parser ends in the same state, with the same body and fields, in one piece and in many;
 *   - what it accepts obeys the limits;
 *   - a server given the bytes answers only with well-formed status lines, and holds no connection, exchange
 *     or body byte after the client has left.
 */
#include "base/rng.h"
#include "server/api_error.h"
#include "server/http_exchange.h"
#include "server/http_request.h"
#include "server/http_server.h"
#include "server/loop.h"
#include "server/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static struct http_limits small_limits(void)
{
    struct http_limits limits = http_limits_default();
    limits.max_header_bytes = 1024;
    limits.max_headers = 8;
    limits.max_body_bytes = 512;
    limits.max_pipelined_bytes = 512;
    return limits;
}

/* ---- the parser ------------------------------------------------------------------------ */

static size_t feed(struct http_request *request, const char *bytes, size_t n, struct rng *rng)
{
    size_t used = 0;
    while (used < n) {
        size_t piece = n - used;
        if (rng != NULL && piece > 1)
            piece = 1 + rng_below(rng, piece < 40 ? piece : 40);
        size_t step = http_request_feed(request, bytes + used, piece);
        require(step <= piece, "no more is used than was given");
        used += step;
        if (step == 0)
            break;
    }
    return used;
}

static void compare_requests(const struct http_request *a, const struct http_request *b)
{
    require(http_request_state(a) == http_request_state(b), "the state does not depend on the cuts");
    require(http_request_refusal(a)->status == http_request_refusal(b)->status, "nor does the refusal");
    if (http_request_state(a) != HTTP_REQUEST_COMPLETE)
        return;
    require(http_request_body_bytes(a) == http_request_body_bytes(b), "nor does the body's length");
    if (http_request_body_bytes(a) > 0)
        require(memcmp(http_request_body(a), http_request_body(b), http_request_body_bytes(a)) == 0,
                "nor does the body");
    require(strcmp(http_request_path(a), http_request_path(b)) == 0, "nor does the path");
    require(strcmp(http_request_query(a), http_request_query(b)) == 0, "nor does the query");
}

static void fuzz_parser(const char *bytes, size_t n, uint64_t seed)
{
    struct http_limits limits = small_limits();
    struct http_request *whole, *cut;
    struct rng rng;
    rng_seed(&rng, seed);
    if (http_request_create(&whole, &limits, NULL) != STATUS_OK ||
        http_request_create(&cut, &limits, NULL) != STATUS_OK)
        abort();
    size_t used = 0;
    while (used < n) {              /* request after request, as on a connection */
        size_t one = feed(whole, bytes + used, n - used, NULL);
        size_t two = feed(cut, bytes + used, n - used, &rng);
        compare_requests(whole, cut);
        if (http_request_state(whole) != HTTP_REQUEST_COMPLETE)
            break;
        require(one == two, "the end of a request does not depend on the cuts");
        require(http_request_body_bytes(whole) <= limits.max_body_bytes, "the body's limit holds");
        used += one;
        http_request_reset(whole);
        http_request_reset(cut);
    }
    http_request_destroy(whole);
    http_request_destroy(cut);
}

/* ---- the connection --------------------------------------------------------------------- */

struct world {
    struct loop *loop;
    struct http_server *server;
    struct router *router;
    struct http_exchange *held;     /* an exchange that is answered in a later turn of the loop */
    char path[64];
};

static void on_close(void *context)
{
    struct world *world = context;
    world->held = NULL;
}

static void handle_now(void *context, struct http_exchange *ex)
{
    (void)context;
    http_reply(ex, 200, HTTP_TEXT, http_exchange_body(ex), http_exchange_body_bytes(ex));
}

static void handle_later(void *context, struct http_exchange *ex)
{
    struct world *world = context;
    world->held = ex;
    http_on_close(ex, on_close, world);
}

static void handle_stream(void *context, struct http_exchange *ex)
{
    (void)context;
    http_stream_begin(ex, HTTP_EVENTS);
    http_stream_write(ex, "data: x\n\n", 9);
    http_stream_end(ex);
}

static const struct route routes[] = {
    { ROUTE_GET | ROUTE_POST, "/a", .handle = handle_now },
    { ROUTE_GET | ROUTE_POST, "/l", .handle = handle_later },
    { ROUTE_GET | ROUTE_POST, "/s", .handle = handle_stream },
    { ROUTE_GET, "/i/{id}", .handle = handle_now },
};

static struct world *create_world(void)
{
    struct world *world = calloc(1, sizeof *world);
    struct router_options router = { .routes = routes, .n_routes = sizeof routes / sizeof routes[0],
                                     .context = world };
    if (world == NULL || loop_create(&world->loop, NULL) != STATUS_OK ||
        router_create(&world->router, &router, NULL) != STATUS_OK)
        abort();
    struct http_server_options options = { .loop = world->loop, .limits = small_limits(), .cors_origin = "*",
                                           .handle = router_handle, .admit = router_admit,
                                           .context = world->router };
    snprintf(world->path, sizeof world->path, P_tmpdir "/latentd-fuzz-%d.sock", (int)getpid());
    struct http_address address = { .unix_path = world->path };
    if (http_server_create(&world->server, &options, NULL) != STATUS_OK ||
        http_server_listen(world->server, &address, NULL) != STATUS_OK)
        abort();
    return world;
}

static void turn(struct world *world)
{
    uv_run(loop_uv(world->loop), UV_RUN_NOWAIT);
    if (world->held != NULL) {
        struct http_exchange *ex = world->held;
        world->held = NULL;
        http_reply(ex, 200, HTTP_TEXT, "later", 5);
    }
}

/* Each reply begins with a status line; the first is enough to see that no garbage went out. */
static void check_replies(int fd)
{
    char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
        require(n > 12 && memcmp(bytes, "HTTP/1.1 ", 9) == 0, "a reply starts with a status line");
}

static void fuzz_connection(struct world *world, const char *bytes, size_t n, size_t first)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, world->path, sizeof world->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        abort();
    if (first > n)
        first = n;
    if (send(fd, bytes, first, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && first > 0)
        abort();
    turn(world);
    turn(world);
    (void)!send(fd, bytes + first, n - first, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int i = 0; i < 6; i++)
        turn(world);
    check_replies(fd);
    close(fd);
    for (int i = 0; i < 50 && http_server_connection_count(world->server) > 0; i++)
        turn(world);
    require(http_server_connection_count(world->server) == 0, "a client that left leaves no connection");
    require(http_server_exchange_count(world->server) == 0, "nor an exchange");
    require(world->held == NULL, "on_close is called for what was held");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world *world;
    if (world == NULL)
        world = create_world();
    if (size < 1)
        return 0;
    fuzz_parser((const char *)data + 1, size - 1, data[0]);
    fuzz_connection(world, (const char *)data + 1, size - 1, data[0]);
    return 0;
}
