#include "base/utf8.h"
#include "model/jinja_builtins.h"
#include "model/jinja_run.h"
#include "model/jinja_text.h"

#include <string.h>
#include <utf8proc.h>

/* Every method has this shape; call->self is a STRING. */
#define METHOD(name)                                                                                \
    static enum status method_##name(struct jinja_run *run, const struct jinja_call *call,          \
                                     struct jinja_value *out)

static enum status strip(struct jinja_run *run, const struct jinja_call *call, enum jinja_side side,
                         struct jinja_value *out)
{
    struct jinja_value set = jinja_none();
    if (call->argv[0].type != JINJA_NONE)
        TRY(jinja_want_string(run, &call->argv[0], &set));
    return jinja_strip(run, call->self, set.type == JINJA_STRING ? &set : NULL, side, out);
}

METHOD(strip)
{
    return strip(run, call, JINJA_BOTH, out);
}

METHOD(lstrip)
{
    return strip(run, call, JINJA_LEFT, out);
}

METHOD(rstrip)
{
    return strip(run, call, JINJA_RIGHT, out);
}

static enum status map_case(struct jinja_run *run, const struct jinja_call *call, enum jinja_case to,
                            struct jinja_value *out)
{
    size_t mark = jinja_mark(run);
    TRY(jinja_write_case(run, &call->self, to));
    return jinja_capture(run, mark, out);
}

METHOD(lower)
{
    return map_case(run, call, JINJA_LOWER, out);
}

METHOD(upper)
{
    return map_case(run, call, JINJA_UPPER, out);
}

METHOD(title)
{
    return map_case(run, call, JINJA_TITLE, out);
}

METHOD(capitalize)
{
    return map_case(run, call, JINJA_CAPITAL, out);
}

/* Where needle begins in text[from..len), or len + 1. */
static size_t find(const struct jinja_value *text, size_t from, const struct jinja_value *needle)
{
    if (needle->len == 0)
        return from;
    if (from >= text->len)
        return text->len + 1;
    const char *at = memmem(text->text + from, text->len - from, needle->text, needle->len);
    return at == NULL ? text->len + 1 : (size_t)(at - text->text);
}

/* The last place where needle ends at or before `end`, as its beginning; len + 1
 * if there is none. */
static enum status find_last(struct jinja_run *run, const struct jinja_value *text, size_t end,
                             const struct jinja_value *needle, size_t *out)
{
    *out = text->len + 1;
    TRY(jinja_spell(run, end));
    for (size_t at = end + 1; at-- > 0;) {
        if (needle->len > end - at || (needle->len > 0 && text->text[at] != needle->text[0]))
            continue;
        TRY(jinja_scan(run, needle->len));
        if (memcmp(text->text + at, needle->text, needle->len) == 0) {
            *out = at;
            break;
        }
    }
    return STATUS_OK;
}

/* Searching text costs what reading it costs. */
static enum status needle_of(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *needle)
{
    *needle = jinja_cstring("");
    TRY(jinja_search(run, call->self.len));
    return jinja_want_string(run, &call->argv[0], needle);
}

static enum status find_part(struct jinja_run *run, const struct jinja_call *call, int last, int64_t *out)
{
    struct jinja_value needle, text = call->self;
    int64_t n = (int64_t)jinja_text_count(text.text, text.len), start = 0, stop = n;
    TRY(needle_of(run, call, &needle));
    TRY(jinja_spell(run, text.len));
    TRY(jinja_want_int(run, &call->argv[1], &start));
    TRY(jinja_want_int(run, &call->argv[2], &stop));
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start;
    stop = stop < 0 ? (stop + n < 0 ? 0 : stop + n) : stop > n ? n : stop;
    *out = -1;
    if (start > stop)
        return STATUS_OK;
    size_t from = jinja_text_offset(text.text, text.len, (size_t)start);
    text.len = jinja_text_offset(text.text, text.len, (size_t)stop);
    size_t at = find(&text, from, &needle);
    if (last)
        TRY(find_last(run, &text, text.len, &needle, &at));
    if (at >= from && at + needle.len <= text.len)
        *out = (int64_t)jinja_text_count(text.text, at);
    return STATUS_OK;
}

