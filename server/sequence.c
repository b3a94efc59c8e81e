#include "server/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TO(state) (1u << SEQUENCE_##state)

static const struct {
    const char *name;
    unsigned moves;             /* the states it may go to */
} states[SEQUENCE_N_STATES] = {
    [SEQUENCE_WAITING]   = { "WAITING",   TO(PREFILL) | TO(DECODE) | TO(FINISHED) },
    [SEQUENCE_PREFILL]   = { "PREFILL",   TO(DECODE) | TO(PREEMPTED) | TO(FINISHED) },
    [SEQUENCE_DECODE]    = { "DECODE",    TO(PREEMPTED) | TO(FINISHED) },
    [SEQUENCE_PREEMPTED] = { "PREEMPTED", TO(WAITING) | TO(FINISHED) },
    [SEQUENCE_FINISHED]  = { "FINISHED",  0 },
};

enum status sequence_create(struct sequence **out, const struct sequence_options *options, struct error *err)
{
    assert(options->n_choices >= 1 && options->block_size > 0);
    assert(options->n_prompt >= 0 && options->max_new_tokens >= 0);
    if (options->n_prompt == 0)
        return fail(err, STATUS_BAD_REQUEST, "the prompt has no tokens");
    if (options->max_new_tokens > INT32_MAX - options->n_prompt)
        return fail(err, STATUS_BAD_REQUEST, "prompt of %d tokens + max_tokens %d is more than %d",
                    options->n_prompt, options->max_new_tokens, INT32_MAX);

    int32_t total = options->n_prompt + options->max_new_tokens;
    struct block_table *blocks = NULL;
    TRY(block_table_create(&blocks, block_table_blocks_for(total, options->block_size), options->block_size,
                           err));
    struct sequence *seq = calloc(1, sizeof *seq);
    int32_t *tokens = calloc((size_t)total, sizeof *tokens);
    if (seq == NULL || tokens == NULL) {
        free(seq);
        free(tokens);
        block_table_destroy(blocks);
        return fail(err, STATUS_NO_MEMORY, "no memory for a sequence of %d tokens", total);
    }
    memcpy(tokens, options->prompt, (size_t)options->n_prompt * sizeof *tokens);
    *seq = (struct sequence){
        .id = options->id,
        .request = options->request,
        .n_prompt = options->n_prompt,
        .max_tokens_total = total,
        .priority = options->priority,
        .choice = options->choice,
        .salt = options->salt,
        .tokens = tokens,
        .blocks = blocks,
        .state = SEQUENCE_WAITING,
        .n_tokens = options->n_prompt,
        .n_forks_left = options->n_choices - 1,
    };
    *out = seq;
    return STATUS_OK;
}

void sequence_destroy(struct sequence *seq)
{
    if (seq == NULL)
        return;
    block_table_destroy(seq->blocks);
    free(seq->tokens);
    free(seq);
}

const char *sequence_state_name(enum sequence_state state)
{
    return states[state].name;
}

int sequence_may_move(enum sequence_state from, enum sequence_state to)
{
    return (states[from].moves >> to & 1u) != 0;
}

void sequence_move(struct sequence *seq, enum sequence_state to)
{
    assert(sequence_may_move(seq->state, to));
    seq->state = to;
}

int sequence_is_running(const struct sequence *seq)
{
    return seq->state == SEQUENCE_PREFILL || seq->state == SEQUENCE_DECODE;
}

int32_t sequence_room(const struct sequence *seq)
{
    return seq->max_tokens_total - seq->n_tokens;
}

int32_t sequence_n_output(const struct sequence *seq)
{
    return seq->n_tokens - seq->n_prompt;
}

void sequence_append(struct sequence *seq, int32_t token)
{
    assert(sequence_room(seq) > 0);
    seq->tokens[seq->n_tokens++] = token;
}
