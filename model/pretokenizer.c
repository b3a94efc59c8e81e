#include "model/pretokenizer.h"

#include "model/byte_level.h"
#include "model/text_rule.h"
#include "model/tokenizer_spec.h"

#include <stdlib.h>
#include <string.h>

/* The pattern ByteLevel cuts with if use_regex is set: GPT-2's. */
static const char byte_level_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define MAX_REPLACEMENT_BYTES 4     /* a Metaspace replacement is one character */

enum kind { CUT_BY_PATTERN, CUT_BY_CLASS, MAP_BYTES, METASPACE };
enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct step {
    enum kind kind;
    struct pattern *pattern;        /* CUT_BY_PATTERN */
    int (*is_member)(int c);        /* CUT_BY_CLASS */
    enum cut_behavior behavior;     /* both */
    int invert;
    enum prepend prepend;           /* METASPACE, MAP_BYTES: a space (or its replacement) before the piece */
    char replacement[MAX_REPLACEMENT_BYTES + 1];    /* METASPACE */
    int split;                      /* METASPACE: a new piece at each replacement */
};

struct pretokenizer {
    struct step steps[TOKENIZER_MAX_STEPS + 2];     /* a ByteLevel is up to three */
    int n_steps;
    int maps_bytes;                 /* the last step is MAP_BYTES */
};

/* ---- reading ---- */

static enum status read_behavior(const struct json_reader *r, enum cut_behavior *out, struct error *err)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous" };
    const char *name = NULL;
    size_t len = 0;
    TRY(json_read_string(r, "behavior", &name, &len, err));
    if (name == NULL)
        return STATUS_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum cut_behavior)i;
            return STATUS_OK;
        }
    }
    return fail(err, STATUS_BAD_MODEL, "%.200s: the behavior '%.40s' is not known", r->where, name);
}

static enum status add_split(struct step *s, const struct json_reader *r, struct error *err)
{
    s->kind = CUT_BY_PATTERN;
    s->behavior = CUT_REMOVED;
    TRY(read_behavior(r, &s->behavior, err));
    TRY(json_read_bool(r, "invert", &s->invert, err));
    return pattern_create_from_json(&s->pattern, json_read_any(r, "pattern"), r->where, err);
}

static enum status add_class(struct step *s, int (*is_member)(int), enum cut_behavior behavior)
{
    *s = (struct step){ .kind = CUT_BY_CLASS, .is_member = is_member, .behavior = behavior };
    return STATUS_OK;
}

static enum status add_digits(struct step *s, const struct json_reader *r, struct error *err)
{
    int one_by_one = 0;
    TRY(json_read_bool(r, "individual_digits", &one_by_one, err));
    return add_class(s, text_rule_is_numeric, one_by_one ? CUT_ISOLATED : CUT_CONTIGUOUS);
}

static enum status add_punctuation(struct step *s, const struct json_reader *r, struct error *err)
{
    TRY(add_class(s, text_rule_is_punctuation, CUT_ISOLATED));
    return read_behavior(r, &s->behavior, err);
}

/* Up to three steps.  The space comes before the cut, so it is a step of its
 * own: a Metaspace whose replacement is the space. */
static enum status add_byte_level(struct pretokenizer *p, const struct json_reader *r, struct error *err)
{
    int add_space = 1, use_regex = 1;
    TRY(json_read_bool(r, "add_prefix_space", &add_space, err));
    TRY(json_read_bool(r, "use_regex", &use_regex, err));
    if (add_space)
        p->steps[p->n_steps++] = (struct step){ .kind = METASPACE, .replacement = " ",
                                                .prepend = PREPEND_ALWAYS };
    if (use_regex) {
        struct step *s = &p->steps[p->n_steps++];
        *s = (struct step){ .kind = CUT_BY_PATTERN, .behavior = CUT_ISOLATED };
        TRY(pattern_create(&s->pattern, byte_level_regex, strlen(byte_level_regex), r->where, err));
    }
    p->steps[p->n_steps++].kind = MAP_BYTES;
    p->maps_bytes = 1;
    return STATUS_OK;
}

