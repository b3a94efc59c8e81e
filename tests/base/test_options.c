/* test_options - command line, environment and config file, one by one and in conflict, fill a table. */
#include "base/edit_distance.h"
#include "base/file.h"
#include "base/options.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    const char *model;
    const char *prompt;
    int port;
    int64_t seed;
    size_t device_memory;
    double temperature;
    double rate;
    int cache_type;
    int stream;
    struct option_ints degrees;
    struct option_doubles rates;
    unsigned kinds;
};

static const struct option_row rows[] = {
    { "model", OPTION_PATH(struct values, model), .help = "model directory" },
    { "prompt", OPTION_STRING(struct values, prompt), .fallback = "hello", .help = "text to continue" },
    { .heading = "Limits" },
    { "port", OPTION_INT(struct values, port), .fallback = "8080", .min = 1, .max = 65535,
      .help = "TCP port to listen on" },
    { "seed", OPTION_INT(struct values, seed), .help = "seed of the random numbers" },
    { "device-memory", OPTION_SIZE(struct values, device_memory), .fallback = "1GiB", .min = 1 << 20,
      .max = INT64_C(1) << 46,
      .help = "bytes of weights and cache that one device may hold, in total, so that a replicated "
              "cache runs out earlier than one that is partitioned over the devices" },
    { "temperature", OPTION_DOUBLE(struct values, temperature), .fallback = "1", .low = 0, .high = 2 },
    { "rate", OPTION_DOUBLE(struct values, rate), .fallback = "inf", .low = 0, .high = INFINITY },
    { "cache-type", OPTION_CHOICE(struct values, cache_type), .fallback = "bf16",
      .choices = "f32 bf16 int8" },
    { "stream", OPTION_FLAG(struct values, stream), .fallback = "off" },
    { "degrees", OPTION_INTS(struct values, degrees), .fallback = "1,2,4", .min = 1, .max = 64 },
    { "rates", OPTION_DOUBLES(struct values, rates), .low = 0, .high = 100 },
    { "kinds", OPTION_CHOICES(struct values, kinds), .fallback = "mla,gqa", .choices = "mla mlra cca gqa" },
};

static const struct option_row other_rows[] = {
    { "duration", OPTION_DOUBLE(struct values, rate), .low = 0, .high = 10 },
};

static const struct option_table other_table = { .command = "bench", .rows = other_rows, .n_rows = 1 };
static const struct option_table table;
static const struct option_table *const family[] = { &table, &other_table, NULL };
static const struct option_table table = {
    .command = "serve", .help = "load a model and serve it", .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0], .family = family,
};

static const struct option_row need_rows[] = {
    { "model", OPTION_PATH(struct values, model), .value = "DIR", .required = 1 },
};
static const struct option_table need_table = {
    .command = "verify", .help = "check golden files", .rows = need_rows, .n_rows = 1,
    .arguments = "FILE-OR-DIR...", .min_arguments = 1, .max_arguments = 3,
};

/* What one parse left behind. */
struct outcome {
    struct values values;
    struct options *options;
    enum status status;
    struct error err;
};

#define MAX_WORDS 40

/* Parse "a b c" as the words after the command; environment: words "X=1 Y=2". */
static struct outcome parse_table(const struct option_table *t, const char *words, const char *environment)
{
    static char text[2][2048];
    char *lists[2][MAX_WORDS + 2] = { { t == &table ? (char *)"serve" : (char *)"verify" }, { NULL } };
    int n[2] = { 1, 0 };
    const char *from[2] = { words, environment };
    for (int k = 0; k < 2; k++) {
        snprintf(text[k], sizeof text[k], "%s", from[k]);
        for (char *w = strtok(text[k], " "); w != NULL; w = strtok(NULL, " "))
            lists[k][n[k]++] = w;
        lists[k][n[k]] = NULL;
    }
    struct outcome got = { .values = { .seed = -7 } };
    got.status = options_parse(&got.options, t, n[0], lists[0], lists[1], &got.values, &got.err);
    return got;
}

static struct outcome parse(const char *words, const char *environment)
{
    return parse_table(&table, words, environment);
}

