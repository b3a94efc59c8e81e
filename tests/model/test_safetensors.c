/* test_safetensors - weight files round trip, and every lie in a header is refused with a sentence. */
#include "base/file.h"
#include "base/rng.h"
#include "model/safetensors.h"
#include "model/safetensors_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64];
    char path[128];                 /* a file in dir */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(f->dir, "/tmp/test_safetensors.XXXXXX");
    if (mkdtemp(f->dir) == NULL)
        return -1;
    snprintf(f->path, sizeof f->path, "%s/one.safetensors", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    int rc = system(command);
    free(f);
    return rc;
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* A file made by hand, so that it does not depend on the writer under test. */
static void write_raw(const char *path, uint64_t length, const char *header, size_t n_data)
{
    unsigned char bytes[4096] = { 0 };
    size_t n = strlen(header);
    assert_true(8 + n + n_data <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = (unsigned char)i;
    write_bytes(path, bytes, 8 + n + n_data);
}

static void assert_refused(const char *path, const char *word)
{
    struct safetensors *set = NULL;
    struct error err = { 0 };
    enum status s = safetensors_open(&set, path, &err);
    if (s != STATUS_BAD_MODEL || strstr(err.text, word) == NULL)
        fail_msg("expected BAD_MODEL about '%s', got %s: %s", word, status_name(s), err.text);
    assert_null(set);
}

static struct safetensors *must_open(const char *path)
{
    struct safetensors *set = NULL;
    struct error err = { 0 };
    if (safetensors_open(&set, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return set;
}

static void written_tensors_come_back_equal(void **state)
{
    struct fixture *f = *state;
    const float a[6] = { 1, -2, 0.5f, 3e38f, -0.0f, 1e-40f };
    const uint16_t b[3] = { 0x3f80, 0xbf80, 0x7f80 };
    const int64_t c = -7;
    const struct tensor tensors[] = {
        { .name = "z.weight", .dtype = DTYPE_F32, .n_dims = 2, .dims = { 2, 3 }, .data = a,
          .bytes = sizeof a },
        { .name = "a \"quoted\" \xc3\xa9", .dtype = DTYPE_BF16, .n_dims = 1, .dims = { 3 },
          .data = b, .bytes = sizeof b },
        { .name = "empty", .dtype = DTYPE_F32, .n_dims = 2, .dims = { 0, 5 }, .data = a, .bytes = 0 },
        { .name = "scalar", .dtype = DTYPE_I64, .n_dims = 0, .data = &c, .bytes = sizeof c },
    };
    const struct safetensors_pair metadata[] = { { "kind", "mla" }, { "config", "{\"a\": 1}\n" } };
    const struct safetensors_plan plan = { .path = f->path, .tensors = tensors, .n_tensors = 4,
                                           .metadata = metadata, .n_metadata = 2 };
    struct error err;
    assert_int_equal(safetensors_write(&plan, &err), STATUS_OK);

    struct safetensors *set = must_open(f->path);
    assert_int_equal(safetensors_count(set), 4);
    for (size_t i = 1; i < 4; i++)
        assert_true(strcmp(safetensors_at(set, i - 1)->name, safetensors_at(set, i)->name) < 0);
    for (size_t i = 0; i < 4; i++) {
        const struct tensor *t = safetensors_find(set, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->n_dims, tensors[i].n_dims);
        assert_memory_equal(t->dims, tensors[i].dims, sizeof t->dims);
        assert_int_equal(t->bytes, tensors[i].bytes);
        assert_memory_equal(t->data, tensors[i].data, t->bytes);
        assert_string_equal(t->file, f->path);
    }
    assert_int_equal(safetensors_find(set, "scalar")->n_elements, 1);
    assert_int_equal(safetensors_find(set, "empty")->n_elements, 0);
    assert_null(safetensors_find(set, "absent"));
    assert_string_equal(safetensors_metadata(set, "kind"), "mla");
    assert_string_equal(safetensors_metadata(set, "config"), "{\"a\": 1}\n");
    assert_null(safetensors_metadata(set, "mode"));
    safetensors_close(set);
}

static void a_data_section_starts_at_a_multiple_of_64(void **state)
{
    struct fixture *f = *state;
    for (size_t n = 1; n < 70; n++) {
        char name[80] = { 0 };
        memset(name, 'n', n);
        const struct tensor t = { .name = name, .dtype = DTYPE_F64, .n_dims = 1, .dims = { 1 },
                                  .data = &(double){ 1 }, .bytes = 8 };
        const struct safetensors_plan plan = { .path = f->path, .tensors = &t, .n_tensors = 1 };
        assert_int_equal(safetensors_write(&plan, NULL), STATUS_OK);
        struct safetensors *set = must_open(f->path);
        assert_int_equal((uintptr_t)safetensors_find(set, name)->data % 64, 0);
        assert_true(tensor_is_aligned(safetensors_find(set, name)));
        safetensors_close(set);
    }
}

static void a_model_is_written_in_pieces_and_appears_only_when_complete(void **state)
{
    struct fixture *f = *state;
    const struct tensor t = { .name = "t", .dtype = DTYPE_U8, .n_dims = 1, .dims = { 10 } };
    const struct safetensors_plan plan = { .path = f->path, .tensors = &t, .n_tensors = 1 };
    struct safetensors_writer *w = NULL;
    struct error err;
    assert_int_equal(safetensors_writer_open(&w, &plan, &err), STATUS_OK);
    for (unsigned char i = 0; i < 9; i++)
        assert_int_equal(safetensors_writer_add(w, &i, 1, &err), STATUS_OK);
    assert_false(file_exists(f->path));
    assert_int_equal(safetensors_writer_add(w, "xx", 2, &err), STATUS_BAD_REQUEST);
    assert_int_equal(safetensors_writer_close(w, &err), STATUS_BAD_REQUEST);
    assert_false(file_exists(f->path));

    assert_int_equal(safetensors_writer_open(&w, &plan, &err), STATUS_OK);
    safetensors_writer_abandon(w);
    assert_false(file_exists(f->path));
    assert_int_equal(rmdir(f->dir), 0);         /* empty: no temporary file was left */
    assert_int_equal(mkdir(f->dir, 0700), 0);

    assert_int_equal(safetensors_writer_open(&w, &plan, &err), STATUS_OK);
    assert_int_equal(safetensors_writer_add(w, "01234", 5, &err), STATUS_OK);
    assert_int_equal(safetensors_writer_add(w, "56789", 5, &err), STATUS_OK);
    assert_int_equal(safetensors_writer_close(w, &err), STATUS_OK);
    struct safetensors *set = must_open(f->path);
    assert_memory_equal(safetensors_find(set, "t")->data, "0123456789", 10);
    safetensors_close(set);
}

static void a_writer_refuses_what_the_reader_would_refuse(void **state)
{
    struct fixture *f = *state;
    struct tensor twice[2] = { { .name = "t", .dtype = DTYPE_U8, .n_dims = 0, .data = "x", .bytes = 1 },
                               { .name = "t", .dtype = DTYPE_U8, .n_dims = 0, .data = "x", .bytes = 1 } };
    struct safetensors_plan plan = { .path = f->path, .tensors = twice, .n_tensors = 2 };
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_BAD_REQUEST);
    twice[1].name = "__metadata__";
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_BAD_REQUEST);
    twice[1].name = "";
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_BAD_REQUEST);
    twice[1] = (struct tensor){ .name = "u", .dtype = DTYPE_F64, .n_dims = 2, .dims = { INT64_MAX, 2 } };
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_BAD_REQUEST);
    plan.path = "/nonexistent/folder/x.safetensors";
    plan.n_tensors = 1;
    assert_int_equal(safetensors_write(&plan, NULL), STATUS_IO);
    assert_false(file_exists(f->path));
}