METHOD(find)
{
    int64_t place;
    TRY(find_part(run, call, 0, &place));
    *out = jinja_int(place);
    return STATUS_OK;
}

METHOD(rfind)
{
    int64_t place;
    TRY(find_part(run, call, 1, &place));
    *out = jinja_int(place);
    return STATUS_OK;
}

METHOD(index)
{
    int64_t place;
    TRY(find_part(run, call, 0, &place));
    *out = jinja_int(place);
    return place < 0 ? jinja_fail(run, "substring not found") : STATUS_OK;
}

METHOD(count)
{
    struct jinja_value needle;
    int64_t n = 0;
    TRY(needle_of(run, call, &needle));
    if (needle.len == 0)
        n = (int64_t)jinja_text_count(call->self.text, call->self.len) + 1;
    else
        for (size_t at = find(&call->self, 0, &needle); at < call->self.len;
             at = find(&call->self, at + needle.len, &needle))
            n++;
    *out = jinja_int(n);
    return STATUS_OK;
}

/* affix at the beginning (or end) of text; a tuple of them: any. */
static enum status has_affix(struct jinja_run *run, const struct jinja_value *text,
                             const struct jinja_value *affix,
                             int at_end, int *out)
{
    *out = 0;
    if (affix->type == JINJA_TUPLE) {
        for (size_t i = 0; i < affix->list->n && !*out; i++) {
            TRY(jinja_step(run, 1));
            if (affix->list->at[i].type != JINJA_STRING)
                return jinja_fail(run, "expected strings, got '%s'", jinja_type_name(&affix->list->at[i]));
            TRY(has_affix(run, text, &affix->list->at[i], at_end, out));
        }
        return STATUS_OK;
    }
    struct jinja_value wanted = jinja_cstring("");
    TRY(jinja_want_string(run, affix, &wanted));
    size_t from = at_end ? text->len - wanted.len : 0;
    TRY(jinja_scan(run, wanted.len));
    *out = wanted.len <= text->len && memcmp(text->text + from, wanted.text, wanted.len) == 0;
    return STATUS_OK;
}

METHOD(startswith)
{
    int found;
    TRY(has_affix(run, &call->self, &call->argv[0], 0, &found));
    *out = jinja_bool(found);
    return STATUS_OK;
}

METHOD(endswith)
{
    int found;
    TRY(has_affix(run, &call->self, &call->argv[0], 1, &found));
    *out = jinja_bool(found);
    return STATUS_OK;
}

METHOD(removeprefix)
{
    int found;
    TRY(has_affix(run, &call->self, &call->argv[0], 0, &found));
    size_t cut = found ? call->argv[0].len : 0;
    *out = jinja_string(call->self.text + cut, call->self.len - cut);
    return STATUS_OK;
}

METHOD(removesuffix)
{
    int found;
    TRY(has_affix(run, &call->self, &call->argv[0], 1, &found));
    *out = jinja_string(call->self.text, call->self.len - (found ? call->argv[0].len : 0));
    return STATUS_OK;
}

METHOD(replace)
{
    const struct jinja_value *text = &call->self, *old = &call->argv[0], *new = &call->argv[1];
    struct jinja_value checked;
    int64_t most = -1;
    size_t at = 0, mark = jinja_mark(run);
    TRY(jinja_want_string(run, old, &checked));
    TRY(jinja_want_string(run, new, &checked));
    TRY(jinja_want_int(run, &call->argv[2], &most));
    TRY(jinja_search(run, text->len));
    for (; most != 0; most--) {
        size_t found = find(text, at, old);
        if (found > text->len)
            break;
        TRY(jinja_step(run, 1));
        TRY(jinja_write(run, text->text + at, found - at));
        TRY(jinja_write(run, new->text, new->len));
        at = found + old->len;
        if (old->len > 0)
            continue;
        if (at >= text->len)            /* an empty text is found between all characters */
            break;
        size_t bytes = jinja_text_offset(text->text + at, text->len - at, 1);
        TRY(jinja_write(run, text->text + at, bytes));
        at += bytes;
    }
    TRY(jinja_write(run, text->text + at, text->len - at));
    return jinja_capture(run, mark, out);
}

