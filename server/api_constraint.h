/* api_constraint.h - the fields of a body that constrain the text: one of them becomes a grammar.
 *
 *   response_format       {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": {..}}}
 *   guided_json           a schema, as an object or as text
 *   guided_regex          the whole text matches it
 *   guided_choice         ["yes", "no"]: the text is one of them
 *   structured_outputs    {"json": .., "regex": .., "choice": .., "json_object": true}: the same, newer
 *
 * Two of them at once are refused.
 *
 * Threads: any.  Memory: the text of the constraint.
 */
#ifndef SERVER_API_CONSTRAINT_H
#define SERVER_API_CONSTRAINT_H

#include "model/grammar.h"
#include "server/api_refusal.h"
#include "server/body_fields.h"

struct api_constraint_body {
    const json_t *response_format, *structured_outputs;
    const json_t *guided_json, *guided_choice;
    struct body_text guided_regex;
};

/* The rows of these fields, for a body of `type` that has a struct api_constraint_body `field`. */
#define API_CONSTRAINT_FIELDS(type, field)                                                                  \
    { "response_format", BODY_OBJECT(type, field.response_format),                                          \
      .help = "{\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": \"json_schema\", "          \
              "\"json_schema\": {\"schema\": {..}}}" },                                                     \
    { "guided_json", BODY_ANY(type, field.guided_json),                                                     \
      .schema = "\"type\":[\"object\",\"string\",\"null\"]", .help = "a JSON schema that the text fits" },  \
    { "guided_regex", BODY_TEXT(type, field.guided_regex), .help = "a pattern that the text matches" },     \
    { "guided_choice", BODY_ARRAY(type, field.guided_choice),                                               \
      .schema = "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}",                            \
      .help = "texts of which the output is one" },                                                         \
    { "structured_outputs", BODY_OBJECT(type, field.structured_outputs),                                    \
      .help = "one of json, regex, choice, json_object, as in the guided fields" },                         \
    { "guided_grammar", BODY_REFUSED, .help = "use guided_regex or guided_json" },                          \
    { "guided_whitespace_pattern", BODY_REFUSED, .help = "the spelling of JSON is fixed" }

struct api_constraint {
    int is_set;                 /* 0: free text */
    enum grammar_kind kind;
    struct buf text;            /* pattern or schema */
    const char *param;          /* the field it came from */
};

/* On failure *out is clear.  BAD_REQUEST: more than one, or not one of the forms.  NO_MEMORY. */
MUST_CHECK enum status api_constraint_read(struct api_constraint *out, const struct api_constraint_body *body,
                                           struct api_refusal *why);
void api_constraint_clear(struct api_constraint *constraint);

#endif