/* Each header is followed by 8 bytes of data unless the row says otherwise. */
static const struct {
    const char *header;
    size_t n_data;
    const char *word;               /* of the sentence */
} lies[] = {
    { "[]", 0, "start with '{'" },
    { " {}", 0, "start with '{'" },
    { "{", 0, "too few" },
    { "{ ", 0, "not valid" },
    { "{}x", 0, "not valid" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
      "\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "duplicate" },
    { "{\"t\":1}", 0, "object" },
    { "{\"t\":{\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "dtype" },
    { "{\"t\":{\"dtype\":7,\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "dtype" },
    { "{\"t\":{\"dtype\":\"F7\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "unknown dtype 'F7'" },
    { "{\"t\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype" },
    { "{\"t\":{\"dtype\":\"\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype" },
    { "{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,8]}}", 8, "shape" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[0,8]}}", 8, "shape" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[-8],\"data_offsets\":[0,8]}}", 8, "dimension" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[-2,-4],\"data_offsets\":[0,8]}}", 8, "dimension" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8.0],\"data_offsets\":[0,8]}}", 8, "dimension" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[\"8\"],\"data_offsets\":[0,8]}}", 8, "dimension" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}}", 8, "limit 8" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "63 bits" },
    { "{\"t\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0, "63 bits" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[18446744073709551624],\"data_offsets\":[0,8]}}", 8, "not valid" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8,8]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[-4,8]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,4]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0.0,8]}}", 8, "data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", 8, "data section has 8" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[32,8],\"data_offsets\":[0,65536]}}", 4, "data section has 4" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "need 12" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, "need 1" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"u\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[3,8]}}", 8, "overlaps" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
      "\"u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}", 8, "overlaps" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
      "\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "hole" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "hole" },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 8, "no tensor" },
    { "{}", 8, "no tensor" },
    { "{\"__metadata__\":7}", 0, "__metadata__" },
    { "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__" },
    { "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "not valid" },
    { "{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, "not valid" },
};

static void every_lie_of_a_header_is_refused_with_its_reason(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        write_raw(f->path, strlen(lies[i].header), lies[i].header, lies[i].n_data);
        assert_refused(f->path, lies[i].word);
    }
}