static void accept_and_drop(const char *words)
{
    struct outcome got = parse(words, "");
    if (got.status != STATUS_OK)
        fail_msg("'%s' was refused: %s", words, got.err.text);
    options_destroy(got.options);
}

/* The words are refused with a sentence that holds every one of parts ('|' between). */
static void refuse_with(const struct option_table *t, const char *words, const char *environment,
                        const char *parts)
{
    struct outcome got = parse_table(t, words, environment);
    assert_int_equal(got.status, STATUS_BAD_OPTION);
    assert_null(got.options);
    char copy[512];
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *part = strtok(copy, "|"); part != NULL; part = strtok(NULL, "|"))
        if (strstr(got.err.text, part) == NULL)
            fail_msg("'%s': the sentence \"%s\" lacks \"%s\"", words, got.err.text, part);
}

static void defaults_fill_every_field_that_has_one(void **state)
{
    (void)state;
    struct outcome got = parse("", "");
    assert_int_equal(got.status, STATUS_OK);
    assert_null(got.values.model);
    assert_string_equal(got.values.prompt, "hello");
    assert_int_equal(got.values.port, 8080);
    assert_int_equal(got.values.seed, -7);      /* no default: what the caller put there */
    assert_int_equal(got.values.device_memory, 1073741824);
    assert_true(got.values.temperature == 1.0 && isinf(got.values.rate));
    assert_int_equal(got.values.cache_type, 1);
    assert_int_equal(got.values.stream, 0);
    assert_int_equal(got.values.degrees.n, 3);
    assert_int_equal(got.values.degrees.at[2], 4);
    assert_int_equal(got.values.rates.n, 0);
    assert_int_equal(got.values.kinds, 1u << 0 | 1u << 3);
    assert_int_equal(options_source(got.options, "port"), OPTION_FROM_DEFAULT);
    options_destroy(got.options);
}

static void both_forms_of_a_flag_set_the_field(void **state)
{
    (void)state;
    struct outcome got = parse("--port 1 --model=/m --seed -5 --rates=0.5,2e1 --degrees 8 --kinds cca "
                               "--temperature=0.25 --cache-type int8 --stream", "");
    assert_int_equal(got.status, STATUS_OK);
    assert_int_equal(got.values.port, 1);
    assert_string_equal(got.values.model, "/m");
    assert_int_equal(got.values.seed, -5);
    assert_int_equal(got.values.rates.n, 2);
    assert_true(got.values.rates.at[0] == 0.5 && got.values.rates.at[1] == 20.0);
    assert_int_equal(got.values.degrees.n, 1);
    assert_int_equal(got.values.degrees.at[0], 8);
    assert_int_equal(got.values.kinds, 1u << 2);
    assert_true(got.values.temperature == 0.25);
    assert_int_equal(got.values.cache_type, 2);
    assert_int_equal(got.values.stream, 1);
    assert_int_equal(options_source(got.options, "port"), OPTION_FROM_FLAG);
    options_destroy(got.options);
}

static void a_value_may_hold_equals_signs_and_be_empty(void **state)
{
    (void)state;
    struct outcome got = parse("--prompt=a=b=c", "");
    assert_string_equal(got.values.prompt, "a=b=c");
    options_destroy(got.options);
    got = parse("--prompt=", "");
    assert_string_equal(got.values.prompt, "");
    options_destroy(got.options);
    refuse_with(&table, "--model=", "", "--model|a path");
}

