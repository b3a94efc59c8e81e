/* test_no_malloc - no thread of a team takes or frees memory inside a step, whatever joins, forks, leaves or is preempted. */
#include "model/grammar.h"
#include "tests/server/engine_fixture.h"

#include <stdatomic.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_OWN_ALLOCATOR 1
#endif
#endif
#ifndef HAS_OWN_ALLOCATOR
#define HAS_OWN_ALLOCATOR 0
#endif

/* ---- the guard: malloc and its kin, fatal inside a step ---- */

static atomic_int in_step;
static atomic_int n_guarded;            /* calls the guard has let through, outside of steps */
static _Thread_local int is_outside;    /* the thread of the test is no part of the team */

#if !HAS_OWN_ALLOCATOR
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static void guard(const char *name)
{
    if (!atomic_load_explicit(&in_step, memory_order_relaxed) || is_outside) {
        atomic_fetch_add_explicit(&n_guarded, 1, memory_order_relaxed);
        return;
    }
    /* Not fprintf: it may want memory itself. */
    if (write(STDERR_FILENO, name, strlen(name)) < 0 || write(STDERR_FILENO, " inside a step\n", 15) < 0)
        _exit(3);
    abort();
}

void *malloc(size_t n)
{
    guard("malloc");
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    guard("calloc");
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    guard("realloc");
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    guard("aligned_alloc");
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    guard("posix_memalign");
    *out = __libc_memalign(alignment, n);
    return *out == NULL;
}

void free(void *p)
{
    guard("free");
    __libc_free(p);
}
#endif

static void on_step(void *context, int begins)
{
    (void)context;
    atomic_store(&in_step, begins);
}

/* ---- the guard itself ---- */

/* In a child, since it ends by it.  The volatile keeps the compiler from leaving the pair out. */
static int guard_ends_a_child(int step, int outside)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        atomic_store(&in_step, step);
        is_outside = outside;
        void *volatile p = malloc(10);
        free(p);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void an_allocation_inside_a_step_is_fatal(void **state)
{
    (void)state;
    if (HAS_OWN_ALLOCATOR) {
        print_message("skipped: a sanitizer brings its own allocator, which cannot be replaced\n");
        skip();
    }
    assert_true(guard_ends_a_child(1, 0));
    assert_false(guard_ends_a_child(0, 0));
    assert_false(guard_ends_a_child(1, 1));
}

/* ---- a thousand steps ---- */

enum { N_SLOTS = 24, N_STEPS = 1000 };

struct drive {
    struct running_model running;
    struct token_trie *trie;
    struct grammar *grammars[2];
    struct rng rng;
    struct outcome *slots;              /* [N_SLOTS] */
    int n_submitted, n_cancelled, n_paused, n_finished, n_failed, n_forked;
};

static size_t bytes_of(void *context, int32_t token, const char **bytes)
{
    size_t len = 0;
    if (tokenizer_is_special(context, token))
        return 0;
    *bytes = tokenizer_token_bytes(context, token, &len);
    return len;
}

static int below(struct drive *d, int n)
{
    return (int)rng_below(&d->rng, (uint64_t)n);
}

/* One of each for all requests: every slot has cursors of its own. */
static void make_grammars(struct drive *d)
{
    static const char pattern[] = "(ab|[0-9]{1,40}x?)+";
    const struct model_config *c = model_config(d->running.model);
    for (int is_regex = 0; is_regex < 2; is_regex++) {
        struct grammar_options options = {
            .kind = is_regex ? GRAMMAR_REGEX : GRAMMAR_JSON_OBJECT, .text = is_regex ? pattern : NULL,
            .len = is_regex ? sizeof pattern - 1 : 0, .trie = d->trie, .end_tokens = c->eos_tokens,
            .n_end_tokens = c->n_eos_tokens, .n_cursors = N_SLOTS * OUTCOME_CHOICES,
            .limits = GRAMMAR_LIMITS_DEFAULT,
        };
        struct error err;
        /* Little room, so that states are forgotten and made again. */
        options.limits.max_states = 300 + N_SLOTS * OUTCOME_CHOICES;
        options.limits.max_masks = 4;
        if (grammar_create(&d->grammars[is_regex], &options, &err) != STATUS_OK)
            fail_msg("grammar: %s", err.text);
    }
}

