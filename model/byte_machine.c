#include "model/byte_machine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST = 1,                  /* state 0 is dead */
    PLACES_PER_STATE = 32,      /* room, on average */
    FRAMES_PER_STATE = 4
};

#define NOT_ASKED UINT32_MAX
#define EMPTY_SLOT UINT32_MAX

/* Where the text may have led to: pc in the upper half, frame in the lower. */
typedef uint64_t place;

/* The end of the text as a place; sorts behind all others. */
#define PLACE_END ((place)UINT32_MAX << 32)

struct frame {                  /* frame 0: the empty stack */
    uint32_t return_pc;
    uint32_t below;             /* the frame under it, always a smaller number */
    uint16_t depth;
};

struct state {
    uint32_t first, n;          /* its places: places[first .. first + n), sorted */
};

/* Open addressing over numbers of frames or states. */
struct index {
    uint32_t mask;
    uint32_t *slots;
};

struct byte_machine {
    const struct byte_program *program;         /* fixed at create, as are the limits */
    uint32_t max_depth, max_states, max_places, max_frames, max_work;
    struct state *states;
    uint32_t n_states;
    place *places;
    uint32_t n_places;
    uint32_t *transitions;                      /* [max_states][n_classes] */
    struct frame *frames;
    uint32_t n_frames;
    struct index state_index, frame_index;
    /* The set that is being built: */
    place *work;                                /* [max_work] its places */
    uint32_t n_work;
    place *pending;                             /* [max_work] entered, not yet followed */
    uint32_t n_pending, n_visited;
    place *visited;                             /* [visited_mask + 1] hash set */
    uint32_t *visited_in;                       /* the build that filled the slot */
    uint32_t visited_mask, build;
    uint64_t work_left;                         /* places that may still be entered */
};

static uint32_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    return (uint32_t)(x >> 16);
}

static uint32_t power_of_two_above(uint32_t n)
{
    uint32_t p = 16;
    while (p < n)
        p *= 2;
    return p;
}

static void index_clear(struct index *index)
{
    memset(index->slots, 0xff, ((size_t)index->mask + 1) * sizeof *index->slots);
}

/* ---- life ---- */

static int allocate(struct byte_machine *m)
{
    size_t n_transitions = (size_t)m->max_states * m->program->n_classes;
    m->state_index.mask = power_of_two_above(2 * m->max_states) - 1;
    m->frame_index.mask = power_of_two_above(2 * m->max_frames) - 1;
    m->visited_mask = power_of_two_above(2 * m->max_work) - 1;
    m->states = calloc(m->max_states, sizeof *m->states);
    m->places = calloc(m->max_places, sizeof *m->places);
    m->transitions = calloc(n_transitions, sizeof *m->transitions);
    m->frames = calloc(m->max_frames, sizeof *m->frames);
    m->state_index.slots = calloc((size_t)m->state_index.mask + 1, sizeof *m->state_index.slots);
    m->frame_index.slots = calloc((size_t)m->frame_index.mask + 1, sizeof *m->frame_index.slots);
    m->work = calloc(m->max_work, sizeof *m->work);
    m->pending = calloc(m->max_work, sizeof *m->pending);
    m->visited = calloc((size_t)m->visited_mask + 1, sizeof *m->visited);
    m->visited_in = calloc((size_t)m->visited_mask + 1, sizeof *m->visited_in);
    return m->states != NULL && m->places != NULL && m->transitions != NULL && m->frames != NULL &&
           m->state_index.slots != NULL && m->frame_index.slots != NULL && m->work != NULL &&
           m->pending != NULL && m->visited != NULL && m->visited_in != NULL;
}

void byte_machine_destroy(struct byte_machine *m)
{
    if (m == NULL)
        return;
    free(m->states);
    free(m->places);
    free(m->transitions);
    free(m->frames);
    free(m->state_index.slots);
    free(m->frame_index.slots);
    free(m->work);
    free(m->pending);
    free(m->visited);
    free(m->visited_in);
    free(m);
}

/* ---- frames ---- */

static uint32_t hash_frame(uint32_t return_pc, uint32_t below)
{
    return mix((uint64_t)return_pc << 32 | below);
}