static void a_flag_option_takes_words_and_its_negation(void **state)
{
    (void)state;
    static const struct { const char *words; int value; } cases[] = {
        { "--stream", 1 }, { "--stream=on", 1 }, { "--stream=yes", 1 }, { "--stream=true", 1 },
        { "--stream=1", 1 }, { "--stream=off", 0 }, { "--stream=no", 0 }, { "--stream=false", 0 },
        { "--stream=0", 0 },
        { "--stream --no-stream", 0 }, { "--no-stream --stream", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome got = parse(cases[i].words, "");
        assert_int_equal(got.status, STATUS_OK);
        assert_int_equal(got.values.stream, cases[i].value);
        options_destroy(got.options);
    }
    refuse_with(&table, "--stream=maybe", "", "--stream|on or off|maybe");
    refuse_with(&table, "--no-port", "", "no option --no-port");
}

static void sizes_are_read_with_every_unit(void **state)
{
    (void)state;
    static const struct { const char *text; size_t bytes; } cases[] = {
        { "2097152", 2097152 }, { "4MiB", 4194304 }, { "4M", 4194304 }, { "4m", 4194304 }, { "4MB", 4000000 },
        { "1.5GiB", 1610612736 }, { "2G", 2147483648 }, { "3T", 3298534883328 }, { "1TB", 1000000000000 },
        { "2048k", 2097152 }, { "1048576B", 1048576 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[64];
        snprintf(words, sizeof words, "--device-memory=%s", cases[i].text);
        struct outcome got = parse(words, "");
        assert_int_equal(got.status, STATUS_OK);
        assert_int_equal(got.values.device_memory, cases[i].bytes);
        options_destroy(got.options);
    }
    static const char *const bad[] = { "", "G", "-4G", "4GiBs", "4 G B", "0x10", "1e9", "9999999999T",
                                       "99999999999999999999", "1.2.3G", "1MiB1" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *argv[] = { "serve", "--device-memory", (char *)bad[i], NULL };
        struct values v = { 0 };
        struct options *o;
        struct error err;
        assert_int_equal(options_parse(&o, &table, 3, argv, NULL, &v, &err), STATUS_BAD_OPTION);
        assert_non_null(strstr(err.text, "between 1MiB and 64TiB"));
        assert_int_equal(v.device_memory, 1073741824);
    }
}

static void both_ends_of_a_range_are_in_it_and_their_neighbours_are_not(void **state)
{
    (void)state;
    accept_and_drop("--port 1");
    accept_and_drop("--port 65535");
    refuse_with(&table, "--port 0", "", "--port must be a whole number between 1 and 65535, got '0'");
    refuse_with(&table, "--port 65536", "", "between 1 and 65535|65536");
    accept_and_drop("--temperature 0 --rate 0");
    accept_and_drop("--temperature 2.0 --rate=inf");
    refuse_with(&table, "--temperature 2.000001", "", "--temperature must be a number between 0 and 2");
    refuse_with(&table, "--temperature=-0.1", "", "between 0 and 2");
    accept_and_drop("--seed 9223372036854775807");
    accept_and_drop("--seed -9223372036854775808");
    refuse_with(&table, "--seed 9223372036854775808", "", "--seed|got '9223372036854775808'");
    accept_and_drop("--degrees 1,64");
    refuse_with(&table, "--degrees 1,65", "",
                "--degrees must be whole numbers, separated by commas, each between 1 and 64");
}

static void text_that_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "--port=", "--port=80x", "--port=8.0", "--port=0x50", "--port=8e1",
        "--temperature=", "--temperature=nan", "--temperature=inf", "--temperature=0x1p0",
        "--temperature=1,0", "--temperature=infinity", "--rate=nan", "--rate=-inf",
        "--degrees=", "--degrees=1,", "--degrees=,1", "--degrees=1,,2", "--rates=1,a", "--kinds=",
        "--kinds=mla,", "--kinds=mla,nope", "--cache-type=F32", "--cache-type=", "--cache-type=f32,bf16",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse_with(&table, bad[i], "", "must be");
}

static void a_list_takes_32_numbers_and_not_33(void **state)
{
    (void)state;
    char words[256] = "--degrees=1";
    for (int i = 1; i < OPTION_LIST_MAX; i++)
        strcat(words, ",1");
    accept_and_drop(words);
    refuse_with(&table, strcat(words, ",1"), "", "--degrees");
}

static void an_unknown_option_names_the_nearest_one(void **state)
{
    (void)state;
    refuse_with(&table, "--prot 80", "", "serve has no option --prot|did you mean --port?");
    refuse_with(&table, "--devicememory=1G", "", "did you mean --device-memory?");
    refuse_with(&table, "--banana", "", "no option --banana|--help");
    refuse_with(&table, "-p 80", "", "-p|long name");
    refuse_with(&table, "--duration 3", "", "serve has no option --duration");
}

static void a_missing_value_is_said_and_the_next_option_is_not_swallowed(void **state)
{
    (void)state;
    refuse_with(&table, "--port", "", "--port needs a value: --port N");
    refuse_with(&table, "--model --port 80", "", "--model needs a value: --model PATH");
}

static void arguments_are_counted_and_kept_in_order(void **state)
{
    (void)state;
    struct outcome got = parse_table(&need_table, "a --model=m b -- --c", "");
    assert_int_equal(got.status, STATUS_OK);
    assert_int_equal(options_argument_count(got.options), 3);
    assert_string_equal(options_argument(got.options, 0), "a");
    assert_string_equal(options_argument(got.options, 1), "b");
    assert_string_equal(options_argument(got.options, 2), "--c");
    options_destroy(got.options);
    refuse_with(&need_table, "--model=m", "", "verify needs FILE-OR-DIR...");
    refuse_with(&need_table, "--model=m 1 2 3 4", "", "at most 3|'4'");
    refuse_with(&table, "extra", "", "serve takes options only|'extra'");
}

static void a_required_option_may_come_from_anywhere_but_must_come(void **state)
{
    (void)state;
    refuse_with(&need_table, "x", "", "verify needs --model DIR");
    struct outcome got = parse_table(&need_table, "x", "LATENTD_MODEL=/env");
    assert_int_equal(got.status, STATUS_OK);
    assert_string_equal(got.values.model, "/env");
    options_destroy(got.options);
}

static void the_environment_is_read_and_the_flag_beats_it(void **state)
{
    (void)state;
    struct outcome got = parse("--port 3", "LATENTD_PORT=2 LATENTD_DEVICE_MEMORY=5MiB LATENTD_STREAM=on "
                               "PATH=/bin LATENTD_TEMPERATURE= LATENTD_PORTS=9");
    assert_int_equal(got.status, STATUS_OK);
    assert_int_equal(got.values.port, 3);
    assert_int_equal(got.values.device_memory, 5242880);
    assert_int_equal(got.values.stream, 1);
    assert_true(got.values.temperature == 1.0);     /* an empty variable counts as unset */
    assert_int_equal(options_source(got.options, "port"), OPTION_FROM_FLAG);
    assert_int_equal(options_source(got.options, "stream"), OPTION_FROM_ENVIRONMENT);
    options_destroy(got.options);
    refuse_with(&table, "", "LATENTD_PORT=70000", "--port|65535|from LATENTD_PORT");
}

static void variables_of_other_commands_and_of_nobody_are_passed_over(void **state)
{
    (void)state;
    struct outcome got = parse("", "LATENTD_DURATION=99 LATENTD_BUILD=build/release LATENTD_=1 LATENTD=2");
    assert_int_equal(got.status, STATUS_OK);
    options_destroy(got.options);
}

/* Write text to a fresh file and return its path; the caller unlinks it. */
static const char *config_file(const char *text, size_t len)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_options.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    close(fd);
    return path;
}