/* Files of two generations: "prepend_scheme", or only "add_prefix_space". */
static enum status read_prepend(const struct json_reader *r, enum prepend *out, struct error *err)
{
    int add_space = 1;
    TRY(json_read_bool(r, "add_prefix_space", &add_space, err));
    *out = add_space ? PREPEND_ALWAYS : PREPEND_NEVER;
    const char *scheme = NULL;
    size_t len = 0;
    TRY(json_read_string(r, "prepend_scheme", &scheme, &len, err));
    if (scheme == NULL)
        return STATUS_OK;
    if (strcmp(scheme, "always") == 0)
        *out = PREPEND_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        *out = PREPEND_FIRST;
    else if (strcmp(scheme, "never") == 0)
        *out = PREPEND_NEVER;
    else
        return fail(err, STATUS_BAD_MODEL, "%.200s: the prepend_scheme '%.40s' is not known", r->where,
                    scheme);
    return STATUS_OK;
}

static enum status add_metaspace(struct step *s, const struct json_reader *r, struct error *err)
{
    const char *text;
    size_t len, step;
    *s = (struct step){ .kind = METASPACE, .split = 1 };
    TRY(tokenizer_spec_text(r, "replacement", &text, &len, err));
    if (len > 0)
        text_rule_char(text, len, &step);
    if (len == 0 || len != step || len > MAX_REPLACEMENT_BYTES)
        return fail(err, STATUS_BAD_MODEL, "%.200s: the replacement must be one character", r->where);
    memcpy(s->replacement, text, len);
    TRY(json_read_bool(r, "split", &s->split, err));
    return read_prepend(r, &s->prepend, err);
}

static enum status add_step(void *part, const struct json_reader *r, const char *type, struct error *err)
{
    struct pretokenizer *p = part;
    if (p->maps_bytes)
        return fail(err, STATUS_UNSUPPORTED, "%.200s: a step follows a ByteLevel, which must be the last",
                    r->where);
    if (strcmp(type, "ByteLevel") == 0)
        return add_byte_level(p, r, err);
    struct step *s = &p->steps[p->n_steps++];
    if (strcmp(type, "Split") == 0)
        return add_split(s, r, err);
    if (strcmp(type, "Digits") == 0)
        return add_digits(s, r, err);
    if (strcmp(type, "Punctuation") == 0)
        return add_punctuation(s, r, err);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_class(s, text_rule_is_space, CUT_REMOVED);
    if (strcmp(type, "Metaspace") == 0)
        return add_metaspace(s, r, err);
    return tokenizer_spec_unknown(r, type, err);
}

enum status pretokenizer_create(struct pretokenizer **out, const json_t *section, const char *where,
                                struct error *err)
{
    struct pretokenizer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a pretokenizer");
    const struct tokenizer_spec spec = { .where = where, .list = "pretokenizers", .add = add_step,
                                         .part = p };
    enum status s = tokenizer_spec_walk(&spec, section, err);
    if (s != STATUS_OK) {
        pretokenizer_destroy(p);
        return s;
    }
    *out = p;
    return STATUS_OK;
}

void pretokenizer_destroy(struct pretokenizer *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_steps; i++)
        pattern_destroy(p->steps[i].pattern);
    free(p);
}

int pretokenizer_is_byte_level(const struct pretokenizer *p)
{
    return p->maps_bytes;
}

/* ---- running ---- */

void pretokens_init(struct pretokens *t, size_t max_bytes)
{
    *t = (struct pretokens){ 0 };
    buf_init(&t->text, max_bytes);
    buf_init(&t->old_text, max_bytes);
}

void pretokens_clear(struct pretokens *t)
{
    buf_clear(&t->text);
    buf_clear(&t->old_text);
    piece_list_clear(&t->pieces);
    piece_list_clear(&t->old_pieces);
}

/* The search sees the piece alone: look-behind and $ end at its edges. */
static enum status cut_by_pattern(struct cutter *c, const struct pattern *pattern,
                                  struct pattern_scratch *scratch,
                                  const char *whole, struct piece piece)
{
    const char *text = whole + piece.begin;
    size_t len = piece.end - piece.begin, done = 0, from = 0, last_end = SIZE_MAX;
    while (from <= len) {
        struct pattern_match match;
        int found;
        TRY(pattern_find(pattern, scratch, text, len, from, &match, &found));
        if (!found)
            break;
        if (match.begin == match.end) {
            /* An empty match cuts, but not where a match has just ended. */
            size_t step = 1;
            if (match.end < len)
                text_rule_char(text + match.end, len - match.end, &step);
            from = match.end + step;
            if (match.end == last_end)
                continue;
        } else {
            from = match.end;
        }
        TRY(cutter_add(c, piece.begin + done, piece.begin + match.begin, 0));
        TRY(cutter_add(c, piece.begin + match.begin, piece.begin + match.end, 1));
        done = last_end = match.end;
    }
    return cutter_add(c, piece.begin + done, piece.end, 0);
}

