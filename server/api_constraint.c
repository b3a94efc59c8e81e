#include "server/api_constraint.h"

#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONSTRAINT_BYTES ((size_t)1 << 20)

void api_constraint_clear(struct api_constraint *c)
{
    buf_clear(&c->text);
    *c = (struct api_constraint){ .is_set = 0 };
}

static enum status no_room(struct api_refusal *why, const char *param, enum status s)
{
    if (s == STATUS_OK)
        return s;
    return api_refuse(why, param, s == STATUS_TOO_LARGE ? STATUS_BAD_REQUEST : s,
                      "'%s' is larger than %zu bytes", param, MAX_CONSTRAINT_BYTES);
}

static enum status claim(struct api_constraint *c, enum grammar_kind kind, const char *param,
                         struct api_refusal *why)
{
    if (c->is_set)
        return api_refuse(why, param, STATUS_BAD_REQUEST, "'%s' and '%s' cannot be combined", c->param,
                          param);
    c->is_set = 1;
    c->kind = kind;
    c->param = param;
    return STATUS_OK;
}

static enum status set_schema(struct api_constraint *c, const json_t *schema, const char *param,
                              struct api_refusal *why)
{
    TRY(claim(c, GRAMMAR_JSON_SCHEMA, param, why));
    if (json_is_string(schema))
        return no_room(why, param, buf_add(&c->text, json_string_value(schema), json_string_length(schema)));
    if (!json_is_object(schema))
        return api_refuse(why, param, STATUS_BAD_REQUEST, "the schema of '%s' must be an object, got %s",
                          param, json_type_phrase(schema));
    char *text = json_dumps(schema, JSON_COMPACT);
    if (text == NULL)
        return api_refuse(why, param, STATUS_NO_MEMORY, "no memory for the schema of '%s'", param);
    enum status s = buf_add_text(&c->text, text);
    free(text);
    return no_room(why, param, s);
}

static enum status set_regex(struct api_constraint *c, const char *text, size_t len, const char *param,
                             struct api_refusal *why)
{
    TRY(claim(c, GRAMMAR_REGEX, param, why));
    return no_room(why, param, buf_add(&c->text, text, len));
}

/* A pattern that matches the text and nothing else. */
static enum status add_literal(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strchr("\\^$.[]()|*+?{}-/", text[i]) != NULL && text[i] != '\0')
            TRY(buf_add_char(out, '\\'));
        if (text[i] == '\0')
            TRY(buf_add_text(out, "\\0"));
        else
            TRY(buf_add_char(out, text[i]));
    }
    return STATUS_OK;
}

static enum status set_choice(struct api_constraint *c, const json_t *choices, const char *param,
                              struct api_refusal *why)
{
    TRY(claim(c, GRAMMAR_REGEX, param, why));
    if (!json_is_array(choices) || json_array_size(choices) == 0)
        return api_refuse(why, param, STATUS_BAD_REQUEST,
                          "the choices of '%s' must be an array with at least one string", param);
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i);
        if (!json_is_string(choice))
            return api_refuse(why, param, STATUS_BAD_REQUEST, "choice %zu of '%s' must be a string, got %s",
                              i, param, json_type_phrase(choice));
        TRY(no_room(why, param, buf_add_char(&c->text, i == 0 ? '(' : '|')));
        TRY(no_room(why, param,
                    add_literal(&c->text, json_string_value(choice), json_string_length(choice))));
    }
    return no_room(why, param, buf_add_char(&c->text, ')'));
}

static enum status read_response_format(struct api_constraint *c, const json_t *format,
                                        struct api_refusal *why)
{
    static const char param[] = "response_format";
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type == NULL)
        return api_refuse(why, param, STATUS_BAD_REQUEST, "'response_format' needs a \"type\"");
    if (strcmp(type, "text") == 0)
        return STATUS_OK;
    const json_t *wrapped = json_object_get(format, "json_schema");
    const json_t *schema = json_object_get(wrapped, "schema");
    if (schema == NULL)
        schema = json_object_get(format, "schema");
    if (strcmp(type, "json_schema") == 0) {
        if (schema == NULL)
            return api_refuse(why, param, STATUS_BAD_REQUEST, "'response_format' of type json_schema needs "
                              "\"json_schema\": {\"schema\": ..}");
        return set_schema(c, schema, param, why);
    }
    if (strcmp(type, "json_object") == 0)
        return schema != NULL && !json_is_null(schema) ? set_schema(c, schema, param, why)
                                                       : claim(c, GRAMMAR_JSON_OBJECT, param, why);
    return api_refuse(why, param, STATUS_BAD_REQUEST,
                      "the type of 'response_format' must be text, json_object or json_schema");
}

static enum status read_structured(struct api_constraint *c, const json_t *object, struct api_refusal *why)
{
    static const char param[] = "structured_outputs";
    struct json_reader r = { .object = object, .where = param, .code = STATUS_BAD_REQUEST };
    struct body_text regex = { .bytes = NULL };
    int is_object = 0;
    why->param = param;
    TRY(json_read_string(&r, "regex", &regex.bytes, &regex.len, &why->err));
    TRY(json_read_bool(&r, "json_object", &is_object, &why->err));
    if (json_read_any(&r, "grammar") != NULL || json_read_any(&r, "structural_tag") != NULL)
        return api_refuse(why, param, STATUS_BAD_REQUEST,
                          "'structured_outputs' takes json, regex, choice or json_object");
    if (json_read_any(&r, "json") != NULL)
        TRY(set_schema(c, json_read_any(&r, "json"), param, why));
    if (regex.bytes != NULL)
        TRY(set_regex(c, regex.bytes, regex.len, param, why));
    if (json_read_any(&r, "choice") != NULL)
        TRY(set_choice(c, json_read_any(&r, "choice"), param, why));
    return is_object ? claim(c, GRAMMAR_JSON_OBJECT, param, why) : STATUS_OK;
}

static enum status read_all(struct api_constraint *c, const struct api_constraint_body *body,
                            struct api_refusal *why)
{
    if (body->response_format != NULL)
        TRY(read_response_format(c, body->response_format, why));
    if (body->guided_json != NULL)
        TRY(set_schema(c, body->guided_json, "guided_json", why));
    if (body->guided_regex.bytes != NULL)
        TRY(set_regex(c, body->guided_regex.bytes, body->guided_regex.len, "guided_regex", why));
    if (body->guided_choice != NULL)
        TRY(set_choice(c, body->guided_choice, "guided_choice", why));
    return body->structured_outputs != NULL ? read_structured(c, body->structured_outputs, why) : STATUS_OK;
}

enum status api_constraint_read(struct api_constraint *out, const struct api_constraint_body *body,
                                struct api_refusal *why)
{
    *out = (struct api_constraint){ .is_set = 0 };
    buf_init(&out->text, MAX_CONSTRAINT_BYTES);
    enum status s = read_all(out, body, why);
    if (s != STATUS_OK)
        api_constraint_clear(out);
    return s;
}