/* The frame (return_pc, below), made if there is none; 0 if there is no room. */
static uint32_t push_frame(struct byte_machine *m, uint32_t return_pc, uint32_t below)
{
    uint32_t h = hash_frame(return_pc, below);
    for (;; h++) {
        uint32_t *slot = &m->frame_index.slots[h & m->frame_index.mask];
        if (*slot == EMPTY_SLOT) {
            if (m->n_frames == m->max_frames)
                return 0;
            *slot = m->n_frames++;
            uint16_t depth = (uint16_t)(m->frames[below].depth + 1);
            m->frames[*slot] = (struct frame){ .return_pc = return_pc, .below = below, .depth = depth };
            return *slot;
        }
        const struct frame *f = &m->frames[*slot];
        if (f->return_pc == return_pc && f->below == below)
            return *slot;
    }
}

/* ---- building a set of places ---- */

static void begin_set(struct byte_machine *m)
{
    m->n_work = m->n_pending = m->n_visited = 0;
    m->build++;
    if (m->build == 0) {            /* wrapped: old marks could look new */
        memset(m->visited_in, 0, ((size_t)m->visited_mask + 1) * sizeof *m->visited_in);
        m->build = 1;
    }
}

/* Be at (pc, frame) unless we were already, or the text could not be finished
 * from there with the frames that are left. */
static enum status enter(struct byte_machine *m, uint32_t pc, uint32_t frame)
{
    if ((uint32_t)m->frames[frame].depth + m->program->need[pc] > m->max_depth)
        return STATUS_OK;
    place p = (place)pc << 32 | frame;
    uint32_t h = mix(p);
    for (; m->visited_in[h & m->visited_mask] == m->build; h++)
        if (m->visited[h & m->visited_mask] == p)
            return STATUS_OK;
    if (m->n_visited == m->max_work || m->work_left == 0)
        return STATUS_TOO_LARGE;
    m->work_left--;
    m->n_visited++;
    m->visited[h & m->visited_mask] = p;
    m->visited_in[h & m->visited_mask] = m->build;
    m->pending[m->n_pending++] = p;
    return STATUS_OK;
}

static enum status enter_call(struct byte_machine *m, const struct byte_instruction *call, uint32_t frame)
{
    uint32_t entry = m->program->rules[call->other];
    if (m->frames[frame].depth + 1u + m->program->need[entry] > m->max_depth)
        return STATUS_OK;
    uint32_t inner = push_frame(m, call->next, frame);
    if (inner == 0)
        return STATUS_BUSY;
    return enter(m, entry, inner);
}

/* Follow everything that takes no byte; what is left waits for one, or is the end. */
static enum status follow(struct byte_machine *m)
{
    while (m->n_pending > 0) {
        place p = m->pending[--m->n_pending];
        uint32_t pc = (uint32_t)(p >> 32), frame = (uint32_t)p;
        const struct byte_instruction *i = &m->program->code[pc];
        switch (i->op) {
        case BYTE_OP_RANGE:
            m->work[m->n_work++] = p;
            break;
        case BYTE_OP_SPLIT:
            TRY(enter(m, i->next, frame));
            TRY(enter(m, i->other, frame));
            break;
        case BYTE_OP_CALL:
            TRY(enter_call(m, i, frame));
            break;
        case BYTE_OP_RETURN:
            if (frame == 0)
                m->work[m->n_work++] = PLACE_END;
            else
                TRY(enter(m, m->frames[frame].return_pc, m->frames[frame].below));
            break;
        }
    }
    return STATUS_OK;
}

/* Shell sort: small sets mostly, no recursion, no allocation.  Several ways may
 * have led to the end; it is kept once. */
static void sort_set(struct byte_machine *m)
{
    static const uint32_t gaps[] = { 3001, 1301, 301, 109, 41, 13, 4, 1 };
    place *set = m->work;
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint32_t i = gaps[g], gap = gaps[g]; i < m->n_work; i++) {
            place p = set[i];
            uint32_t k = i;
            for (; k >= gap && set[k - gap] > p; k -= gap)
                set[k] = set[k - gap];
            set[k] = p;
        }
    while (m->n_work > 1 && set[m->n_work - 2] == PLACE_END)
        m->n_work--;
}

/* ---- states ---- */

static uint32_t hash_places(const place *places, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ places[i]) * 0x9e3779b97f4a7c15u + (h >> 31);
    return mix(h);
}

