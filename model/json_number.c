#include "model/json_number.h"

#define MAX_INTEGER 999999999999999999      /* 18 digits */
#define MAX_WHOLE   999999999999999         /* 15 digits */
#define MAX_FRACTION_DIGITS 15

/* What is written: alternatives collected so far. */
struct writer {
    struct byte_program *program;
    uint32_t entry;
    int has_entry;
};

static void add_way(struct writer *w, uint32_t pc)
{
    w->entry = w->has_entry ? byte_program_split(w->program, pc, w->entry) : pc;
    w->has_entry = 1;
}

static uint32_t digit(struct writer *w, int64_t lo, int64_t hi, uint32_t next)
{
    return byte_program_range(w->program, (uint8_t)('0' + lo), (uint8_t)('0' + hi), next);
}

static uint32_t split(struct writer *w, uint32_t a, uint32_t b)
{
    return byte_program_split(w->program, a, b);
}

/* Exactly n digits, leading zeros included, with lo <= value <= hi < 10^n;
 * power is 10^(n - 1).  Where the first digit is that of a bound, the rest is
 * bounded too; in between it is free. */
static uint32_t fixed_digits(struct writer *w, int64_t lo, int64_t hi, int64_t power, uint32_t next)
{
    if (power == 0)
        return next;
    int64_t first = lo / power, last = hi / power;
    int64_t lo_rest = lo % power, hi_rest = hi % power;
    if (first == last)
        return digit(w, first, last, fixed_digits(w, lo_rest, hi_rest, power / 10, next));
    uint32_t pc = 0;
    int has_pc = 0;
    if (lo_rest > 0) {
        pc = digit(w, first, first, fixed_digits(w, lo_rest, power - 1, power / 10, next));
        has_pc = 1;
        first++;
    }
    if (hi_rest < power - 1) {
        uint32_t way = digit(w, last, last, fixed_digits(w, 0, hi_rest, power / 10, next));
        pc = has_pc ? split(w, way, pc) : way;
        has_pc = 1;
        last--;
    }
    if (first > last)
        return pc;
    uint32_t way = digit(w, first, last, fixed_digits(w, 0, power - 1, power / 10, next));
    return has_pc ? split(w, way, pc) : way;
}

/* Whole numbers 0 <= lo <= value <= hi without leading zeros, then next; each
 * is added as a way behind `prefix` ('-' or 0 for none). */
static void add_whole(struct writer *w, char prefix, int64_t lo, int64_t hi, uint32_t next)
{
    for (int64_t power = 1; power <= hi || power == 1; power *= 10) {
        int64_t least = power == 1 ? 0 : power, most = power * 10 - 1;
        least = lo > least ? lo : least;
        most = hi < most ? hi : most;
        if (least > most)
            continue;
        uint32_t pc = fixed_digits(w, least, most, power, next);
        add_way(w, prefix == 0 ? pc : byte_program_range(w->program, (uint8_t)prefix, (uint8_t)prefix, pc));
    }
}

/* Magnitudes lo..hi, 0 <= lo. */
struct magnitudes {
    int64_t lo, hi;
    int lo_excluded, hi_excluded;
};

/* At most n more digits, then next. */
static uint32_t up_to(struct writer *w, int n, int64_t highest, uint32_t next)
{
    uint32_t pc = next;
    for (int i = 0; i < n; i++)
        pc = split(w, digit(w, 0, highest, pc), next);
    return pc;
}

/* .ddd with up to 15 digits, not all of them 0, then next.  Written from the last
 * digit to the first; free_digits is what may follow a digit that is not 0. */
static uint32_t nonzero_fraction(struct writer *w, uint32_t next)
{
    uint32_t free_digits = next;
    uint32_t pc = digit(w, 1, 9, next);
    for (int i = 1; i < MAX_FRACTION_DIGITS; i++) {
        free_digits = split(w, digit(w, 0, 9, free_digits), next);
        pc = split(w, digit(w, 0, 0, pc), digit(w, 1, 9, free_digits));
    }
    return byte_program_range(w->program, '.', '.', pc);
}

/* An optional fraction whose digits are at most `highest` (0: only zeros). */
static uint32_t fraction(struct writer *w, int64_t highest, uint32_t next)
{
    uint32_t some = digit(w, 0, highest, up_to(w, MAX_FRACTION_DIGITS - 1, highest, next));
    return split(w, byte_program_range(w->program, '.', '.', some), next);
}

/* Numbers with a fraction: the whole part is lo (any fraction, or one that is not
 * 0), something in between (any fraction), or hi (only zeros behind the point). */
static void add_numbers(struct writer *w, char prefix, const struct magnitudes *m, uint32_t next)
{
    if (m->lo > m->hi || (m->lo == m->hi && (m->lo_excluded || m->hi_excluded)))
        return;
    int64_t lo = m->lo;
    if (m->lo_excluded) {
        add_whole(w, prefix, lo, lo, nonzero_fraction(w, next));
        lo++;
    }
    if (lo < m->hi)
        add_whole(w, prefix, lo, m->hi - 1, fraction(w, 9, next));
    if (!m->hi_excluded)
        add_whole(w, prefix, m->hi, m->hi, fraction(w, 0, next));
}

static void add_integers(struct writer *w, char prefix, const struct magnitudes *m, uint32_t next)
{
    int64_t lo = m->lo + m->lo_excluded, hi = m->hi - m->hi_excluded;
    if (lo <= hi)
        add_whole(w, prefix, lo, hi, next);
}

uint32_t json_number_emit(const struct json_number_range *range, struct byte_program *program, uint32_t next)
{
    struct writer w = { .program = program };
    int64_t most = range->is_integer ? MAX_INTEGER : MAX_WHOLE;
    int64_t min = range->min < -most ? -most : range->min;
    int64_t max = range->max > most ? most : range->max;
    void (*add)(struct writer *, char, const struct magnitudes *, uint32_t) =
        range->is_integer ? add_integers : add_numbers;
    if (min <= most && max >= 0) {
        struct magnitudes m = { .lo = min > 0 ? min : 0, .hi = max,
                                .lo_excluded = min >= 0 && range->min_excluded && range->min == min,
                                .hi_excluded = range->max_excluded && range->max == max };
        add(&w, 0, &m, next);
    }
    if (min < 0 && max >= -most) {
        /* Zero is written without a sign, so the magnitude 0 is left out here. */
        struct magnitudes m = { .lo = max < 0 ? -max : 0, .hi = -min,
                                .lo_excluded = max >= 0 || (range->max_excluded && range->max == max),
                                .hi_excluded = range->min_excluded && range->min == min };
        add(&w, '-', &m, next);
    }
    return w.has_entry ? w.entry : byte_program_fail(program);
}
