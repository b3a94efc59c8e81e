#include "model/jinja_lex.h"

#include <stdlib.h>
#include <string.h>

struct lexer {
    const char *text;       /* [len] */
    size_t len;
    size_t at;              /* first byte not yet consumed */
    size_t counted;         /* newlines before this byte are in line */
    uint32_t line;
    struct jinja_tokens *tokens;
    struct error *err;
};

size_t jinja_lex_normalise(char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r') {
            text[n++] = '\n';
            if (i + 1 < len && text[i + 1] == '\n')
                i++;
        } else {
            text[n++] = text[i];
        }
    }
    return n > 0 && text[n - 1] == '\n' ? n - 1 : n;
}

void jinja_tokens_clear(struct jinja_tokens *tokens)
{
    free(tokens->at);
    *tokens = (struct jinja_tokens){ 0 };
}

static int is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of a character past ASCII count as letters, as in Python's names. */
static int starts_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* The line of byte `at`; only ever asked for growing `at`. */
static uint32_t line_of(struct lexer *lexer, size_t at)
{
    for (; lexer->counted < at; lexer->counted++)
        lexer->line += lexer->text[lexer->counted] == '\n';
    return lexer->line;
}

static enum status lex_fail(struct lexer *lexer, const char *what)
{
    return fail(lexer->err, STATUS_BAD_MODEL, "chat template, line %u: %s",
                line_of(lexer, lexer->at), what);
}

static enum status push(struct lexer *lexer, struct jinja_token token)
{
    struct jinja_tokens *tokens = lexer->tokens;
    if (tokens->n == tokens->capacity) {
        size_t capacity = tokens->capacity == 0 ? 256 : tokens->capacity * 2;
        struct jinja_token *at = realloc(tokens->at, capacity * sizeof *at);
        if (at == NULL)
            return fail(lexer->err, STATUS_NO_MEMORY, "no memory for %zu template tokens", capacity);
        tokens->at = at;
        tokens->capacity = capacity;
    }
    tokens->at[tokens->n++] = token;
    return STATUS_OK;
}

/* A token of the next len bytes, which are consumed. */
static enum status take(struct lexer *lexer, enum jinja_token_kind kind, size_t len)
{
    struct jinja_token token = {
        .kind = kind, .line = line_of(lexer, lexer->at), .text = lexer->text + lexer->at, .len = len,
    };
    lexer->at += len;
    return push(lexer, token);
}

static int looking_at(const struct lexer *lexer, size_t at, const char *what)
{
    size_t n = strlen(what);
    return n <= lexer->len - at && memcmp(lexer->text + at, what, n) == 0;
}

static size_t skip_blanks(const struct lexer *lexer, size_t at)
{
    while (at < lexer->len && is_blank(lexer->text[at]))
        at++;
    return at;
}

/* If a closing delimiter stands at `at`, the first byte after it and after what
 * it swallows; 0 if there is none.  trims: it drops one newline (blocks and
 * comments do, prints do not; the same ones may be written "+%}"). */
static size_t closing(const struct lexer *lexer, size_t at, const char *mark, int trims)
{
    if (at < lexer->len && lexer->text[at] == '-' && looking_at(lexer, at + 1, mark))
        return skip_blanks(lexer, at + 3);
    if (trims && at < lexer->len && lexer->text[at] == '+' && looking_at(lexer, at + 1, mark))
        return at + 3;
    if (!looking_at(lexer, at, mark))
        return 0;
    at += 2;
    return trims && at < lexer->len && lexer->text[at] == '\n' ? at + 1 : at;
}

/* If {% word %} stands at `at` with any sign and blanks, the place after the
 * word and blanks; 0 otherwise. */
static size_t block_of_word(const struct lexer *lexer, size_t at, const char *word)
{
    if (!looking_at(lexer, at, "{%"))
        return 0;
    at += 2;
    if (at < lexer->len && (lexer->text[at] == '-' || lexer->text[at] == '+'))
        at++;
    at = skip_blanks(lexer, at);
    if (!looking_at(lexer, at, word))
        return 0;
    return skip_blanks(lexer, at + strlen(word));
}