/* Pieces between blanks; the last of at most `most` pieces is the whole rest. */
static enum status split_blanks(struct jinja_run *run, struct jinja_value text, int64_t most,
                                struct jinja_list *out)
{
    TRY(jinja_spell(run, text.len));
    for (; text = jinja_text_strip(text, NULL, JINJA_LEFT), text.len > 0; most--) {
        size_t end = 0;
        while (end < text.len) {
            size_t bytes;
            if (most != 0 && jinja_text_is_blank(jinja_text_char(text.text + end, text.len - end, &bytes)))
                break;
            end += most != 0 ? bytes : text.len - end;
        }
        TRY(jinja_list_push(run, out, jinja_string(text.text, end)));
        text.text += end;
        text.len -= end;
    }
    return STATUS_OK;
}

/* The separator, or NONE for blanks, and the number of cuts, -1 for all. */
static enum status split_arguments(struct jinja_run *run, const struct jinja_call *call,
                                   struct jinja_value *separator,
                                   int64_t *most)
{
    *separator = jinja_none();
    *most = -1;
    TRY(jinja_search(run, call->self.len));
    if (call->argv[0].type != JINJA_NONE)
        TRY(jinja_want_string(run, &call->argv[0], separator));
    TRY(jinja_want_int(run, &call->argv[1], most));
    if (separator->type == JINJA_STRING && separator->len == 0)
        return jinja_fail(run, "the separator of split() is empty");
    return STATUS_OK;
}

METHOD(split)
{
    struct jinja_value separator, text = call->self;
    int64_t most;
    TRY(split_arguments(run, call, &separator, &most));
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    if (separator.type == JINJA_NONE)
        return split_blanks(run, text, most, out->list);
    size_t at = 0;
    for (; most != 0; most--) {
        size_t found = find(&text, at, &separator);
        if (found > text.len)
            break;
        TRY(jinja_list_push(run, out->list, jinja_string(text.text + at, found - at)));
        at = found + separator.len;
    }
    return jinja_list_push(run, out->list, jinja_string(text.text + at, text.len - at));
}

METHOD(rsplit)
{
    struct jinja_value separator, text = call->self;
    int64_t most;
    TRY(split_arguments(run, call, &separator, &most));
    if (most < 0)
        return method_split(run, call, out);
    if (separator.type == JINJA_NONE)
        return jinja_fail(run, "rsplit() with a maximum needs a separator");
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    size_t end = text.len;
    for (; most != 0; most--) {
        size_t found;
        TRY(find_last(run, &text, end, &separator, &found));
        if (found > text.len)
            break;
        TRY(jinja_list_push(run, out->list,
                            jinja_string(text.text + found + separator.len, end - found - separator.len)));
        end = found;
    }
    TRY(jinja_list_push(run, out->list, jinja_string(text.text, end)));
    for (size_t i = 0, j = out->list->n - 1; i < j; i++, j--) {
        struct jinja_value swap = out->list->at[i];
        out->list->at[i] = out->list->at[j];
        out->list->at[j] = swap;
    }
    return STATUS_OK;
}

METHOD(splitlines)
{
    struct jinja_value text = call->self;
    int keep = jinja_truth(&call->argv[0]);
    TRY(jinja_spell(run, text.len));
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    for (size_t at = 0; at < text.len;) {
        size_t end = at, mark;
        while (end < text.len && text.text[end] != '\n' && text.text[end] != '\r')
            end++;
        mark = end + (end < text.len) + (end + 1 < text.len && text.text[end] == '\r' &&
                                         text.text[end + 1] == '\n');
        TRY(jinja_list_push(run, out->list, jinja_string(text.text + at, (keep ? mark : end) - at)));
        at = mark;
    }
    return STATUS_OK;
}

