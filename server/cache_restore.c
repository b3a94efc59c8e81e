#include "server/cache_restore.h"

#include <stdlib.h>

struct restore {
    const struct cache_restore_options *options;
    struct cache_file_reader *file;
    struct prefix_cache *prefixes;
    struct block_pool *blocks;
    void *record;
    block_id *ids;              /* [n_wanted], of the records; held until the end */
    int32_t n_wanted, n_done;
};

static enum status check_tokens(const struct restore *r, struct error *err)
{
    const int32_t *tokens = cache_record_tokens(r->record);
    int32_t vocab = model_config(r->options->model)->vocab;
    for (int32_t i = 0; i < r->options->shape.block_size; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return fail(err, STATUS_BAD_MODEL, "block %d of the saved cache has token %d, the vocabulary has %d",
                        r->n_done, tokens[i], vocab);
    return STATUS_OK;
}

static enum status restore_block(struct restore *r, struct error *err)
{
    const struct cache_record_head *head = r->record;
    TRY(cache_file_reader_next(r->file, r->record, err));
    TRY(check_tokens(r, err));
    block_id *id = &r->ids[r->n_done];
    TRY(block_pool_take(r->blocks, id, err));
    r->n_done++;
    model_write_block(r->options->model, *id, cache_record_contents(&r->options->shape, r->record));
    struct prefix_block block = {
        .id = *id, .parent = head->parent < 0 ? BLOCK_NONE : r->ids[head->parent],
        .tokens = cache_record_tokens(r->record), .n_given = head->n_given, .salt = &head->salt,
    };
    if (prefix_cache_publish(r->prefixes, &block) != *id)
        return fail(err, STATUS_BAD_MODEL, "block %d of the saved cache is there twice", r->n_done - 1);
    return STATUS_OK;
}

/* Nobody holds a restored block; children first, so that they are evicted first. */
static void drop_all(struct restore *r)
{
    while (r->n_done > 0)
        block_pool_drop(r->blocks, r->ids[--r->n_done]);
}

static enum status restore_blocks(struct restore *r, struct error *err)
{
    int64_t count = cache_file_reader_count(r->file);
    int32_t room = block_pool_counts(r->blocks).n_free;
    r->n_wanted = count < room ? (int32_t)count : room;
    r->ids = calloc((size_t)r->n_wanted + 1, sizeof *r->ids);
    r->record = malloc(cache_record_bytes(&r->options->shape));
    if (r->ids == NULL || r->record == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to restore %d cache blocks", r->n_wanted);
    while (r->n_done < r->n_wanted)
        TRY(restore_block(r, err));
    return STATUS_OK;
}

enum status cache_restore(const struct cache_restore_options *options, int32_t *n_blocks, struct error *err)
{
    struct restore r = {
        .options = options, .prefixes = engine_prefixes(options->engine), .blocks = engine_blocks(options->engine),
    };
    *n_blocks = 0;
    if (r.prefixes == NULL)
        return fail(err, STATUS_BAD_OPTION, "a saved cache is of use only with --prefix-cache");
    TRY(cache_file_reader_open(&r.file, options->dir, &options->shape, err));
    enum status s = restore_blocks(&r, err);
    drop_all(&r);
    if (s == STATUS_OK)
        *n_blocks = r.n_wanted;
    else
        prefix_cache_reset(r.prefixes);
    cache_file_reader_close(r.file);
    free(r.ids);
    free(r.record);
    return s;
}