static struct outcome parse_file(const char *text, const char *more, const char *environment)
{
    const char *path = config_file(text, strlen(text));
    char words[512];
    snprintf(words, sizeof words, "--config %s %s", path, more);
    struct outcome got = parse(words, environment);
    unlink(path);
    return got;
}

static void the_file_beats_the_default_and_the_environment_beats_the_file(void **state)
{
    (void)state;
    struct outcome got = parse_file("# my server\nport = 11\n  seed=12 # tail\r\n\ndevice_memory = 6MiB\n"
                                    "prompt = \"  a # b \"   # quoted\nmodel = dir#1\nduration = 99999",
                                    "--seed 14", "LATENTD_PORT=13");
    if (got.status != STATUS_OK)
        fail_msg("%s", got.err.text);
    assert_int_equal(got.values.port, 13);
    assert_int_equal(got.values.seed, 14);
    assert_int_equal(got.values.device_memory, 6291456);
    assert_string_equal(got.values.prompt, "  a # b ");
    assert_string_equal(got.values.model, "dir#1");
    assert_int_equal(options_source(got.options, "device-memory"), OPTION_FROM_FILE);
    assert_int_equal(options_source(got.options, "seed"), OPTION_FROM_FLAG);
    options_destroy(got.options);
}

static void the_file_may_be_named_in_the_environment(void **state)
{
    (void)state;
    const char *path = config_file("port = 77\n", 10);
    char variable[128];
    snprintf(variable, sizeof variable, "LATENTD_CONFIG=%s", path);
    struct outcome got = parse("", variable);
    unlink(path);
    assert_int_equal(got.status, STATUS_OK);
    assert_int_equal(got.values.port, 77);
    options_destroy(got.options);
}