static enum status partition(struct jinja_run *run, const struct jinja_call *call, int last,
                             struct jinja_value *out)
{
    struct jinja_value needle, text = call->self;
    TRY(needle_of(run, call, &needle));
    if (needle.len == 0)
        return jinja_fail(run, "the separator of partition() is empty");
    size_t at = find(&text, 0, &needle);
    if (last)
        TRY(find_last(run, &text, text.len, &needle, &at));
    struct jinja_value parts[3] = { text, jinja_cstring(""), jinja_cstring("") };
    if (at <= text.len) {
        parts[0] = jinja_string(text.text, at);
        parts[1] = needle;
        parts[2] = jinja_string(text.text + at + needle.len, text.len - at - needle.len);
    } else if (last) {
        parts[0] = parts[1];
        parts[2] = text;
    }
    TRY(jinja_list_create(run, JINJA_TUPLE, 3, out));
    for (int i = 0; i < 3; i++)
        TRY(jinja_list_push(run, out->list, parts[i]));
    return STATUS_OK;
}

METHOD(partition)
{
    return partition(run, call, 0, out);
}

METHOD(rpartition)
{
    return partition(run, call, 1, out);
}

METHOD(join)
{
    struct jinja_list elements;
    size_t mark = jinja_mark(run);
    TRY(jinja_elements(run, &call->argv[0], &elements));
    for (size_t i = 0; i < elements.n; i++) {
        if (elements.at[i].type != JINJA_STRING)
            return jinja_fail(run, "join() needs strings, element %zu is '%s'", i,
                              jinja_type_name(&elements.at[i]));
        TRY(jinja_step(run, 1));
        if (i > 0)
            TRY(jinja_write(run, call->self.text, call->self.len));
        TRY(jinja_write(run, elements.at[i].text, elements.at[i].len));
    }
    return jinja_capture(run, mark, out);
}

/* The value a field {}, {0} or {name} of format() stands for. */
static enum status format_field(struct jinja_run *run, const struct jinja_arguments *all,
                                const struct jinja_value *field,
                                size_t *next)
{
    size_t place = 0;
    for (size_t i = 0; i < all->n_named; i++)
        if (jinja_is_text(field, all->names[i]))
            return jinja_write_str(run, &all->named[i]);
    for (size_t i = 0; i < field->len; i++) {
        if (field->text[i] < '0' || field->text[i] > '9' || i > 4)
            return jinja_fail(run, "format() has no value for the field '%.*s'",
                              (int)(field->len < 40 ? field->len : 40), field->text);
        place = place * 10 + (size_t)(field->text[i] - '0');
    }
    if (field->len == 0)
        place = (*next)++;
    if (place >= all->n)
        return jinja_fail(run, "format() was given %zu values, field %zu is wanted", all->n, place);
    return jinja_write_str(run, &all->positional[place]);
}

METHOD(format)
{
    const struct jinja_value *text = &call->self;
    size_t mark = jinja_mark(run), next = 0;
    TRY(jinja_spell(run, text->len));
    for (size_t at = 0; at < text->len; at++) {
        char c = text->text[at];
        int twice = at + 1 < text->len && text->text[at + 1] == c;
        TRY(jinja_step(run, c == '{'));
        if ((c == '{' || c == '}') && twice)
            at++;
        else if (c == '}')
            return jinja_fail(run, "format() has a single '}'");
        if (c != '{' || twice) {
            TRY(jinja_write(run, &c, 1));
            continue;
        }
        const char *end = memchr(text->text + at, '}', text->len - at);
        if (end == NULL)
            return jinja_fail(run, "format() has a '{' without '}'");
        size_t len = (size_t)(end - text->text) - at - 1;
        const struct jinja_value field = jinja_string(text->text + at + 1, len);
        TRY(format_field(run, call->all, &field, &next));
        at += len + 1;
    }
    return jinja_capture(run, mark, out);
}

/* Not empty, and every character is of one of the classes. */
enum class { DIGIT = 1, LETTER = 2, BLANK = 4, UPPER = 8, LOWER = 16 };

