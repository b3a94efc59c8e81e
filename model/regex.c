#include "model/regex.h"

#include "model/regex_parse.h"

struct emitter {
    const struct regex_tree *tree;
    const struct regex_source *source;
    struct byte_program *program;
};

static uint32_t emit_node(struct emitter *e, uint32_t index, uint32_t next);

static uint32_t emit_class(struct emitter *e, const struct regex_node *node, uint32_t next)
{
    struct char_class c = { .n = 0 };
    for (; c.n < node->n_ranges; c.n++)
        c.ranges[c.n] = e->tree->ranges[node->first_range + (uint32_t)c.n];
    return char_class_emit(&c, e->source->spelling, e->program, next);
}

/* A single byte is cheaper to write again than to call. */
static int is_one_byte(const struct emitter *e, const struct regex_node *node)
{
    if (node->kind != REGEX_CLASS || node->n_ranges != 1)
        return 0;
    struct char_range r = e->tree->ranges[node->first_range];
    return r.lo >= 0x20 && r.hi < 0x80 && e->source->spelling == CHARS_UTF8;
}

/* What is repeated a counted number of times becomes a rule, written once. */
struct repeated {
    uint32_t node;
    uint32_t rule;
    int is_inline;
};

static struct repeated prepare_repeated(struct emitter *e, const struct regex_node *node)
{
    struct repeated r = { .node = node->last_child };
    int n_copies = node->max == REGEX_UNBOUNDED ? node->min : node->max;
    r.is_inline = n_copies <= 1 || is_one_byte(e, &e->tree->nodes[r.node]);
    if (!r.is_inline) {
        r.rule = byte_program_rule_new(e->program);
        byte_program_rule_set(e->program, r.rule, emit_node(e, r.node, byte_program_return(e->program)));
    }
    return r;
}

static uint32_t emit_repeated(struct emitter *e, const struct repeated *r, uint32_t next)
{
    return r->is_inline ? emit_node(e, r->node, next) : byte_program_call(e->program, r->rule, next);
}

/* x{2,4} is x x (x (x)?)?.  x* is a loop entered at its choice "once more or go
 * on", x+ the same loop entered at x, and x{3,} is x x in front of x+. */
static uint32_t emit_repeat(struct emitter *e, const struct regex_node *node, uint32_t next)
{
    struct repeated r = prepare_repeated(e, node);
    int32_t n_before = node->min;
    uint32_t pc = next;
    if (node->max == REGEX_UNBOUNDED) {
        uint32_t loop = byte_program_loop_begin(e->program);
        uint32_t body = emit_repeated(e, &r, loop);
        byte_program_loop_end(e->program, loop, body, next);
        pc = node->min > 0 ? body : loop;
        n_before = node->min > 0 ? node->min - 1 : 0;
    } else {
        for (int32_t i = node->min; i < node->max; i++)
            pc = byte_program_split(e->program, emit_repeated(e, &r, pc), next);
    }
    for (int32_t i = 0; i < n_before; i++)
        pc = emit_repeated(e, &r, pc);
    return pc;
}

static uint32_t emit_cat(struct emitter *e, const struct regex_node *node, uint32_t next)
{
    for (uint32_t k = node->last_child; k != REGEX_NO_NODE; k = e->tree->nodes[k].previous)
        next = emit_node(e, k, next);
    return next;
}

static uint32_t emit_alt(struct emitter *e, const struct regex_node *node, uint32_t next)
{
    uint32_t k = node->last_child;
    uint32_t pc = emit_node(e, k, next);
    while ((k = e->tree->nodes[k].previous) != REGEX_NO_NODE)
        pc = byte_program_split(e->program, emit_node(e, k, next), pc);
    return pc;
}

static uint32_t emit_node(struct emitter *e, uint32_t index, uint32_t next)
{
    const struct regex_node *node = &e->tree->nodes[index];
    switch (node->kind) {
    case REGEX_CLASS:  return emit_class(e, node, next);
    case REGEX_CAT:    return emit_cat(e, node, next);
    case REGEX_ALT:    return emit_alt(e, node, next);
    case REGEX_REPEAT: return emit_repeat(e, node, next);
    case REGEX_BEGIN:
    case REGEX_END:    break;
    }
    return next;        /* an anchor takes no text */
}

/* Any text at all, then next. */
static uint32_t emit_anything(struct emitter *e, uint32_t next)
{
    struct char_class all = { .n = 1, .ranges = { { 0, CHAR_MAX } } };
    uint32_t loop = byte_program_loop_begin(e->program);
    uint32_t body = char_class_emit(&all, e->source->spelling, e->program, loop);
    byte_program_loop_end(e->program, loop, body, next);
    return loop;
}

/* Whether an outermost alternative has ^ first and $ last. */
static void find_anchors(const struct regex_tree *tree, const struct regex_node *cat, int *begins, int *ends)
{
    *begins = *ends = 0;
    for (uint32_t k = cat->last_child; k != REGEX_NO_NODE; k = tree->nodes[k].previous) {
        *begins |= tree->nodes[k].kind == REGEX_BEGIN;
        *ends |= tree->nodes[k].kind == REGEX_END;
    }
}

/* The pattern anywhere in the text: each outermost alternative without ^ may have
 * anything before it, each without $ anything behind it. */
static uint32_t emit_search(struct emitter *e, uint32_t next)
{
    const struct regex_node *root = &e->tree->nodes[e->tree->root];
    uint32_t pc = 0;
    int has_pc = 0;
    for (uint32_t k = root->last_child; k != REGEX_NO_NODE; k = e->tree->nodes[k].previous) {
        int begins, ends;
        find_anchors(e->tree, &e->tree->nodes[k], &begins, &ends);
        uint32_t way = ends ? next : emit_anything(e, next);
        way = emit_node(e, k, way);
        way = begins ? way : emit_anything(e, way);
        pc = has_pc ? byte_program_split(e->program, way, pc) : way;
        has_pc = 1;
    }
    return pc;
}

enum status regex_emit(const struct regex_source *source, struct byte_program *program,
                       uint32_t next, uint32_t *entry, struct error *err)
{
    struct regex_tree tree;
    enum status status = regex_parse(source->pattern, source->len, &tree, err);
    if (status == STATUS_OK) {
        struct emitter e = { .tree = &tree, .source = source, .program = program };
        *entry = source->is_search ? emit_search(&e, next) : emit_node(&e, tree.root, next);
    }
    regex_tree_clear(&tree);
    return status;
}
