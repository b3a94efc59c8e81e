/* test_http_listen - v4, v6 and unix addresses are listened to, and a port in use is told in one sentence. */
#include "tests/server/http_fixture.h"

#include <sys/stat.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static int has_v6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int works = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return works;
}

static void assert_serves(int fd)
{
    assert_true(fd >= 0);
    client_send(fd, GET("/health"));
    assert_string_equal(client_reply(fd)->body, "{}");
    close(fd);
}

static void localhost_and_every_address_mean_v4_and_v6(void **state)
{
    (void)state;
    static const char *const hosts[] = { "localhost", "", "*", "::", "[::]", NULL };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct fixture *fixture = fixture_start(NULL, NULL, &(struct http_address){ .host = hosts[i] });
        assert_serves(client_connect_host(AF_INET, "127.0.0.1", fixture->port));
        if (has_v6())
            assert_serves(client_connect_host(AF_INET6, "::1", fixture->port));
        fixture_stop(fixture);
    }
}

static void one_address_means_that_address(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, &(struct http_address){ .host = "127.0.0.2" });
    assert_serves(client_connect_host(AF_INET, "127.0.0.2", fixture->port));
    assert_int_equal(client_connect_host(AF_INET, "127.0.0.1", fixture->port), -1);
    fixture_stop(fixture);
    if (!has_v6())
        return;
    fixture = fixture_start(NULL, NULL, &(struct http_address){ .host = "[::1]" });
    assert_serves(client_connect_host(AF_INET6, "::1", fixture->port));
    assert_int_equal(client_connect_host(AF_INET, "127.0.0.1", fixture->port), -1);
    fixture_stop(fixture);
}

/* A second listener on the same server, which is not running yet: only the failure matters. */
static void refuse(const struct http_address *address, enum status status, const char *words)
{
    struct loop *loop;
    struct http_server *server;
    struct error err;
    assert_int_equal(loop_create(&loop, &err), STATUS_OK);
    struct http_server_options options = { .loop = loop, .limits = http_limits_default(),
                                           .handle = router_handle };
    assert_int_equal(http_server_create(&server, &options, &err), STATUS_OK);
    assert_int_equal(http_server_listen(server, address, &err), status);
    assert_non_null(strstr(err.text, words));
    http_server_destroy(server);
    loop_destroy(loop);
}

static void addresses_that_cannot_be_used_are_refused(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, &(struct http_address){ .host = "localhost" });
    char words[64];
    snprintf(words, sizeof words, "127.0.0.1:%d: the port is in use", fixture->port);
    refuse(&(struct http_address){ .host = "localhost", .port = fixture->port }, STATUS_IO, words);
    refuse(&(struct http_address){ .host = "127.0.0.1", .port = fixture->port }, STATUS_IO, words);
    assert_serves(client_connect(fixture));
    fixture_stop(fixture);
    refuse(&(struct http_address){ .host = "203.0.113.7", .port = 0 }, STATUS_IO, "203.0.113.7");
    refuse(&(struct http_address){ .host = "127.0.0.1", .port = 65536 }, STATUS_BAD_OPTION, "65536");
    refuse(&(struct http_address){ .host = "no such host" }, STATUS_IO, "no such host");
    char path[200];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    refuse(&(struct http_address){ .unix_path = path }, STATUS_BAD_OPTION, "199 bytes");
    refuse(&(struct http_address){ .unix_path = "/nonexistent/socket" }, STATUS_IO, "/nonexistent/socket");
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void a_unix_socket_serves_replaces_a_stale_one_and_is_removed(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, P_tmpdir "/latentd-test-%d.sock", (int)getpid());
    /* What a killed server leaves behind: a bound socket nobody listens on. */
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(stale, (const struct sockaddr *)&address, sizeof address), 0);
    close(stale);

    struct fixture *fixture = fixture_start(NULL, NULL, &(struct http_address){ .unix_path = path });
    assert_int_equal(fixture->port, 0);
    assert_serves(connect_unix(path));
    refuse(&(struct http_address){ .unix_path = path }, STATUS_IO, "in use");
    assert_serves(connect_unix(path));

    int fd = connect_unix(path);
    client_send(fd, GET("/hold"));
    fixture_await(&fixture->n_handled, 3);
    close(fd);
    fixture_await(&fixture->n_closed, 1);
    fixture_stop(fixture);
    struct stat info;
    assert_int_equal(stat(path, &info), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(localhost_and_every_address_mean_v4_and_v6),
        cmocka_unit_test(one_address_means_that_address),
        cmocka_unit_test(addresses_that_cannot_be_used_are_refused),
        cmocka_unit_test(a_unix_socket_serves_replaces_a_stale_one_and_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