static enum status cut_by_class(struct cutter *c, int (*is_member)(int), const char *whole,
                                struct piece piece)
{
    size_t done = piece.begin;
    for (size_t i = piece.begin, step; i < piece.end; i += step) {
        if (!is_member(text_rule_char(whole + i, piece.end - i, &step)))
            continue;
        TRY(cutter_add(c, done, i, 0));
        TRY(cutter_add(c, i, i + step, 1));
        done = i + step;
    }
    return cutter_add(c, done, piece.end, 0);
}

/* The text stays; only its pieces change. */
static enum status run_cut(const struct step *s, struct pattern_scratch *scratch, struct pretokens *t)
{
    for (size_t i = 0; i < t->old_pieces.n; i++) {
        struct cutter c;
        cutter_init(&c, &t->pieces, s->behavior, s->invert);
        if (s->kind == CUT_BY_PATTERN)
            TRY(cut_by_pattern(&c, s->pattern, scratch, t->text.data, t->old_pieces.at[i]));
        else
            TRY(cut_by_class(&c, s->is_member, t->text.data, t->old_pieces.at[i]));
        TRY(cutter_finish(&c));
    }
    return STATUS_OK;
}

static enum status map_bytes(struct pretokens *t)
{
    for (size_t i = 0; i < t->old_pieces.n; i++) {
        struct piece old = t->old_pieces.at[i];
        size_t begin = t->text.len;
        TRY(byte_level_map(&t->text, t->old_text.data + old.begin, old.end - old.begin));
        TRY(piece_list_push(&t->pieces, begin, t->text.len));
    }
    return STATUS_OK;
}

/* One piece with every space replaced, and one more at its front if asked for. */
static enum status metaspace_piece(const struct step *s, const char *text, size_t len, int prepend,
                                   struct pretokens *t)
{
    size_t n = strlen(s->replacement), begin = t->text.len;
    if (prepend && text[0] != ' ' && (len < n || memcmp(text, s->replacement, n) != 0))
        TRY(buf_add(&t->text, s->replacement, n));
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ')
            TRY(buf_add(&t->text, s->replacement, n));
        else
            TRY(buf_add_char(&t->text, text[i]));
    }
    if (!s->split)
        return piece_list_push(&t->pieces, begin, t->text.len);
    size_t done = begin;
    for (size_t i = begin + 1; i + n <= t->text.len; i++) {
        if (memcmp(t->text.data + i, s->replacement, n) == 0) {
            TRY(piece_list_push(&t->pieces, done, i));
            done = i;
        }
    }
    return piece_list_push(&t->pieces, done, t->text.len);
}

static enum status run_metaspace(const struct step *s, const struct pretokenizer_input *input,
                                 struct pretokens *t)
{
    for (size_t i = 0; i < t->old_pieces.n; i++) {
        struct piece old = t->old_pieces.at[i];
        int at_start = old.begin == 0 && input->joined;
        int prepend = !at_start && (s->prepend == PREPEND_ALWAYS ||
                                    (s->prepend == PREPEND_FIRST && input->is_first && old.begin == 0));
        TRY(metaspace_piece(s, t->old_text.data + old.begin, old.end - old.begin, prepend, t));
    }
    return STATUS_OK;
}

static enum status run_step(const struct step *s, const struct pretokenizer_input *input,
                            struct pattern_scratch *scratch, struct pretokens *t)
{
    struct piece_list pieces = t->pieces;
    t->pieces = t->old_pieces;
    t->old_pieces = pieces;
    t->pieces.n = 0;
    if (s->kind == CUT_BY_PATTERN || s->kind == CUT_BY_CLASS)
        return run_cut(s, scratch, t);
    struct buf text = t->text;
    t->text = t->old_text;
    t->old_text = text;
    buf_reset(&t->text);
    return s->kind == MAP_BYTES ? map_bytes(t) : run_metaspace(s, input, t);
}

enum status pretokenizer_run(const struct pretokenizer *p, const struct pretokenizer_input *input,
                             struct pattern_scratch *scratch, struct pretokens *t)
{
    buf_reset(&t->text);
    t->pieces.n = 0;
    if (input->len == 0)
        return STATUS_OK;
    TRY(buf_add(&t->text, input->text, input->len));
    TRY(piece_list_push(&t->pieces, 0, input->len));
    for (int i = 0; i < p->n_steps; i++)
        TRY(run_step(&p->steps[i], input, scratch, t));
    return STATUS_OK;
}
