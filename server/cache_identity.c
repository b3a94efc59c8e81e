#include "server/cache_identity.h"

#include "base/file.h"
#include "base/version.h"
#include "model/safetensors.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

enum { N_SAMPLES = 16, SAMPLE_BYTES = 256, MAX_CONFIG = 4 << 20, DIGEST_BYTES = 32 };

/* Samples at equal distances, the first and the last bytes among them: all bytes of
 * a large model would take longer to read than the cache is worth. */
static int hash_samples(EVP_MD_CTX *hash, const struct tensor *t)
{
    const unsigned char *bytes = t->data;
    if (t->bytes <= (size_t)N_SAMPLES * SAMPLE_BYTES)
        return EVP_DigestUpdate(hash, bytes, t->bytes);
    size_t last = t->bytes - SAMPLE_BYTES;
    int ok = 1;
    for (size_t i = 0; i < N_SAMPLES; i++)
        ok &= EVP_DigestUpdate(hash, bytes + last / (N_SAMPLES - 1) * i, SAMPLE_BYTES);
    return ok & EVP_DigestUpdate(hash, bytes + last, SAMPLE_BYTES);
}

static int hash_tensor(EVP_MD_CTX *hash, const struct tensor *t)
{
    int dtype = (int)t->dtype;
    return EVP_DigestUpdate(hash, t->name, strlen(t->name) + 1)
         & EVP_DigestUpdate(hash, &dtype, sizeof dtype)
         & EVP_DigestUpdate(hash, t->dims, (size_t)t->n_dims * sizeof t->dims[0])
         & hash_samples(hash, t);
}

static enum status hash_weights(EVP_MD_CTX *hash, const char *dir, struct error *err)
{
    struct safetensors *set;
    TRY(safetensors_open(&set, dir, err));
    int ok = 1;
    for (size_t i = 0; i < safetensors_count(set); i++)
        ok &= hash_tensor(hash, safetensors_at(set, i));
    safetensors_close(set);
    return ok ? STATUS_OK : fail(err, STATUS_INTERNAL, "the digest of the model failed");
}

static enum status hash_config(EVP_MD_CTX *hash, const char *dir, struct error *err)
{
    char path[4200];
    struct buf config;
    snprintf(path, sizeof path, "%s/config.json", dir);
    buf_init(&config, MAX_CONFIG);
    enum status s = file_read(path, &config, err);
    if (s == STATUS_OK && !EVP_DigestUpdate(hash, config.data, config.len))
        s = fail(err, STATUS_INTERNAL, "the digest of the model failed");
    buf_clear(&config);
    return s;
}

static enum status digest_model(const char *dir, unsigned char digest[DIGEST_BYTES], struct error *err)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (hash == NULL || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(hash);
        return fail(err, STATUS_NO_MEMORY, "no memory for the digest of the model");
    }
    enum status s = hash_config(hash, dir, err);
    if (s == STATUS_OK)
        s = hash_weights(hash, dir, err);
    if (s == STATUS_OK && !EVP_DigestFinal_ex(hash, digest, NULL))
        s = fail(err, STATUS_INTERNAL, "the digest of the model failed");
    EVP_MD_CTX_free(hash);
    return s;
}

static enum status write_lines(const struct model *model, int reuse_generated, struct buf *out)
{
    const struct model_options *o = model_options(model);
    TRY(buf_printf(out, "ranks %d\n", o->n_ranks));
    TRY(buf_printf(out, "sharded_by %s\n", o->mla_by_chunk ? "chunk" : "head"));
    TRY(buf_printf(out, "cache_type %s\n", cache_type_name(o->cache_type)));
    TRY(buf_printf(out, "block_size %d\n", o->block_size));
    TRY(buf_printf(out, "block_bytes %zu\n", model_block_bytes(model)));
    TRY(buf_printf(out, "attention_chunk %d\n", o->attention_chunk));
    TRY(buf_printf(out, "weights %s\n", weight_type_name((enum weight_type)o->weight_type)));
    TRY(buf_printf(out, "kernels %s\n", model_kernels_name(model)));
    TRY(buf_printf(out, "reuse_generated %s\n", reuse_generated ? "on" : "off"));
    return buf_add_char(out, '\0');
}

enum status cache_identity_write(const struct model *model, const char *dir, int reuse_generated,
                                 struct buf *out, struct error *err)
{
    unsigned char digest[DIGEST_BYTES];
    char hex[2 * DIGEST_BYTES + 1];
    TRY(digest_model(dir, digest, err));
    for (int i = 0; i < DIGEST_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    if (buf_printf(out, "program %s\nmodel %s\n", LATENTD_VERSION, hex) != STATUS_OK ||
        write_lines(model, reuse_generated, out) != STATUS_OK)
        return fail(err, STATUS_NO_MEMORY, "no memory for the identity of the cache");
    return STATUS_OK;
}