static struct request *random_request(struct drive *d, const struct outcome *slot)
{
    /* Few seeds: prompts repeat, and so do their beginnings. */
    struct request *r = fixture_request((uint64_t)below(d, 12), 1 + below(d, 70), below(d, 30));
    r->n_choices = below(d, 3) == 0 ? 1 + below(d, OUTCOME_CHOICES) : 1;
    r->priority = below(d, 3) - 1;
    r->ignore_eos = below(d, 2);
    r->min_new_tokens = below(d, 4) == 0 ? 3 : 0;
    r->want_prompt_logprobs = below(d, 6) == 0;
    struct sampling_params *s = &r->sampling;
    s->temperature = below(d, 2) ? 0 : 0.9;
    s->seed = rng_next(&d->rng);
    s->top_k = below(d, 3) == 0 ? 20 : 0;
    s->top_p = below(d, 3) == 0 ? 0.8 : 1;
    s->min_p = below(d, 4) == 0 ? 0.01 : 0;
    s->typical_p = below(d, 4) == 0 ? 0.9 : 1;
    s->repetition_penalty = below(d, 3) == 0 ? 1.2 : 1;
    s->presence_penalty = below(d, 3) == 0 ? 0.5 : 0;
    s->frequency_penalty = below(d, 3) == 0 ? 0.5 : 0;
    s->n_top = below(d, 2) ? 5 : 0;
    s->n_bias = 1;
    s->bias[0] = (struct logit_bias){ .token = 65, .bias = 2 };
    if (below(d, 2))
        assert_int_equal(request_add_stop(r, "a", 1, NULL), STATUS_OK);
    if (below(d, 2))
        assert_int_equal(request_add_stop(r, "never seen", 10, NULL), STATUS_OK);
    if (below(d, 3) == 0)
        r->stop_tokens[r->n_stop_tokens++] = 70;
    if (below(d, 4) == 0) {
        r->grammar = d->grammars[below(d, 2)];
        r->first_cursor = (int)(slot - d->slots) * OUTCOME_CHOICES;
    }
    if (below(d, 8) == 0) {
        r->task = REQUEST_EMBED;
        r->n_choices = 1;
        r->max_new_tokens = 0;
        r->want_prompt_logprobs = 0;
    }
    return r;
}

static void fill_slot(struct drive *d, struct outcome *slot)
{
    if (slot->n_last > 0) {
        d->n_finished++;
        d->n_failed += slot->failed;
        if (slot->failed)
            print_message("a request failed: %s\n", slot->failure.text);
    }
    memset(slot, 0, sizeof *slot);
    struct request *r = random_request(d, slot);
    struct error err;
    int n_choices = r->n_choices;
    r->owner = slot;
    slot->request = r;
    if (engine_submit(d->running.engine, r, &err) != STATUS_OK) {
        assert_int_equal(err.code, STATUS_OVERLOADED);
        request_destroy(r);
        slot->request = NULL;
        return;
    }
    d->n_submitted++;
    d->n_forked += n_choices - 1;
}

static void meddle(struct drive *d)
{
    struct outcome *slot = &d->slots[below(d, N_SLOTS)];
    switch (below(d, 12)) {
    case 0:
        d->n_cancelled += slot->request != NULL;
        fixture_cancel(&d->running, slot);
        break;
    case 1:
        d->n_paused++;
        fixture_pause(&d->running, slot, 1);
        break;
    case 2:
        if (below(d, 20) == 0)
            engine_reset_prefixes(d->running.engine);
        break;
    default:
        for (int i = 0; i < N_SLOTS; i++)
            if (below(d, 3) == 0)
                fixture_pause(&d->running, &d->slots[i], 0);
        break;
    }
}

static void end_all(struct drive *d)
{
    for (int i = 0; i < N_SLOTS; i++)
        fixture_pause(&d->running, &d->slots[i], 0);
    for (int i = 0; i < N_SLOTS; i++)
        if (d->slots[i].request != NULL)
            fixture_finish(&d->running, &d->slots[i]);
}