/* The slot of the state with these places, or the empty one where it belongs. */
static uint32_t *find_state(struct byte_machine *m, const place *places, uint32_t n)
{
    for (uint32_t h = hash_places(places, n);; h++) {
        uint32_t *slot = &m->state_index.slots[h & m->state_index.mask];
        if (*slot == EMPTY_SLOT)
            return slot;
        const struct state *s = &m->states[*slot];
        if (s->n == n && memcmp(m->places + s->first, places, n * sizeof *places) == 0)
            return slot;
    }
}

static uint32_t *row_of(struct byte_machine *m, uint32_t state)
{
    return m->transitions + (size_t)state * m->program->n_classes;
}

/* The set just built as a state. */
static enum status keep_set(struct byte_machine *m, uint32_t *out)
{
    sort_set(m);
    uint32_t *slot = find_state(m, m->work, m->n_work);
    if (*slot != EMPTY_SLOT) {
        *out = *slot;
        return STATUS_OK;
    }
    if (m->n_work > m->max_places / 2)
        return STATUS_TOO_LARGE;
    if (m->n_states == m->max_states || m->n_work > m->max_places - m->n_places)
        return STATUS_BUSY;
    *slot = *out = m->n_states++;
    m->states[*out] = (struct state){ .first = m->n_places, .n = m->n_work };
    memcpy(m->places + m->n_places, m->work, m->n_work * sizeof *m->work);
    m->n_places += m->n_work;
    memset(row_of(m, *out), 0xff, m->program->n_classes * sizeof *m->transitions);
    return STATUS_OK;
}

/* State 0, the empty set, whose transitions all lead to itself, and the first. */
static enum status make_first_states(struct byte_machine *m)
{
    index_clear(&m->frame_index);
    index_clear(&m->state_index);
    m->n_frames = 1;
    m->frames[0] = (struct frame){ 0 };
    uint32_t state;
    begin_set(m);
    TRY(keep_set(m, &state));
    assert(state == BYTE_MACHINE_DEAD);
    memset(row_of(m, BYTE_MACHINE_DEAD), 0, m->program->n_classes * sizeof *m->transitions);
    TRY(enter(m, m->program->rules[0], 0));
    TRY(follow(m));
    TRY(keep_set(m, &state));
    assert(state == FIRST);
    return STATUS_OK;
}

