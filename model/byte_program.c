#include "model/byte_program.h"

#include <stdlib.h>
#include <string.h>

void byte_program_init(struct byte_program *p, uint32_t max_code)
{
    *p = (struct byte_program){ .max_code = max_code };
    byte_program_rule_new(p);
}

void byte_program_clear(struct byte_program *p)
{
    free(p->code);
    free(p->rules);
    free(p->need);
    *p = (struct byte_program){ .max_code = p->max_code };
}

/* ---- writing ---- */

static uint32_t emit(struct byte_program *p, struct byte_instruction instruction)
{
    if (p->is_full || p->out_of_memory)
        return 0;
    if (p->n_code == p->max_code) {
        p->is_full = 1;
        return 0;
    }
    if (p->n_code == p->capacity) {
        uint32_t capacity = p->capacity < 256 ? 256 : p->capacity * 2;
        struct byte_instruction *code = realloc(p->code, capacity * sizeof *code);
        if (code == NULL) {
            p->out_of_memory = 1;
            return 0;
        }
        p->code = code;
        p->capacity = capacity;
    }
    p->code[p->n_code] = instruction;
    return p->n_code++;
}

uint32_t byte_program_fail(struct byte_program *p)
{
    return emit(p, (struct byte_instruction){ .op = BYTE_OP_FAIL });
}

uint32_t byte_program_return(struct byte_program *p)
{
    return emit(p, (struct byte_instruction){ .op = BYTE_OP_RETURN });
}

uint32_t byte_program_range(struct byte_program *p, uint8_t lo, uint8_t hi, uint32_t next)
{
    return emit(p, (struct byte_instruction){ .op = BYTE_OP_RANGE, .lo = lo, .hi = hi, .next = next });
}

uint32_t byte_program_range_shared(struct byte_program *p, uint32_t since, uint8_t lo, uint8_t hi,
                                   uint32_t next)
{
    for (uint32_t pc = since; pc < p->n_code; pc++) {
        const struct byte_instruction *i = &p->code[pc];
        if (i->op == BYTE_OP_RANGE && i->lo == lo && i->hi == hi && i->next == next)
            return pc;
    }
    return byte_program_range(p, lo, hi, next);
}

uint32_t byte_program_literal(struct byte_program *p, const char *bytes, size_t len, uint32_t next)
{
    for (size_t i = len; i-- > 0;)
        next = byte_program_range(p, (uint8_t)bytes[i], (uint8_t)bytes[i], next);
    return next;
}

uint32_t byte_program_split(struct byte_program *p, uint32_t a, uint32_t b)
{
    return emit(p, (struct byte_instruction){ .op = BYTE_OP_SPLIT, .next = a, .other = b });
}

uint32_t byte_program_call(struct byte_program *p, uint32_t rule, uint32_t next)
{
    return emit(p, (struct byte_instruction){ .op = BYTE_OP_CALL, .next = next, .other = rule });
}

uint32_t byte_program_loop_begin(struct byte_program *p)
{
    return byte_program_split(p, 0, 0);
}

void byte_program_loop_end(struct byte_program *p, uint32_t loop, uint32_t body, uint32_t next)
{
    if (p->is_full || p->out_of_memory)
        return;
    p->code[loop].next = body;
    p->code[loop].other = next;
}

uint32_t byte_program_rule_new(struct byte_program *p)
{
    if (p->rules == NULL)
        p->rules = calloc(BYTE_PROGRAM_MAX_RULES, sizeof *p->rules);
    if (p->rules == NULL)
        p->out_of_memory = 1;
    if (p->n_rules == BYTE_PROGRAM_MAX_RULES)
        p->is_full = 1;
    if (p->is_full || p->out_of_memory)
        return 0;
    return p->n_rules++;
}

void byte_program_rule_set(struct byte_program *p, uint32_t rule, uint32_t entry)
{
    if (!p->is_full && !p->out_of_memory)
        p->rules[rule] = entry;
}

/* ---- checking ---- */

static uint16_t smaller(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static uint16_t need_of(const struct byte_program *p, const struct byte_instruction *i, uint32_t max_depth)
{
    switch (i->op) {
    case BYTE_OP_RETURN:
        return 0;
    case BYTE_OP_RANGE:
        return p->need[i->next];
    case BYTE_OP_SPLIT:
        return smaller(p->need[i->next], p->need[i->other]);
    case BYTE_OP_CALL: {
        uint16_t inside = p->need[p->rules[i->other]], after = p->need[i->next];
        if (inside >= max_depth || after == BYTE_PROGRAM_NEVER)
            return BYTE_PROGRAM_NEVER;
        return inside + 1 > after ? (uint16_t)(inside + 1) : after;
    }
    }
    return BYTE_PROGRAM_NEVER;
}

/* From "never" downwards until nothing changes.  Code is written back to front,
 * so one pass settles everything but calls of rules that come later; a call
 * costs a frame, so max_depth + 2 passes are enough. */
static void derive_need(struct byte_program *p, uint32_t max_depth)
{
    for (uint32_t pc = 0; pc < p->n_code; pc++)
        p->need[pc] = BYTE_PROGRAM_NEVER;
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t pc = 0; pc < p->n_code; pc++) {
            uint16_t need = need_of(p, &p->code[pc], max_depth);
            changed |= need != p->need[pc];
            p->need[pc] = need;
        }
    }
}

