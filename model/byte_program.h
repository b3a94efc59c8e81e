/* byte_program.h - a language of byte strings as a small program.
 *
 *   RANGE lo hi next     one byte in lo..hi, then next
 *   SPLIT next other     either
 *   CALL rule next       what the rule matches, then next
 *   RETURN               end of a rule; of rule 0: end of the text
 *   FAIL                 nothing fits
 *
 * Without calls this is a finite automaton; calls add nesting (a JSON value in a
 * JSON value) and let one piece be written once and used often.
 *
 * Programs are written backwards: every emit function is told where the text
 * goes on (`next`) and returns where its piece begins, so "ab" is
 *
 *     pc = byte_program_range(p, 'b', 'b', next);
 *     pc = byte_program_range(p, 'a', 'a', pc);
 *
 * A full program is remembered, not reported by every call: emit functions then
 * return 0 and byte_program_seal fails.
 *
 * need[pc] is the least number of frames (calls inside calls) with which the text
 * can be finished from pc.  Whoever enters pc only with that many frames left can
 * always finish.
 *
 * Owner: the caller, one thread while it is written; sealed programs are only
 * read.  Memory: grows while written, bounded by max_code.
 */
#ifndef MODEL_BYTE_PROGRAM_H
#define MODEL_BYTE_PROGRAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define BYTE_PROGRAM_MAX_RULES 8192
#define BYTE_PROGRAM_NEVER UINT16_MAX       /* need of a pc from which no text fits */

enum byte_op { BYTE_OP_FAIL, BYTE_OP_RANGE, BYTE_OP_SPLIT, BYTE_OP_CALL, BYTE_OP_RETURN };

struct byte_instruction {
    uint8_t op;
    uint8_t lo, hi;                 /* RANGE */
    uint32_t next;
    uint32_t other;                 /* SPLIT: the second way; CALL: the rule */
};

/* Written through the functions below; read freely once sealed. */
struct byte_program {
    struct byte_instruction *code;  /* [n_code] */
    uint32_t n_code, capacity, max_code;
    uint32_t *rules;                /* [n_rules] where each begins */
    uint32_t n_rules;
    uint16_t *need;                 /* [n_code], after seal */
    uint8_t class_of[256];          /* after seal: bytes that no instruction tells apart share a class */
    uint32_t n_classes;
    int is_full;
    int out_of_memory;
};

/* Rule 0 exists and must be set. */
void byte_program_init(struct byte_program *p, uint32_t max_code);
void byte_program_clear(struct byte_program *p);

uint32_t byte_program_fail(struct byte_program *p);
uint32_t byte_program_return(struct byte_program *p);
uint32_t byte_program_range(struct byte_program *p, uint8_t lo, uint8_t hi, uint32_t next);
/* As range, but one that was written at or after pc `since` is used again. */
uint32_t byte_program_range_shared(struct byte_program *p, uint32_t since, uint8_t lo, uint8_t hi,
                                   uint32_t next);
uint32_t byte_program_literal(struct byte_program *p, const char *bytes, size_t len, uint32_t next);
uint32_t byte_program_split(struct byte_program *p, uint32_t a, uint32_t b);
uint32_t byte_program_call(struct byte_program *p, uint32_t rule, uint32_t next);

/* A loop: begin gives the pc to go on from at the end of the body, end makes it
 * "the body once more, or next". */
uint32_t byte_program_loop_begin(struct byte_program *p);
void byte_program_loop_end(struct byte_program *p, uint32_t loop, uint32_t body, uint32_t next);

/* A rule that may be called before it is set. */
uint32_t byte_program_rule_new(struct byte_program *p);
void byte_program_rule_set(struct byte_program *p, uint32_t rule, uint32_t entry);

/* Nothing more will be written: check it and derive need and class_of.
 * max_depth: frames there will be at run time, < BYTE_PROGRAM_NEVER.
 * TOO_LARGE: more than max_code instructions or too many rules.
 * BAD_REQUEST: a rule calls itself without a byte in between, or no text fits
 * within max_depth.  NO_MEMORY. */
MUST_CHECK enum status byte_program_seal(struct byte_program *p, uint32_t max_depth, struct error *err);

#endif