enum status byte_machine_create(struct byte_machine **out, const struct byte_program *program,
                                uint32_t max_depth, uint32_t max_states, struct error *err)
{
    assert(max_states > FIRST && max_states <= 1u << 20 && program->need != NULL);
    struct byte_machine *m = calloc(1, sizeof *m);
    if (m == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the states of a grammar");
    m->program = program;
    m->max_depth = max_depth;
    m->max_states = max_states;
    m->max_places = max_states * PLACES_PER_STATE;
    m->max_frames = max_states * FRAMES_PER_STATE;
    m->max_work = max_states * FRAMES_PER_STATE;
    m->work_left = UINT64_MAX;
    if (!allocate(m)) {
        byte_machine_destroy(m);
        return fail(err, STATUS_NO_MEMORY, "no memory for %u states of a grammar", (unsigned)max_states);
    }
    if (make_first_states(m) != STATUS_OK) {
        byte_machine_destroy(m);
        return fail(err, STATUS_TOO_LARGE, "the grammar has too many ways to begin for %u states",
                    (unsigned)max_states);
    }
    *out = m;
    return STATUS_OK;
}

uint32_t byte_machine_first(const struct byte_machine *m)
{
    (void)m;
    return FIRST;
}

void byte_machine_allow(struct byte_machine *m, uint64_t max_work)
{
    m->work_left = max_work;
}

enum status byte_machine_step(struct byte_machine *m, uint32_t state, uint8_t byte, uint32_t *out)
{
    uint32_t class = m->program->class_of[byte];
    uint32_t known = row_of(m, state)[class];
    if (known != NOT_ASKED) {
        *out = known;
        return STATUS_OK;
    }
    begin_set(m);
    const struct state *s = &m->states[state];
    for (uint32_t k = 0; k < s->n; k++) {
        place p = m->places[s->first + k];
        if (p == PLACE_END)
            break;
        const struct byte_instruction *i = &m->program->code[p >> 32];
        if (byte >= i->lo && byte <= i->hi)
            TRY(enter(m, i->next, (uint32_t)p));
    }
    TRY(follow(m));
    TRY(keep_set(m, out));
    row_of(m, state)[class] = *out;
    return STATUS_OK;
}

int byte_machine_is_accepting(const struct byte_machine *m, uint32_t state)
{
    const struct state *s = &m->states[state];
    return s->n > 0 && m->places[s->first + s->n - 1] == PLACE_END;
}

int byte_machine_is_finished(const struct byte_machine *m, uint32_t state)
{
    return m->states[state].n == 1 && byte_machine_is_accepting(m, state);
}

/* ---- forgetting ---- */

/* Move the kept states (renumber[s] != 0, or s <= FIRST) to the front, in order;
 * renumber[s] becomes their new number.  Returns how many there are. */
static uint32_t compact_states(struct byte_machine *m, uint32_t *renumber)
{
    uint32_t n_states = 0, n_places = 0;
    for (uint32_t s = 0; s < m->n_states; s++) {
        if (s > FIRST && renumber[s] == 0)
            continue;
        struct state kept = m->states[s];
        memmove(m->places + n_places, m->places + kept.first, kept.n * sizeof *m->places);
        m->states[n_states] = (struct state){ .first = n_places, .n = kept.n };
        n_places += kept.n;
        renumber[s] = n_states++;
    }
    m->n_places = n_places;
    return n_states;
}

/* Keep the frames that kept places stand on and those below them.  A frame lies
 * above smaller numbers only, so one pass down marks and one pass up moves. */
static void compact_frames(struct byte_machine *m, uint32_t *renumber)
{
    memset(renumber, 0, m->n_frames * sizeof *renumber);
    for (uint32_t k = 0; k < m->n_places; k++)
        if (m->places[k] != PLACE_END)
            renumber[(uint32_t)m->places[k]] = 1;
    for (uint32_t f = m->n_frames - 1; f > 0; f--)
        if (renumber[f] != 0)
            renumber[m->frames[f].below] = 1;
    uint32_t n = 1;
    renumber[0] = 0;            /* the empty stack stays what it is */
    for (uint32_t f = 1; f < m->n_frames; f++) {
        if (renumber[f] == 0)
            continue;
        m->frames[n] = m->frames[f];
        m->frames[n].below = renumber[m->frames[f].below];
        renumber[f] = n++;
    }
    m->n_frames = n;
    for (uint32_t k = 0; k < m->n_places; k++)
        if (m->places[k] != PLACE_END)
            m->places[k] = (m->places[k] >> 32 << 32) | renumber[(uint32_t)m->places[k]];
}

static void rebuild_indexes(struct byte_machine *m)
{
    index_clear(&m->frame_index);
    for (uint32_t f = 1; f < m->n_frames; f++) {
        uint32_t h = hash_frame(m->frames[f].return_pc, m->frames[f].below);
        while (m->frame_index.slots[h & m->frame_index.mask] != EMPTY_SLOT)
            h++;
        m->frame_index.slots[h & m->frame_index.mask] = f;
    }
    index_clear(&m->state_index);
    for (uint32_t s = 0; s < m->n_states; s++)
        *find_state(m, m->places + m->states[s].first, m->states[s].n) = s;
}

void byte_machine_collect(struct byte_machine *m, uint32_t *roots, uint32_t n_roots)
{
    /* The place lists of a set under construction are free now and large enough
     * to number states and frames: 8 bytes an entry, max_frames entries. */
    uint32_t *renumber = (uint32_t *)(void *)m->work;
    memset(renumber, 0, m->n_states * sizeof *renumber);
    for (uint32_t k = 0; k < n_roots; k++)
        renumber[roots[k]] = 1;
    uint32_t n_states = compact_states(m, renumber);
    for (uint32_t k = 0; k < n_roots; k++)
        roots[k] = renumber[roots[k]];
    m->n_states = n_states;
    compact_frames(m, renumber);
    rebuild_indexes(m);
    size_t row = m->program->n_classes * sizeof *m->transitions;
    memset(row_of(m, FIRST), 0xff, (n_states - 1) * row);
    /* Forgetting is work too, about that of entering so many places. */
    m->work_left -= m->work_left < m->max_states ? m->work_left : m->max_states;
}