static int class_of(int32_t c)
{
    if (c < 0)
        return 0;
    int cased = utf8proc_toupper(c) != utf8proc_tolower(c);
    int classes = jinja_text_is_blank(c) ? BLANK : 0;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_ND: return classes | DIGIT;
    case UTF8PROC_CATEGORY_LU: return classes | LETTER | (cased ? UPPER : 0);
    case UTF8PROC_CATEGORY_LL: return classes | LETTER | (cased ? LOWER : 0);
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return classes | LETTER;
    default:                   return classes;
    }
}

static enum status all_of(struct jinja_run *run, const struct jinja_call *call, int classes,
                          struct jinja_value *out)
{
    const struct jinja_value *text = &call->self;
    int all = text->len > 0;
    TRY(jinja_spell(run, text->len));
    for (size_t at = 0, bytes; at < text->len && all; at += bytes)
        all = (class_of(jinja_text_char(text->text + at, text->len - at, &bytes)) & classes) != 0;
    *out = jinja_bool(all);
    return STATUS_OK;
}

METHOD(isdigit)
{
    return all_of(run, call, DIGIT, out);
}

METHOD(isalpha)
{
    return all_of(run, call, LETTER, out);
}

METHOD(isalnum)
{
    return all_of(run, call, LETTER | DIGIT, out);
}

METHOD(isspace)
{
    return all_of(run, call, BLANK, out);
}

/* Some letter is of the case, and none of the other. */
static enum status cased(struct jinja_run *run, const struct jinja_call *call, int wanted,
                         struct jinja_value *out)
{
    const struct jinja_value *text = &call->self;
    int seen = 0;
    TRY(jinja_spell(run, text->len));
    for (size_t at = 0, bytes; at < text->len; at += bytes)
        seen |= class_of(jinja_text_char(text->text + at, text->len - at, &bytes)) & (UPPER | LOWER);
    *out = jinja_bool(seen == wanted);
    return STATUS_OK;
}

METHOD(isupper)
{
    return cased(run, call, UPPER, out);
}

METHOD(islower)
{
    return cased(run, call, LOWER, out);
}

static const struct jinja_builtin rows[] = {
    { "capitalize", .run = method_capitalize },
    { "count", { "sub" }, .required = 1, .run = method_count },
    { "endswith", { "suffix" }, .required = 1, .run = method_endswith },
    { "find", { "sub", "start", "end" }, .required = 1, .run = method_find },
    { "format", .any = 1, .run = method_format },
    { "index", { "sub", "start", "end" }, .required = 1, .run = method_index },
    { "isalnum", .run = method_isalnum },
    { "isalpha", .run = method_isalpha },
    { "isdigit", .run = method_isdigit },
    { "islower", .run = method_islower },
    { "isspace", .run = method_isspace },
    { "isupper", .run = method_isupper },
    { "join", { "iterable" }, .required = 1, .run = method_join },
    { "lower", .run = method_lower },
    { "lstrip", { "chars" }, .run = method_lstrip },
    { "partition", { "sep" }, .required = 1, .run = method_partition },
    { "removeprefix", { "prefix" }, .required = 1, .run = method_removeprefix },
    { "removesuffix", { "suffix" }, .required = 1, .run = method_removesuffix },
    { "replace", { "old", "new", "count" }, .required = 2, .run = method_replace },
    { "rfind", { "sub", "start", "end" }, .required = 1, .run = method_rfind },
    { "rpartition", { "sep" }, .required = 1, .run = method_rpartition },
    { "rsplit", { "sep", "maxsplit" }, .run = method_rsplit },
    { "rstrip", { "chars" }, .run = method_rstrip },
    { "split", { "sep", "maxsplit" }, .run = method_split },
    { "splitlines", { "keepends" }, .run = method_splitlines },
    { "startswith", { "prefix" }, .required = 1, .run = method_startswith },
    { "strip", { "chars" }, .run = method_strip },
    { "title", .run = method_title },
    { "upper", .run = method_upper },
};

const struct jinja_builtin_table jinja_string_methods = { rows, sizeof rows / sizeof rows[0] };
