#include "model/json_rules.h"

#include "model/char_class.h"

#define MAX_INDENT 32

void json_rules_init(struct json_rules *r, struct byte_program *program)
{
    *r = (struct json_rules){ .program = program };
}

static uint32_t range(struct json_rules *r, char lo, char hi, uint32_t next)
{
    return byte_program_range(r->program, (uint8_t)lo, (uint8_t)hi, next);
}

static uint32_t byte(struct json_rules *r, char c, uint32_t next)
{
    return range(r, c, c, next);
}

static uint32_t split(struct json_rules *r, uint32_t a, uint32_t b)
{
    return byte_program_split(r->program, a, b);
}

static uint32_t end_of_rule(struct json_rules *r)
{
    return byte_program_return(r->program);
}

/* A new rule with this entry. */
static uint32_t rule_of(struct json_rules *r, uint32_t entry)
{
    uint32_t rule = byte_program_rule_new(r->program);
    byte_program_rule_set(r->program, rule, entry);
    return rule;
}

/* One of the bytes in `bytes`, as ranges "az09". */
static uint32_t one_of(struct json_rules *r, const char *ranges, uint32_t next)
{
    uint32_t pc = range(r, ranges[0], ranges[1], next);
    for (ranges += 2; *ranges != '\0'; ranges += 2)
        pc = split(r, range(r, ranges[0], ranges[1], next), pc);
    return pc;
}

/* min to max digits. */
static uint32_t digits(struct json_rules *r, int min, int max, uint32_t next)
{
    uint32_t pc = next;
    for (int i = min; i < max; i++)
        pc = split(r, range(r, '0', '9', pc), next);
    for (int i = 0; i < min; i++)
        pc = range(r, '0', '9', pc);
    return pc;
}

/* ---- space ---- */

uint32_t json_rules_space(struct json_rules *r, uint32_t next)
{
    if (r->space == 0) {
        uint32_t end = end_of_rule(r);
        uint32_t indent = end;
        for (int i = 0; i < MAX_INDENT; i++)
            indent = split(r, byte(r, ' ', indent), end);
        uint32_t entry = split(r, byte(r, ' ', end), split(r, byte(r, '\n', indent), end));
        r->space = rule_of(r, entry);
    }
    return byte_program_call(r->program, r->space, next);
}

/* ---- strings ---- */

#define HEX "09afAF"

static uint32_t hex_digits(struct json_rules *r, int n, uint32_t next)
{
    for (int i = 0; i < n; i++)
        next = one_of(r, HEX, next);
    return next;
}

/* The four digits behind \u of a character that is not a surrogate and not 0. */
static uint32_t plain_code(struct json_rules *r, uint32_t next)
{
    uint32_t last = one_of(r, "19afAF", next);
    uint32_t last_two = split(r, byte(r, '0', last), one_of(r, "19afAF", hex_digits(r, 1, next)));
    uint32_t last_three = split(r, byte(r, '0', last_two), one_of(r, "19afAF", hex_digits(r, 2, next)));
    uint32_t zero = byte(r, '0', last_three);
    uint32_t below_d800 = one_of(r, "ddDD", range(r, '0', '7', hex_digits(r, 2, next)));
    uint32_t others = one_of(r, "19acACefEF", hex_digits(r, 3, next));
    return split(r, zero, split(r, below_d800, others));
}

/* "d83d\ude00": what follows the first \u of a surrogate pair. */
static uint32_t pair_code(struct json_rules *r, uint32_t next)
{
    uint32_t low = one_of(r, "ddDD", one_of(r, "cfCF", hex_digits(r, 2, next)));
    uint32_t second = byte_program_literal(r->program, "\\u", 2, low);
    return one_of(r, "ddDD", one_of(r, "89abAB", hex_digits(r, 2, second)));
}

uint32_t json_rules_character(struct json_rules *r, uint32_t next)
{
    static const struct char_class raw = {
        .n = 3, .ranges = { { 0x20, 0x21 }, { 0x23, 0x5b }, { 0x5d, CHAR_MAX } } };
    if (r->character == 0) {
        uint32_t end = end_of_rule(r);
        uint32_t code = byte(r, 'u', split(r, plain_code(r, end), pair_code(r, end)));
        uint32_t name = one_of(r, "\"\"\\\\//bbffnnrrtt", end);
        uint32_t escaped = byte(r, '\\', split(r, name, code));
        uint32_t plain = char_class_emit(&raw, CHARS_UTF8, r->program, end);
        r->character = rule_of(r, split(r, plain, escaped));
    }
    return byte_program_call(r->program, r->character, next);
}