/* Emit text[at..end) as far as the delimiter at `end` leaves it. */
static enum status take_text(struct lexer *lexer, size_t end)
{
    const char *text = lexer->text;
    size_t start = lexer->at, keep = end;
    char sign = end + 2 < lexer->len ? text[end + 2] : 0;
    if (sign == '-') {
        while (keep > start && is_blank(text[keep - 1]))
            keep--;
    } else if (sign != '+' && text[end + 1] != '{') {
        size_t line_start = end;
        while (line_start > start && is_blank(text[line_start - 1]) && text[line_start - 1] != '\n')
            line_start--;
        if (line_start == 0 || text[line_start - 1] == '\n')
            keep = line_start;
    }
    if (keep > start)
        TRY(take(lexer, TOKEN_TEXT, keep - start));
    lexer->at = end;
    return STATUS_OK;
}

static enum status lex_comment(struct lexer *lexer)
{
    for (size_t at = lexer->at + 2; at < lexer->len; at++) {
        size_t end = closing(lexer, at, "#}", 1);
        if (end != 0) {
            lexer->at = end;
            return STATUS_OK;
        }
    }
    return lex_fail(lexer, "a comment is not closed by #}");
}

/* start: the first byte after the word raw and its blanks. */
static enum status lex_raw(struct lexer *lexer, size_t start)
{
    size_t body = closing(lexer, start, "%}", 0);
    for (size_t at = body; at < lexer->len; at++) {
        size_t word_end = block_of_word(lexer, at, "endraw");
        size_t end = word_end == 0 ? 0 : closing(lexer, word_end, "%}", 1);
        if (end != 0) {
            lexer->at = body;
            TRY(take_text(lexer, at));
            lexer->at = end;
            return STATUS_OK;
        }
    }
    return lex_fail(lexer, "a raw block is not closed by endraw");
}

static size_t skip_digits(const struct lexer *lexer, size_t at)
{
    while (at < lexer->len && (is_digit(lexer->text[at]) || lexer->text[at] == '_'))
        at++;
    return at;
}

/* After a dot there are only integers: x.0.1 is two subscripts. */
static enum status lex_number(struct lexer *lexer)
{
    const char *text = lexer->text;
    size_t at = skip_digits(lexer, lexer->at);
    enum jinja_token_kind kind = TOKEN_INTEGER;
    if (text[lexer->at - 1] == '.')
        return take(lexer, kind, at - lexer->at);
    if (at + 1 < lexer->len && text[at] == '.' && is_digit(text[at + 1])) {
        kind = TOKEN_FLOAT;
        at = skip_digits(lexer, at + 1);
    }
    if (at < lexer->len && (text[at] == 'e' || text[at] == 'E')) {
        size_t digits = at + 1;
        if (digits < lexer->len && (text[digits] == '+' || text[digits] == '-'))
            digits++;
        if (digits < lexer->len && is_digit(text[digits])) {
            kind = TOKEN_FLOAT;
            at = skip_digits(lexer, digits);
        }
    }
    return take(lexer, kind, at - lexer->at);
}

static enum status lex_string(struct lexer *lexer)
{
    char quote = lexer->text[lexer->at];
    size_t end = lexer->at + 1;
    while (end < lexer->len && lexer->text[end] != quote)
        end += lexer->text[end] == '\\' ? 2 : 1;
    if (end >= lexer->len)
        return lex_fail(lexer, "a string is not closed by its quote");
    lexer->at++;
    TRY(take(lexer, TOKEN_STRING, end - lexer->at));
    lexer->at++;
    return STATUS_OK;
}

