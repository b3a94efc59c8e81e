/* json_rules.h - the pieces of JSON text as parts of a byte_program.
 *
 * What is written is a subset of JSON chosen so that a model cannot go on for
 * ever where it says nothing:
 *   - between two tokens: nothing, one space, or a line feed and up to 32 spaces;
 *     none before the first and after the last;
 *   - integers have up to 18 digits, numbers up to 15 before and after the point and
 *     an exponent of up to 2 digits, so that every reader can hold them;
 *   - strings hold any character, escaped as JSON allows, but not U+0000 and no
 *     half of a surrogate pair.
 *
 * Rules (the shared pieces) are written the first time they are asked for.
 * Every function writes its piece in front of next and returns where it begins.
 *
 * Owner: the caller.  Memory: the program's.
 */
#ifndef MODEL_JSON_RULES_H
#define MODEL_JSON_RULES_H

#include "model/byte_program.h"

#define JSON_UNBOUNDED (-1)

struct json_rules {
    struct byte_program *program;
    uint32_t space, character, integer, number, value;      /* rules; 0: not written yet */
};

void json_rules_init(struct json_rules *r, struct byte_program *program);

uint32_t json_rules_space(struct json_rules *r, uint32_t next);
uint32_t json_rules_character(struct json_rules *r, uint32_t next);       /* of a string, without quotes */
uint32_t json_rules_integer(struct json_rules *r, uint32_t next);
uint32_t json_rules_number(struct json_rules *r, uint32_t next);
uint32_t json_rules_value(struct json_rules *r, uint32_t next);
uint32_t json_rules_object(struct json_rules *r, uint32_t next);

/* A string of min..max characters; max may be JSON_UNBOUNDED. */
uint32_t json_rules_string(struct json_rules *r, int64_t min, int64_t max, uint32_t next);

/* The separator of two elements, then next. */
uint32_t json_rules_comma(struct json_rules *r, uint32_t next);

/* min..max times `element` (a rule that ends in json_rules_space), commas between, then
 * close, which stands for the closing bracket. */
uint32_t json_rules_list(struct json_rules *r, uint32_t element, int64_t min, int64_t max, uint32_t close);

/* { list } and [ list ]: the opening bracket in front of an inner part. */
uint32_t json_rules_open(struct json_rules *r, char bracket, uint32_t inner);

#endif