uint32_t json_rules_string(struct json_rules *r, int64_t min, int64_t max, uint32_t next)
{
    if (max != JSON_UNBOUNDED && max < min)
        return byte_program_fail(r->program);
    uint32_t close = byte(r, '"', next), pc = close;
    if (max == JSON_UNBOUNDED) {
        pc = byte_program_loop_begin(r->program);
        byte_program_loop_end(r->program, pc, json_rules_character(r, pc), close);
    } else {
        for (int64_t i = min; i < max && !r->program->is_full; i++)
            pc = split(r, json_rules_character(r, pc), close);
    }
    for (int64_t i = 0; i < min && !r->program->is_full; i++)
        pc = json_rules_character(r, pc);
    return byte(r, '"', pc);
}

/* ---- numbers ---- */

uint32_t json_rules_integer(struct json_rules *r, uint32_t next)
{
    if (r->integer == 0) {
        uint32_t end = end_of_rule(r);
        uint32_t not_zero = range(r, '1', '9', digits(r, 0, 17, end));
        r->integer = rule_of(r, split(r, byte(r, '0', end), split(r, byte(r, '-', not_zero), not_zero)));
    }
    return byte_program_call(r->program, r->integer, next);
}

uint32_t json_rules_number(struct json_rules *r, uint32_t next)
{
    if (r->number == 0) {
        uint32_t end = end_of_rule(r);
        uint32_t power = digits(r, 1, 2, end);
        uint32_t exponent = one_of(r, "eeEE", split(r, one_of(r, "++--", power), power));
        uint32_t after = split(r, exponent, end);
        uint32_t fraction = split(r, byte(r, '.', digits(r, 1, 15, after)), after);
        uint32_t whole = split(r, byte(r, '0', fraction), range(r, '1', '9', digits(r, 0, 14, fraction)));
        r->number = rule_of(r, split(r, byte(r, '-', whole), whole));
    }
    return byte_program_call(r->program, r->number, next);
}

/* ---- lists and values ---- */

uint32_t json_rules_comma(struct json_rules *r, uint32_t next)
{
    return byte(r, ',', json_rules_space(r, next));
}

uint32_t json_rules_open(struct json_rules *r, char bracket, uint32_t inner)
{
    return byte(r, bracket, json_rules_space(r, inner));
}

uint32_t json_rules_list(struct json_rules *r, uint32_t element, int64_t min, int64_t max, uint32_t close)
{
    struct byte_program *p = r->program;
    if (max == 0 && min == 0)
        return close;
    if (max != JSON_UNBOUNDED && max < min)
        return byte_program_fail(p);
    /* pc: what may follow after k elements; k counts down to 1. */
    int64_t k = max;
    uint32_t pc = close;
    if (max == JSON_UNBOUNDED) {
        pc = byte_program_loop_begin(p);
        byte_program_loop_end(p, pc, json_rules_comma(r, byte_program_call(p, element, pc)), close);
        k = min > 1 ? min : 1;
    }
    for (k--; k > 0 && !p->is_full; k--) {
        pc = json_rules_comma(r, byte_program_call(p, element, pc));
        if (k >= min)
            pc = split(r, pc, close);
    }
    pc = byte_program_call(p, element, pc);
    return min == 0 ? split(r, pc, close) : pc;
}

/* A member of any object: "key": value, and the space behind it. */
static uint32_t any_member(struct json_rules *r)
{
    uint32_t value = json_rules_value(r, json_rules_space(r, end_of_rule(r)));
    uint32_t colon = json_rules_space(r, byte(r, ':', json_rules_space(r, value)));
    return rule_of(r, json_rules_string(r, 0, JSON_UNBOUNDED, colon));
}

uint32_t json_rules_object(struct json_rules *r, uint32_t next)
{
    uint32_t close = byte(r, '}', next);
    return json_rules_open(r, '{', json_rules_list(r, any_member(r), 0, JSON_UNBOUNDED, close));
}

static uint32_t any_array(struct json_rules *r, uint32_t next)
{
    uint32_t element = rule_of(r, json_rules_value(r, json_rules_space(r, end_of_rule(r))));
    return json_rules_open(r, '[', json_rules_list(r, element, 0, JSON_UNBOUNDED, byte(r, ']', next)));
}

uint32_t json_rules_value(struct json_rules *r, uint32_t next)
{
    /* A full program hands out no rule, and this would call itself for ever. */
    if (r->program->is_full || r->program->out_of_memory)
        return 0;
    if (r->value == 0) {
        /* Known before it is written, since its members and elements call it. */
        r->value = byte_program_rule_new(r->program);
        uint32_t end = end_of_rule(r);
        uint32_t word = byte_program_literal(r->program, "null", 4, end);
        word = split(r, byte_program_literal(r->program, "false", 5, end), word);
        word = split(r, byte_program_literal(r->program, "true", 4, end), word);
        uint32_t scalar = split(r, json_rules_number(r, end), word);
        scalar = split(r, json_rules_string(r, 0, JSON_UNBOUNDED, end), scalar);
        uint32_t nested = split(r, json_rules_object(r, end), any_array(r, end));
        byte_program_rule_set(r->program, r->value, split(r, scalar, nested));
    }
    return byte_program_call(r->program, r->value, next);
}