static void a_bad_line_of_the_file_is_named(void **state)
{
    (void)state;
    static const struct { const char *text, *part; } cases[] = {
        { "port = 80\nprot = 81\n", "line 2); did you mean 'port'?" },
        { "\n\nbanana = 1\n", "no option 'banana'" },
        { "port = 0\n", "between 1 and 65535, got '0' (test_options." },
        { "port 80\n", "key = value" },
        { "port = 1\nport = 2\n", "line 2) is given a second time" },
        { "device-memory = 1M\ndevice_memory = 2M\n", "second time" },
        { "prompt = \"open\n", "quotes" },
        { "prompt = \"a\" b\n", "quotes" },
        { "config = other\n", "no option 'config'" },
        { "stream\n", "key = value" },
        { "= 4\n", "no option ''" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome got = parse_file(cases[i].text, "", "");
        assert_int_equal(got.status, STATUS_BAD_OPTION);
        if (strstr(got.err.text, cases[i].part) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", got.err.text, cases[i].part);
    }
}

static void a_file_that_cannot_be_read_is_an_io_failure(void **state)
{
    (void)state;
    struct outcome got = parse("--config /nowhere/at/all", "");
    assert_int_equal(got.status, STATUS_IO);
    assert_non_null(strstr(got.err.text, "/nowhere/at/all"));
    const char *path = config_file("port\0= 3", 8);
    char words[128];
    snprintf(words, sizeof words, "--config=%s", path);
    got = parse(words, "");
    unlink(path);
    assert_int_equal(got.status, STATUS_BAD_OPTION);
    assert_non_null(strstr(got.err.text, "zero byte"));
}

static void help_wins_over_everything_else(void **state)
{
    (void)state;
    static const char *const words[] = { "--help", "-h", "--port 0 --help", "--help x" };
    for (size_t i = 0; i < 4; i++) {
        struct outcome got = parse(words[i], "LATENTD_PORT=bad");
        assert_int_equal(got.status, STATUS_OK);
        assert_true(options_wants_help(got.options));
        options_destroy(got.options);
    }
}

/* Every run of white space becomes one blank. */
static void squeeze(char *text)
{
    char *to = text;
    for (const char *c = text; *c != '\0'; c++)
        if (!isspace((unsigned char)*c) || (to > text && to[-1] != ' '))
            *to++ = isspace((unsigned char)*c) ? ' ' : *c;
    *to = '\0';
}

static void the_help_page_names_every_option_with_its_range_and_default(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *page = open_memstream(&text, &len);
    options_print_help(&table, page);
    fclose(page);
    for (size_t i = 0; i < table.n_rows; i++) {
        char line[64];
        snprintf(line, sizeof line, rows[i].heading != NULL ? "%s:\n" : "  --%s",
                 rows[i].heading != NULL ? rows[i].heading : rows[i].name);
        assert_non_null(strstr(text, line));
    }
    for (const char *line = text; line != NULL; line = strchr(line + 1, '\n'))
        assert_true(strcspn(line + (*line == '\n'), "\n") <= 100);
    squeeze(text);
    assert_non_null(strstr(text, "usage: latentd serve [options]"));
    assert_non_null(strstr(text, "between 1 and 65535; default 8080"));
    assert_non_null(strstr(text, "one of f32, bf16, int8; default bf16"));
    assert_non_null(strstr(text, "one or more of mla, mlra, cca, gqa"));
    free(text);
}

static void choice_words_go_both_ways(void **state)
{
    (void)state;
    char word[16];
    static const char *const words[] = { "f32", "bf16", "int8" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(options_choice_index("f32 bf16 int8", words[i]), i);
        options_choice_word("f32 bf16 int8", i, word, sizeof word);
        assert_string_equal(word, words[i]);
    }
    options_choice_word("f32 bf16 int8", 3, word, sizeof word);
    assert_string_equal(word, "");
    assert_int_equal(options_choice_index("f32 bf16", "f3"), -1);
    assert_int_equal(options_choice_index("f32 bf16", ""), -1);
    assert_int_equal(options_choice_index("f32 bf16", "f32 bf16"), -1);
}

/* Written out as the recursion, without a table: what edit_distance must equal. */
static size_t slow_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    if (n_a == 0 || n_b == 0)
        return n_a + n_b;
    size_t best = slow_distance(a, n_a - 1, b, n_b - 1) + (a[n_a - 1] != b[n_b - 1]);
    size_t drop = slow_distance(a, n_a - 1, b, n_b) + 1;
    size_t add = slow_distance(a, n_a, b, n_b - 1) + 1;
    best = drop < best ? drop : best;
    best = add < best ? add : best;
    if (n_a > 1 && n_b > 1 && a[n_a - 1] == b[n_b - 2] && a[n_a - 2] == b[n_b - 1]) {
        size_t swap = slow_distance(a, n_a - 2, b, n_b - 2) + 1;
        best = swap < best ? swap : best;
    }
    return best;
}

static void the_edit_distance_equals_its_recursive_definition(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        char word[2][8] = { { 0 } };
        for (int k = 0; k < 2; k++) {
            size_t n = rng_below(&rng, 7);
            for (size_t i = 0; i < n; i++)
                word[k][i] = (char)('a' + rng_below(&rng, 3));
        }
        assert_int_equal(edit_distance(word[0], word[1]),
                         slow_distance(word[0], strlen(word[0]), word[1], strlen(word[1])));
    }
    char longest[80] = { 0 };
    memset(longest, 'x', 64);
    assert_true(edit_distance(longest, "x") == SIZE_MAX);
    longest[63] = '\0';
    assert_int_equal(edit_distance(longest, "x"), 62);
}