/* depth counts open brackets: inside them "}}" is two brackets, not an end. */
static enum status lex_operator(struct lexer *lexer, int *depth)
{
    static const char two[][3] = { "//", "**", "==", "!=", ">=", "<=" };
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++) {
        if (looking_at(lexer, lexer->at, two[i])) {
            TRY(take(lexer, TOKEN_OPERATOR, 2));
            lexer->tokens->at[lexer->tokens->n - 1].op = JINJA_OP(two[i][0], two[i][1]);
            return STATUS_OK;
        }
    }
    char c = lexer->text[lexer->at];
    if (c == '\0' || strchr("+-*/%~[](){}<>=.:|,;", c) == NULL)
        return lex_fail(lexer, "there is a character that no expression has");
    if (strchr("([{", c) != NULL)
        (*depth)++;
    else if (strchr(")]}", c) != NULL && --*depth < 0)
        return lex_fail(lexer, "the brackets do not match");
    TRY(take(lexer, TOKEN_OPERATOR, 1));
    lexer->tokens->at[lexer->tokens->n - 1].op = c;
    return STATUS_OK;
}

static enum status lex_one(struct lexer *lexer, int *depth)
{
    const char *text = lexer->text;
    size_t end = lexer->at;
    if (starts_name(text[end])) {
        while (end < lexer->len && (starts_name(text[end]) || is_digit(text[end])))
            end++;
        return take(lexer, TOKEN_NAME, end - lexer->at);
    }
    if (is_digit(text[end]))
        return lex_number(lexer);
    if (text[end] == '"' || text[end] == '\'')
        return lex_string(lexer);
    return lex_operator(lexer, depth);
}

/* The inside of {{ }} or {% %}: everything up to and including its end. */
static enum status lex_tag(struct lexer *lexer, int is_block)
{
    int depth = 0;
    TRY(take(lexer, is_block ? TOKEN_BLOCK_BEGIN : TOKEN_PRINT_BEGIN, 2));
    if (lexer->at < lexer->len && (lexer->text[lexer->at] == '-' || lexer->text[lexer->at] == '+'))
        lexer->at++;
    for (;;) {
        lexer->at = skip_blanks(lexer, lexer->at);
        if (lexer->at >= lexer->len)
            return lex_fail(lexer, is_block ? "a block is not closed by %}" : "a print is not closed by }}");
        size_t end = depth > 0 ? 0 : closing(lexer, lexer->at, is_block ? "%}" : "}}", is_block);
        if (end != 0)
            return take(lexer, is_block ? TOKEN_BLOCK_END : TOKEN_PRINT_END, end - lexer->at);
        TRY(lex_one(lexer, &depth));
    }
}

static enum status lex_all(struct lexer *lexer)
{
    size_t at = lexer->at;
    while (at < lexer->len) {
        const char *brace = memchr(lexer->text + at, '{', lexer->len - at);
        size_t open = brace == NULL ? lexer->len : (size_t)(brace - lexer->text);
        char next = open + 1 < lexer->len ? lexer->text[open + 1] : 0;
        at = open + 1;
        if (next != '{' && next != '%' && next != '#')
            continue;
        TRY(take_text(lexer, open));
        size_t raw = block_of_word(lexer, open, "raw");
        if (next == '#')
            TRY(lex_comment(lexer));
        else if (raw != 0 && closing(lexer, raw, "%}", 0) != 0)
            TRY(lex_raw(lexer, raw));
        else
            TRY(lex_tag(lexer, next == '%'));
        at = lexer->at;
    }
    if (lexer->at < lexer->len)
        TRY(take(lexer, TOKEN_TEXT, lexer->len - lexer->at));
    return take(lexer, TOKEN_END, 0);
}

enum status jinja_lex(const char *text, size_t len, struct jinja_tokens *out, struct error *err)
{
    *out = (struct jinja_tokens){ 0 };
    struct lexer lexer = { .text = text, .len = len, .line = 1, .tokens = out, .err = err };
    return lex_all(&lexer);
}