/* can_be_empty[pc]: RETURN is reached from pc without a byte. */
static void derive_can_be_empty(const struct byte_program *p, uint8_t *can_be_empty)
{
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t pc = 0; pc < p->n_code; pc++) {
            const struct byte_instruction *i = &p->code[pc];
            uint8_t now = i->op == BYTE_OP_RETURN ||
                (i->op == BYTE_OP_SPLIT && (can_be_empty[i->next] || can_be_empty[i->other])) ||
                (i->op == BYTE_OP_CALL && can_be_empty[p->rules[i->other]] && can_be_empty[i->next]);
            changed |= now != can_be_empty[pc];
            can_be_empty[pc] = now;
        }
    }
}

enum colour { WHITE, GREY, BLACK };

/* What the search for left recursion keeps. */
struct search {
    const struct byte_program *p;
    uint8_t *can_be_empty;          /* [n_code] */
    uint8_t *is_visited;            /* [n_code] */
    uint8_t *colour;                /* [n_rules] grey: entered and not left, no byte since */
    uint32_t *stack;                /* [2 * n_code + 2 * n_rules + 2] pc, or n_code + rule: leave the rule */
    size_t n_stack;
};

/* Everything reachable from `rule` without a byte.  1: a grey rule was entered again. */
static int finds_left_recursion(struct search *s, uint32_t rule)
{
    const struct byte_program *p = s->p;
    s->colour[rule] = GREY;
    s->stack[s->n_stack++] = p->n_code + rule;
    s->stack[s->n_stack++] = p->rules[rule];
    while (s->n_stack > 0) {
        uint32_t pc = s->stack[--s->n_stack];
        if (pc >= p->n_code) {
            s->colour[pc - p->n_code] = BLACK;
            continue;
        }
        if (s->is_visited[pc])
            continue;
        s->is_visited[pc] = 1;
        const struct byte_instruction *i = &p->code[pc];
        if (i->op == BYTE_OP_SPLIT) {
            s->stack[s->n_stack++] = i->other;
            s->stack[s->n_stack++] = i->next;
        } else if (i->op == BYTE_OP_CALL) {
            uint32_t callee = i->other;
            if (s->colour[callee] == GREY)
                return 1;
            if (s->can_be_empty[p->rules[callee]])
                s->stack[s->n_stack++] = i->next;
            if (s->colour[callee] == WHITE) {
                s->colour[callee] = GREY;
                s->stack[s->n_stack++] = p->n_code + callee;
                s->stack[s->n_stack++] = p->rules[callee];
            }
        }
    }
    return 0;
}

static enum status check_left_recursion(const struct byte_program *p, struct error *err)
{
    struct search s = {
        .p = p,
        .can_be_empty = calloc(p->n_code, 1),
        .is_visited = calloc(p->n_code, 1),
        .colour = calloc(p->n_rules, 1),
        .stack = calloc(2 * (size_t)p->n_code + 2 * (size_t)p->n_rules + 2, sizeof(uint32_t)),
    };
    enum status status = STATUS_OK;
    if (s.can_be_empty == NULL || s.is_visited == NULL || s.colour == NULL || s.stack == NULL) {
        status = fail(err, STATUS_NO_MEMORY, "no memory to check a grammar");
    } else {
        derive_can_be_empty(p, s.can_be_empty);
        for (uint32_t rule = 0; rule < p->n_rules && status == STATUS_OK; rule++)
            if (s.colour[rule] == WHITE && finds_left_recursion(&s, rule))
                status = fail(err, STATUS_BAD_REQUEST,
                              "the grammar refers to itself without any text in between");
    }
    free(s.can_be_empty);
    free(s.is_visited);
    free(s.colour);
    free(s.stack);
    return status;
}

/* Bytes between two neighbouring range ends behave alike everywhere. */
static void derive_classes(struct byte_program *p)
{
    uint8_t begins[257] = { 1 };
    for (uint32_t pc = 0; pc < p->n_code; pc++)
        if (p->code[pc].op == BYTE_OP_RANGE) {
            begins[p->code[pc].lo] = 1;
            begins[p->code[pc].hi + 1] = 1;
        }
    uint32_t n = 0;
    for (int byte = 0; byte < 256; byte++) {
        n += begins[byte];
        p->class_of[byte] = (uint8_t)(n - 1);
    }
    p->n_classes = n;
}

enum status byte_program_seal(struct byte_program *p, uint32_t max_depth, struct error *err)
{
    if (p->out_of_memory)
        return fail(err, STATUS_NO_MEMORY, "no memory to compile a grammar");
    if (p->is_full)
        return fail(err, STATUS_TOO_LARGE, "the grammar compiles to more than %u instructions or %d rules",
                    (unsigned)p->max_code, BYTE_PROGRAM_MAX_RULES);
    p->need = calloc(p->n_code, sizeof *p->need);
    if (p->need == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to compile a grammar");
    TRY(check_left_recursion(p, err));
    derive_need(p, max_depth);
    if (p->need[p->rules[0]] > max_depth)
        return fail(err, STATUS_BAD_REQUEST, "no finite text within a nesting depth of %u fits the grammar",
                    (unsigned)max_depth);
    derive_classes(p);
    return STATUS_OK;
}
