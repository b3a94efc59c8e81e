#include "server/cache_save.h"

#include "base/clock.h"
#include "base/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Who may touch the fields follows from the phase:
 *   IDLE      the loop           start makes it FEEDING
 *   FEEDING   engine and writer  the engine makes it FLUSHING when nothing is left
 *   FLUSHING  the writer         which makes it DONE
 *   DONE      the loop           poll makes it IDLE */
enum phase { PHASE_IDLE, PHASE_FEEDING, PHASE_FLUSHING, PHASE_DONE };

/* Which publication of a block is in the file, and as which record. */
struct written {
    uint64_t serial;            /* 0: none */
    int32_t record;
};

struct cache_saver {
    /* fixed at create */
    struct cache_saver_options options;
    int32_t n_blocks;
    void *buffers[SAVE_BUFFERS];
    struct queue *empty, *full; /* of void *; NULL in full: nothing follows */

    _Atomic int phase;
    _Atomic int is_given_up;    /* anyone: what is left need not be written */

    /* FEEDING: the engine thread */
    struct written *written;    /* [n_blocks] */
    block_id next;
    int32_t n_records;

    /* FEEDING, FLUSHING: the writer thread */
    struct cache_file_writer *file;
    struct cache_save_result result;
    int64_t started_ns;

    pthread_t thread;           /* not IDLE: to be joined */
};

/* ---- create ---- */