/* Meddles once a step, so that a slow machine sees as much between two of them as a fast one;
 * and when there has been none for a while, as everything may be paused. */
static void drive_steps(struct drive *d)
{
    enum { PATIENCE = 50 };
    uint64_t seen = 0, now;
    int turns = 0, idle = 0;
    while ((now = fixture_state(&d->running).n_steps) < N_STEPS && turns++ < 800000) {
        for (int i = 0; i < N_SLOTS; i++)
            if (d->slots[i].request == NULL)
                fill_slot(d, &d->slots[i]);
        idle = now == seen ? idle + 1 : 0;
        if (now != seen || idle % PATIENCE == 0)
            meddle(d);
        seen = now;
        struct engine_event event;
        for (int i = 0; i < 40 && engine_next_event(d->running.engine, &event); i++)
            outcome_take(&event);
        usleep(50);
    }
    end_all(d);
}

static void check_kind(const char *kind, int n_ranks, int by_chunk)
{
    struct drive d = { .slots = calloc(N_SLOTS, sizeof *d.slots) };
    rng_seed(&d.rng, 11);
    struct model_options model = {
        .n_ranks = n_ranks, .weight_type = MODEL_WEIGHTS_AUTO, .cache_type = CACHE_BF16, .block_size = 8,
        .mla_by_chunk = by_chunk, .n_blocks = 60, .max_rows = 64, .max_length = 128,
    };
    struct engine_options options = {
        .scheduler = { .max_sequences = 12, .max_step_tokens = 64, .max_queue = 40, .max_prefill_chunk = 24,
                       .prefix_cache = 1, .reuse_generated = 1, .policy = SCHEDULER_PRIORITY },
        .max_events = 4096,
        .on_step = HAS_OWN_ALLOCATOR ? NULL : on_step,
    };
    engine_fixture_open(&d.running, fixture_model(kind), &model, options);
    struct token_trie_source source = {
        .vocab = model_config(d.running.model)->n_usable_tokens, .bytes_of = bytes_of,
        .context = d.running.tokenizer,
    };
    assert_int_equal(token_trie_create(&d.trie, &source, NULL), STATUS_OK);
    make_grammars(&d);
    drive_steps(&d);
    struct engine_state state = fixture_state(&d.running);
    print_message("%s on %d ranks: %llu steps, %d requests, %d forks, %llu cancelled, %llu preemptions, %d pauses, "
                  "%d failed, %d calls of the allocator between steps\n", kind, n_ranks,
                  (unsigned long long)state.n_steps, d.n_submitted, d.n_forked,
                  (unsigned long long)state.n_cancelled, (unsigned long long)state.n_preemptions, d.n_paused,
                  d.n_failed, atomic_load(&n_guarded));
    assert_true(state.n_steps >= N_STEPS);
    assert_true(state.n_cancelled > 0 && state.n_preemptions > 0 && d.n_forked > 0 && d.n_paused > 0);
    assert_true(HAS_OWN_ALLOCATOR || atomic_load(&n_guarded) > 0);
    running_model_close(&d.running);
    for (int i = 0; i < 2; i++)
        grammar_destroy(d.grammars[i]);
    token_trie_destroy(d.trie);
    free(d.slots);
}

static void a_thousand_steps_of_mlra_allocate_nothing(void **state)
{
    (void)state;
    check_kind("mlra", 2, 0);
}

static void a_thousand_steps_of_mla_by_chunk_allocate_nothing(void **state)
{
    (void)state;
    check_kind("mla", 2, 1);
}

static void a_thousand_steps_of_ccgqa_allocate_nothing(void **state)
{
    (void)state;
    check_kind("ccgqa", 1, 0);
}

int main(void)
{
    is_outside = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_inside_a_step_is_fatal),
        cmocka_unit_test(a_thousand_steps_of_mlra_allocate_nothing),
        cmocka_unit_test(a_thousand_steps_of_mla_by_chunk_allocate_nothing),
        cmocka_unit_test(a_thousand_steps_of_ccgqa_allocate_nothing),
    };
    return cmocka_run_group_tests_name("no malloc", tests, NULL, NULL);
}