static void a_header_length_that_lies_is_refused(void **state)
{
    struct fixture *f = *state;
    const uint64_t lengths[] = { 3, 4, 1000, (uint64_t)1 << 32, INT64_MAX, (uint64_t)INT64_MAX + 1,
                                 UINT64_MAX - 7, UINT64_MAX };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_raw(f->path, lengths[i], "{}", 0);
        assert_refused(f->path, "passes the end");
    }
    write_raw(f->path, 0, "{}", 0);
    assert_refused(f->path, "start with '{'");
    write_raw(f->path, 1, "{}", 0);
    assert_refused(f->path, "not valid");

    /* Long enough for its length field, but longer than any header may be. */
    write_raw(f->path, SAFETENSORS_MAX_HEADER + 1, "{}", 0);
    assert_int_equal(truncate(f->path, (off_t)SAFETENSORS_MAX_HEADER + 100), 0);
    assert_refused(f->path, "limit 33554432");
}

static void deeply_nested_json_is_refused_without_a_stack_overflow(void **state)
{
    struct fixture *f = *state;
    size_t n = 1 << 20;
    char *bytes = malloc(8 + n);
    memcpy(bytes, &(uint64_t){ n }, 8);
    memset(bytes + 8, '[', n);
    memcpy(bytes + 8, "{\"t\":", 5);
    write_bytes(f->path, bytes, 8 + n);
    free(bytes);
    assert_refused(f->path, "not valid");
}

static const char *const small_header =
    "{\"__metadata__\":{\"k\":\"v\"},\"t\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
    "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    struct fixture *f = *state;
    write_raw(f->path, strlen(small_header), small_header, 11);
    struct safetensors *set = must_open(f->path);
    safetensors_close(set);
    size_t whole = 8 + strlen(small_header) + 11;
    for (size_t n = 0; n < whole; n++) {
        write_raw(f->path, strlen(small_header), small_header, 11);
        assert_int_equal(truncate(f->path, (off_t)n), 0);
        assert_refused(f->path, "one.safetensors");
    }
    write_raw(f->path, strlen(small_header), small_header, 12);
    assert_refused(f->path, "no tensor");
}

/* Whatever one flipped bit makes of the file, an accepted set is consistent. */
static void a_flipped_bit_never_yields_a_tensor_outside_the_file(void **state)
{
    struct fixture *f = *state;
    size_t n_header = strlen(small_header), refused = 0, accepted = 0;
    for (size_t bit = 0; bit < 8 * (8 + n_header); bit++) {
        unsigned char bytes[512] = { 0 };
        bytes[0] = (unsigned char)n_header;
        memcpy(bytes + 8, small_header, n_header);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        write_bytes(f->path, bytes, 8 + n_header + 11);
        struct safetensors *set = NULL;
        if (safetensors_open(&set, f->path, NULL) != STATUS_OK) {
            refused++;
            continue;
        }
        accepted++;
        size_t sum = 0;
        for (size_t i = 0; i < safetensors_count(set); i++) {
            const struct tensor *t = safetensors_at(set, i);
            const volatile unsigned char *data = t->data;
            for (size_t k = 0; k < t->bytes; k++)
                sum += 1 + 0 * (size_t)data[k];
        }
        assert_int_equal(sum, 11);
        safetensors_close(set);
    }
    assert_true(refused > accepted && accepted > 0);
}

