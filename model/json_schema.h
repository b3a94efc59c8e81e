/* json_schema.h - the JSON documents that fit a JSON Schema, as a byte_program.
 *
 * Every text that is let through is a valid document for the schema; where the
 * schema leaves something open, less than all of it may be let through:
 *
 *   type                  one or several; if absent it follows from the other keywords
 *                         ("properties" means object, "items" array, ..); nothing: any value
 *   enum, const           with `type` only
 *   anyOf, oneOf          any of them (oneOf does not exclude the others)
 *   allOf                 merged (schema_merge.h)
 *   $ref                  "#", "#/$defs/.." and any other path in the document; may be recursive
 *   properties, required  in the order of `properties`; what `required` names beyond them follows
 *   additionalProperties  absent: none if there are `properties` or `required`, else any; true or a
 *                         schema: after the listed ones.  Additional names are never listed ones
 *   minProperties, maxProperties      only without `properties` and `required`; minProperties at most 1
 *   prefixItems, items    items absent behind prefixItems: no more items
 *   minItems, maxItems
 *   minLength, maxLength  in characters
 *   pattern               regex.h; found anywhere in the string unless it has ^ and $; not together
 *                         with lengths or format
 *   format                date, date-time, time, uuid, email, hostname, ipv4, uri; not with lengths
 *   minimum, maximum, exclusiveMinimum, exclusiveMaximum     of integers; of numbers if whole
 *   uniqueItems           false only
 * Without meaning here: title, description, default, examples, deprecated, readOnly, writeOnly,
 * $schema, $id, $comment, $defs, definitions, discriminator, and names that begin with "x-".
 * A keyword for another type than the value's has no effect, as the standard says.
 * Any other keyword is refused by name: a constraint is never silently ignored.
 *
 * How JSON itself is spelled: json_rules.h.
 *
 * Threads: any.  Memory: freed before return.
 */
#ifndef MODEL_JSON_SCHEMA_H
#define MODEL_JSON_SCHEMA_H

#include "model/byte_program.h"

#define JSON_SCHEMA_MAX_DEPTH 64        /* schemas inside each other */
#define JSON_SCHEMA_MAX_SCHEMAS 20000   /* all together, counting those that merging makes */
#define JSON_SCHEMA_MAX_REFS 1024       /* different $ref targets */
#define JSON_SCHEMA_MAX_NAME 512        /* bytes of a property's name */

/* Write rule 0 of the program: one document that fits the schema in text[len].
 * A full program is reported by byte_program_seal.
 * BAD_REQUEST: not JSON, not a schema, or it uses what is not supported.
 * TOO_LARGE: more than a limit above.  NO_MEMORY. */
MUST_CHECK enum status json_schema_emit(const char *text, size_t len, struct byte_program *program,
                                        struct error *err);

#endif
