/* json_number.h - numbers within bounds as part of a byte_program.
 *
 * Integers: any bounds.  Numbers with a fraction: bounds that are whole numbers;
 * what is written then has no exponent and up to 15 digits behind the point.
 * Magnitudes end at 18 digits (integers) or 15 (numbers), see json_rules.h.
 *
 * 13..250 as digits:   1 [3-9] | [2-9] [0-9] | 1 [0-9] [0-9] | 2 [0-4] [0-9] | 2 5 0
 */
#ifndef MODEL_JSON_NUMBER_H
#define MODEL_JSON_NUMBER_H

#include "model/byte_program.h"

struct json_number_range {
    int is_integer;
    int64_t min, max;               /* INT64_MIN, INT64_MAX: no bound */
    int min_excluded, max_excluded; /* 1: the bound itself does not fit */
};

/* A number in the range, then next; a range that holds none never fits. */
uint32_t json_number_emit(const struct json_number_range *range, struct byte_program *program, uint32_t next);

#endif