static void random_bytes_never_break_the_config_reader(void **state)
{
    (void)state;
    static const char alphabet[] = "port=model 19\"#\n\r\t_-\\\xc3\xa4x";
    struct rng rng;
    rng_seed(&rng, 2);
    for (int round = 0; round < 300; round++) {
        char text[200];
        size_t n = rng_below(&rng, sizeof text - 1);
        for (size_t i = 0; i < n; i++)
            text[i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
        text[n] = '\0';
        struct outcome got = parse_file(text, "", "");
        assert_true(got.status == STATUS_OK || got.status == STATUS_BAD_OPTION);
        if (got.status == STATUS_OK)
            assert_in_range(got.values.port, 1, 65535);
        options_destroy(got.options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_every_field_that_has_one),
        cmocka_unit_test(both_forms_of_a_flag_set_the_field),
        cmocka_unit_test(a_value_may_hold_equals_signs_and_be_empty),
        cmocka_unit_test(a_flag_option_takes_words_and_its_negation),
        cmocka_unit_test(sizes_are_read_with_every_unit),
        cmocka_unit_test(both_ends_of_a_range_are_in_it_and_their_neighbours_are_not),
        cmocka_unit_test(text_that_is_no_number_is_refused),
        cmocka_unit_test(a_list_takes_32_numbers_and_not_33),
        cmocka_unit_test(an_unknown_option_names_the_nearest_one),
        cmocka_unit_test(a_missing_value_is_said_and_the_next_option_is_not_swallowed),
        cmocka_unit_test(arguments_are_counted_and_kept_in_order),
        cmocka_unit_test(a_required_option_may_come_from_anywhere_but_must_come),
        cmocka_unit_test(the_environment_is_read_and_the_flag_beats_it),
        cmocka_unit_test(variables_of_other_commands_and_of_nobody_are_passed_over),
        cmocka_unit_test(the_file_beats_the_default_and_the_environment_beats_the_file),
        cmocka_unit_test(the_file_may_be_named_in_the_environment),
        cmocka_unit_test(a_bad_line_of_the_file_is_named),
        cmocka_unit_test(a_file_that_cannot_be_read_is_an_io_failure),
        cmocka_unit_test(help_wins_over_everything_else),
        cmocka_unit_test(the_help_page_names_every_option_with_its_range_and_default),
        cmocka_unit_test(choice_words_go_both_ways),
        cmocka_unit_test(the_edit_distance_equals_its_recursive_definition),
        cmocka_unit_test(random_bytes_never_break_the_config_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