static void unaligned_data_is_converted(void **state)
{
    struct fixture *f = *state;
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}";
    write_raw(f->path, strlen(header), header, 9);
    struct safetensors *set = must_open(f->path);
    const struct tensor *t = safetensors_find(set, "t");
    float got[2], want[2];
    const unsigned char bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    memcpy(want, bytes, 8);
    assert_int_equal(tensor_to_f32(t, 0, 2, got, NULL), STATUS_OK);
    assert_memory_equal(got, want, 8);
    safetensors_close(set);
}

/* The value of a half from its definition, in double precision. */
static double half_value(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023);
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        value = fraction == 0 ? INFINITY : NAN;
    return bits & 0x8000 ? -value : value;
}

static void every_f16_and_bf16_value_converts_exactly(void **state)
{
    (void)state;
    uint16_t *bits = malloc(65536 * sizeof *bits);
    float *got = malloc(65536 * sizeof *got);
    for (unsigned i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    struct tensor t = { .name = "t", .dtype = DTYPE_F16, .n_dims = 1, .dims = { 65536 }, .data = bits,
                        .bytes = 131072, .n_elements = 65536 };
    assert_int_equal(tensor_to_f32(&t, 0, 65536, got, NULL), STATUS_OK);
    for (unsigned i = 0; i < 65536; i++) {
        double want = half_value(i);
        assert_true(isnan(want) ? isnan(got[i]) : (double)got[i] == want);
        assert_int_equal(signbit(got[i]) != 0, i >> 15);
    }
    t.dtype = DTYPE_BF16;
    assert_int_equal(tensor_to_f32(&t, 3, 65533, got, NULL), STATUS_OK);
    for (unsigned i = 3; i < 65536; i++) {
        uint32_t got_bits;
        memcpy(&got_bits, &got[i - 3], 4);
        assert_int_equal(got_bits, i << 16);
    }
    free(bits);
    free(got);
}

static void a_conversion_past_the_end_or_of_integers_is_refused(void **state)
{
    (void)state;
    const float data[4] = { 0 };
    float out[4];
    struct tensor t = { .name = "t", .dtype = DTYPE_F32, .n_dims = 1, .dims = { 4 }, .data = data,
                        .bytes = 16, .n_elements = 4 };
    assert_int_equal(tensor_to_f32(&t, 4, 0, out, NULL), STATUS_OK);
    assert_int_equal(tensor_to_f32(&t, 4, 1, out, NULL), STATUS_INTERNAL);
    assert_int_equal(tensor_to_f32(&t, 1, SIZE_MAX, out, NULL), STATUS_INTERNAL);
    t.dtype = DTYPE_I32;
    assert_int_equal(tensor_to_f32(&t, 0, 1, out, NULL), STATUS_UNSUPPORTED);
    struct error err;
    assert_int_equal(tensor_expect_shape(&t, (const int64_t[]){ 4 }, 1, &err), STATUS_OK);
    assert_int_equal(tensor_expect_shape(&t, (const int64_t[]){ 2, 2 }, 2, &err), STATUS_BAD_MODEL);
    assert_non_null(strstr(err.text, "has shape [4], expected [2, 2]"));
}

static void bytes_in_memory_are_read_like_a_file(void **state)
{
    struct fixture *f = *state;
    write_raw(f->path, strlen(small_header), small_header, 11);
    struct buf bytes;
    buf_init(&bytes, 4096);
    assert_int_equal(file_read(f->path, &bytes, NULL), STATUS_OK);
    struct safetensors *set = NULL;
    struct error err;
    assert_int_equal(safetensors_open_memory(&set, "embedded", bytes.data, bytes.len, &err), STATUS_OK);
    const struct tensor *t = safetensors_find(set, "u");
    assert_non_null(t);
    assert_memory_equal(t->data, "\x08\x09\x0a", 3);
    assert_string_equal(t->file, "embedded");
    assert_string_equal(safetensors_metadata(set, "k"), "v");
    safetensors_close(set);
    for (size_t n = 0; n < bytes.len; n++) {
        set = NULL;
        assert_int_equal(safetensors_open_memory(&set, "embedded", bytes.data, n, &err), STATUS_BAD_MODEL);
        assert_null(set);
    }
    buf_clear(&bytes);
}

/* ---- directories ---- */

static void write_one(const char *dir, const char *file, const char *const *names, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    struct tensor tensors[4];
    for (size_t i = 0; i < n; i++)
        tensors[i] = (struct tensor){ .name = names[i], .dtype = DTYPE_U8, .n_dims = 1, .dims = { 4 },
                                      .data = file, .bytes = 4 };
    const struct safetensors_pair metadata = { "file", file };
    assert_int_equal(safetensors_write(&(struct safetensors_plan){ .path = path, .tensors = tensors,
                     .n_tensors = n, .metadata = &metadata, .n_metadata = 1 }, NULL), STATUS_OK);
}

static void write_index(const char *dir, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    write_bytes(path, text, strlen(text));
}

static void a_sharded_set_takes_each_tensor_from_the_file_the_index_names(void **state)
{
    struct fixture *f = *state;
    write_one(f->dir, "B.st", (const char *const[]){ "one", "both" }, 2);
    write_one(f->dir, "A.st", (const char *const[]){ "two", "both", "unlisted" }, 3);
    write_index(f->dir, "{\"metadata\":{\"total_size\":1.5},"
                        "\"weight_map\":{\"one\":\"B.st\",\"two\":\"A.st\",\"both\":\"B.st\"}}");
    struct safetensors *set = must_open(f->dir);
    assert_int_equal(safetensors_count(set), 3);
    assert_memory_equal(safetensors_find(set, "one")->data, "B.st", 4);
    assert_memory_equal(safetensors_find(set, "both")->data, "B.st", 4);
    assert_memory_equal(safetensors_find(set, "two")->data, "A.st", 4);
    assert_null(safetensors_find(set, "unlisted"));
    assert_string_equal(safetensors_metadata(set, "file"), "A.st");
    const struct tensor *t;
    struct error err;
    assert_int_equal(safetensors_need(set, "two", &t, &err), STATUS_OK);
    assert_int_equal(safetensors_need(set, "three", &t, &err), STATUS_BAD_MODEL);
    assert_non_null(strstr(err.text, "'three'"));
    safetensors_close(set);

    write_one(f->dir, "model.safetensors", (const char *const[]){ "single" }, 1);
    set = must_open(f->dir);
    assert_int_equal(safetensors_count(set), 1);
    safetensors_close(set);
}

static void an_index_that_lies_is_refused(void **state)
{
    static const struct { const char *index, *word; } rows[] = {
        { "{\"weight_map\":{\"one\":\"A.st\",\"gone\":\"A.st\"}}", "'gone' is not in A.st" },
        { "{\"weight_map\":{\"one\":\"../A.st\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"/etc/passwd\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"sub/A.st\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"..\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\".\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"a\\\\A.st\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"\"}}", "plain file name" },
        { "{\"weight_map\":{\"one\":7}}", "plain file name" },
        { "{\"weight_map\":{\"one\":\"A.st\",\"one\":\"A.st\"}}", "duplicate" },
        { "{\"weight_map\":{}}", "empty" },
        { "{\"weight_map\":[]}", "weight_map" },
        { "{}", "weight_map" },
        { "[]", "object" },
        { "", "not valid" },
    };
    struct fixture *f = *state;
    write_one(f->dir, "A.st", (const char *const[]){ "one" }, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_index(f->dir, rows[i].index);
        assert_refused(f->dir, rows[i].word);
    }
    write_index(f->dir, "{\"weight_map\":{\"one\":\"missing.st\"}}");
    struct error err;
    struct safetensors *set = NULL;
    assert_int_equal(safetensors_open(&set, f->dir, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "missing.st"));
}

static void a_path_without_weights_is_not_found(void **state)
{
    struct fixture *f = *state;
    struct safetensors *set = NULL;
    struct error err;
    assert_int_equal(safetensors_open(&set, f->dir, &err), STATUS_NOT_FOUND);
    assert_int_equal(safetensors_open(&set, f->path, &err), STATUS_NOT_FOUND);
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(f->dir, "regular file");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(written_tensors_come_back_equal),
        TEST(a_data_section_starts_at_a_multiple_of_64),
        TEST(a_model_is_written_in_pieces_and_appears_only_when_complete),
        TEST(a_writer_refuses_what_the_reader_would_refuse),
        TEST(every_lie_of_a_header_is_refused_with_its_reason),
        TEST(a_header_length_that_lies_is_refused),
        TEST(deeply_nested_json_is_refused_without_a_stack_overflow),
        TEST(a_file_cut_at_any_byte_is_refused),
        TEST(a_flipped_bit_never_yields_a_tensor_outside_the_file),
        TEST(bytes_in_memory_are_read_like_a_file),
        TEST(unaligned_data_is_converted),
        TEST(every_f16_and_bf16_value_converts_exactly),
        TEST(a_conversion_past_the_end_or_of_integers_is_refused),
        TEST(a_sharded_set_takes_each_tensor_from_the_file_the_index_names),
        TEST(an_index_that_lies_is_refused),
        TEST(a_path_without_weights_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
