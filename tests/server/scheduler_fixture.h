/* scheduler_fixture.h - a scheduler, its sequences and the last plan, for the
 * tests of its rules.  No model: a step is plan, commit, and a made-up token for
 * whoever has logits. */
#ifndef TESTS_SERVER_SCHEDULER_FIXTURE_H
#define TESTS_SERVER_SCHEDULER_FIXTURE_H

#include "server/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_SEQUENCES 16

struct fixture {
    struct scheduler *sched;
    struct scheduler_options options;
    struct step_plan plan;
    struct sequence *all[MAX_SEQUENCES];
    int n_all;
};

/* Roomy on purpose; a test narrows what it is about. */
static const struct scheduler_options roomy = {
    .n_blocks = 100, .block_size = 4, .max_sequences = 8, .max_step_tokens = 16, .max_queue = 8,
    .max_model_len = 200,
};

static inline void start(struct fixture *f, const struct scheduler_options *options)
{
    memset(f, 0, sizeof *f);
    f->options = *options;
    assert_int_equal(scheduler_create(&f->sched, options, NULL), STATUS_OK);
}

static inline void stop(struct fixture *f)
{
    for (int i = 0; i < f->n_all; i++) {
        scheduler_cancel(f->sched, f->all[i]);
        sequence_destroy(f->all[i]);
    }
    struct block_counts blocks = scheduler_stats(f->sched).blocks;
    assert_int_equal(blocks.n_held, 0);
    assert_int_equal(blocks.n_free + blocks.n_idle, f->options.n_blocks);
    scheduler_destroy(f->sched);
}

/* The usual sequence: the prompt is first, first + 1, first + 2 .. */
struct ask {
    int32_t first, n_prompt, max_new_tokens, priority, n_choices, choice;
    uint8_t salt;
};

static inline struct sequence *make(struct fixture *f, struct ask ask)
{
    int32_t prompt[256];
    for (int32_t i = 0; i < ask.n_prompt; i++)
        prompt[i] = ask.first + i;
    struct sequence *seq = NULL;
    struct sequence_options options = {
        .id = (uint64_t)f->n_all, .prompt = prompt, .n_prompt = ask.n_prompt,
        .max_new_tokens = ask.max_new_tokens, .priority = ask.priority, .choice = ask.choice,
        .n_choices = ask.n_choices > 0 ? ask.n_choices : 1, .salt = { { ask.salt } },
        .block_size = f->options.block_size,
    };
    assert_int_equal(sequence_create(&seq, &options, NULL), STATUS_OK);
    assert_true(f->n_all < MAX_SEQUENCES);
    f->all[f->n_all++] = seq;
    return seq;
}

static inline struct sequence *submit(struct fixture *f, struct ask ask)
{
    struct sequence *seq = make(f, ask);
    assert_int_equal(scheduler_submit(f->sched, seq, NULL), STATUS_OK);
    return seq;
}

static inline void refuse(struct fixture *f, struct ask ask, enum status status, const char *sentence)
{
    struct sequence *seq = make(f, ask);
    struct error err;
    uint64_t n_refused = scheduler_stats(f->sched).n_refused;
    assert_int_equal(scheduler_submit(f->sched, seq, &err), status);
    assert_string_equal(err.text, sentence);
    assert_int_equal(scheduler_stats(f->sched).n_refused, n_refused + 1);
}

static inline void plan(struct fixture *f)
{
    scheduler_plan(f->sched, &f->plan);
}

static inline void commit(struct fixture *f)
{
    scheduler_commit(f->sched, &f->plan);
}

/* Every sequence with logits gets a token that only depends on where it is. */
static inline void push(struct fixture *f)
{
    for (int i = 0; i < f->n_all; i++) {
        struct sequence *seq = f->all[i];
        if (!seq->awaits_token)
            continue;
        if (sequence_room(seq) > 0)
            scheduler_push_token(f->sched, seq, 1000 + seq->n_tokens);
        if (sequence_room(seq) == 0)
            scheduler_finish(f->sched, seq);
    }
}

static inline void step(struct fixture *f)
{
    plan(f);
    commit(f);
    push(f);
}

/* Tokens of seq in the last plan; 0 without a row. */
static inline int32_t planned(const struct fixture *f, const struct sequence *seq)
{
    for (int32_t i = 0; i < f->plan.n_rows; i++)
        if (f->plan.rows[i].sequence == seq)
            return f->plan.rows[i].n_tokens;
    return 0;
}

#endif