static enum status allocate(struct cache_saver *s, struct error *err)
{
    struct queue_options options = { .item_bytes = sizeof(void *), .max_items = SAVE_BUFFERS + 2 };
    TRY(queue_create(&s->empty, &options, err));
    TRY(queue_create(&s->full, &options, err));
    s->written = calloc((size_t)s->n_blocks, sizeof *s->written);
    if (s->written == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to save %d cache blocks", s->n_blocks);
    for (int i = 0; i < SAVE_BUFFERS; i++) {
        s->buffers[i] = malloc(cache_record_bytes(&s->options.shape));
        if (s->buffers[i] == NULL)
            return fail(err, STATUS_NO_MEMORY, "no memory to save cache blocks of %zu bytes",
                        s->options.shape.block_bytes);
    }
    return STATUS_OK;
}

enum status cache_saver_create(struct cache_saver **out, const struct cache_saver_options *options,
                               struct error *err)
{
    struct cache_saver *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to save the cache");
    s->options = *options;
    s->n_blocks = model_options(options->model)->n_blocks;
    enum status status = allocate(s, err);
    if (status != STATUS_OK) {
        cache_saver_destroy(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

void cache_saver_destroy(struct cache_saver *s)
{
    if (s == NULL)
        return;
    if (atomic_load(&s->phase) == PHASE_FEEDING) {
        void *nothing = NULL;
        atomic_store(&s->is_given_up, 1);
        queue_push(s->full, &nothing);
    }
    if (atomic_load(&s->phase) != PHASE_IDLE)
        pthread_join(s->thread, NULL);
    for (int i = 0; i < SAVE_BUFFERS; i++)
        free(s->buffers[i]);
    queue_destroy(s->empty);
    queue_destroy(s->full);
    free(s->written);
    free(s);
}

/* ---- the writer thread ---- */

static void write_record(struct cache_saver *s, const void *record)
{
    struct cache_save_result *r = &s->result;
    if (r->error.code != STATUS_OK || atomic_load(&s->is_given_up))
        return;
    if (cache_file_writer_add(s->file, record, &r->error) != STATUS_OK) {
        atomic_store(&s->is_given_up, 1);
        return;
    }
    r->n_blocks++;
    r->n_bytes += (int64_t)cache_record_bytes(&s->options.shape);
}

static void *write_all(void *context)
{
    struct cache_saver *s = context;
    struct cache_save_result *r = &s->result;
    void *record;
    while (queue_pop(s->full, &record, -1) && record != NULL) {
        write_record(s, record);
        queue_push(s->empty, &record);
    }
    if (atomic_load(&s->is_given_up)) {
        cache_file_writer_abandon(s->file);
        if (r->error.code == STATUS_OK)
            fail(&r->error, STATUS_BUSY, "the save was given up");
    } else if (cache_file_writer_finish(s->file, &r->error) == STATUS_OK) {
        r->error.code = STATUS_OK;
    }
    s->file = NULL;
    r->took_ns = clock_now_ns() - s->started_ns;
    atomic_store(&s->phase, PHASE_DONE);
    s->options.on_done(s->options.context);
    return NULL;
}

/* ---- the loop ---- */

static void refill(struct cache_saver *s)
{
    void *left_over;
    while (queue_pop(s->empty, &left_over, 0))
        continue;
    for (int i = 0; i < SAVE_BUFFERS; i++)
        queue_push(s->empty, &s->buffers[i]);
}

enum status cache_saver_start(struct cache_saver *s, struct error *err)
{
    if (cache_saver_is_busy(s))
        return fail(err, STATUS_BUSY, "the cache is being saved already");
    TRY(cache_file_writer_open(&s->file, s->options.dir, &s->options.shape, err));
    refill(s);
    memset(s->written, 0, (size_t)s->n_blocks * sizeof *s->written);
    s->next = 0;
    s->n_records = 0;
    s->result = (struct cache_save_result){ .n_blocks = 0 };
    s->started_ns = clock_now_ns();
    atomic_store(&s->is_given_up, 0);
    if (pthread_create(&s->thread, NULL, write_all, s) != 0) {
        cache_file_writer_abandon(s->file);
        return fail(err, STATUS_IO, "the system refused a thread to save the cache");
    }
    atomic_store(&s->phase, PHASE_FEEDING);
    return STATUS_OK;
}

int cache_saver_is_busy(const struct cache_saver *s)
{
    return atomic_load(&s->phase) != PHASE_IDLE;
}

int cache_saver_poll(struct cache_saver *s, struct cache_save_result *out)
{
    if (atomic_load(&s->phase) != PHASE_DONE)
        return 0;
    pthread_join(s->thread, NULL);
    *out = s->result;
    atomic_store(&s->phase, PHASE_IDLE);
    return 1;
}

/* ---- the engine thread ---- */

static int is_written(const struct cache_saver *s, block_id id, const struct prefix_entry *entry)
{
    return s->written[id].serial == entry->serial;
}

/* The first block of the chain of id that is not in the file; published as id is. */
static block_id first_missing(const struct cache_saver *s, const struct prefix_cache *prefixes, block_id id,
                              struct prefix_entry *entry)
{
    struct prefix_entry parent;
    while (entry->parent != BLOCK_NONE && prefix_cache_read(prefixes, entry->parent, &parent)
           && !is_written(s, entry->parent, &parent)) {
        id = entry->parent;
        *entry = parent;
    }
    return id;
}

/* The next block to write and what is known of it; BLOCK_NONE: none is left. */
static block_id find_next(struct cache_saver *s, const struct prefix_cache *prefixes, struct prefix_entry *entry)
{
    for (; s->next < s->n_blocks; s->next++)
        if (prefix_cache_read(prefixes, s->next, entry) && !is_written(s, s->next, entry)
            && !prefix_salt_is_private(entry->salt))
            return first_missing(s, prefixes, s->next, entry);
    return BLOCK_NONE;
}

static void fill_record(struct cache_saver *s, block_id id, const struct prefix_entry *entry, void *record)
{
    const struct cache_file_shape *shape = &s->options.shape;
    struct cache_record_head head = {
        .parent = entry->parent == BLOCK_NONE ? -1 : s->written[entry->parent].record,
        .n_given = entry->n_given, .salt = *entry->salt,
    };
    memcpy(record, &head, sizeof head);
    memcpy(cache_record_tokens(record), entry->tokens, (size_t)shape->block_size * sizeof(int32_t));
    model_read_block(s->options.model, id, cache_record_contents(shape, record));
    s->written[id] = (struct written){ .serial = entry->serial, .record = s->n_records++ };
}

static int end_feeding(struct cache_saver *s)
{
    void *nothing = NULL;
    atomic_store(&s->phase, PHASE_FLUSHING);
    queue_push(s->full, &nothing);
    return 0;
}

int cache_saver_feed(struct cache_saver *s, struct engine *engine)
{
    if (atomic_load(&s->phase) != PHASE_FEEDING)
        return 0;
    const struct prefix_cache *prefixes = engine_prefixes(engine);
    void *record;
    while (!atomic_load(&s->is_given_up) && queue_pop(s->empty, &record, 0)) {
        struct prefix_entry entry;
        block_id id = prefixes != NULL ? find_next(s, prefixes, &entry) : BLOCK_NONE;
        if (id == BLOCK_NONE)
            return end_feeding(s);
        fill_record(s, id, &entry, record);
        queue_push(s->full, &record);
    }
    return atomic_load(&s->is_given_up) ? end_feeding(s) : 1;
}
