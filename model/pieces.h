/* pieces.h - a text cut into pieces, and the cutting of one piece.
 *
 *   text     "Hello  world"
 *   pieces   [0,5) [5,6) [6,12)     in order, none empty, gaps allowed
 *
 * A cutter is told, left to right, which ranges of a piece a rule matched and
 * which it did not, and turns them into pieces as the rule's behaviour says:
 *
 *   rule "-" on "a--b-"             match: '-', '-', '-'
 *   REMOVED                a b
 *   ISOLATED               a - - b -
 *   MERGED_WITH_PREVIOUS   a- - b-
 *   MERGED_WITH_NEXT       a - -b -
 *   CONTIGUOUS             a -- b -
 *
 * Owner: the caller.  Memory: grows, 16 bytes a piece, at most one piece a byte.
 */
#ifndef MODEL_PIECES_H
#define MODEL_PIECES_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct piece {
    size_t begin, end;              /* begin < end */
};

struct piece_list {                 /* all zero is an empty list */
    struct piece *at;
    size_t n, room;
};

MUST_CHECK enum status piece_list_push(struct piece_list *list, size_t begin, size_t end);  /* NO_MEMORY */
void piece_list_clear(struct piece_list *list);     /* frees; usable again */

enum cut_behavior { CUT_REMOVED, CUT_ISOLATED, CUT_MERGED_WITH_PREVIOUS, CUT_MERGED_WITH_NEXT,
                    CUT_CONTIGUOUS };

struct cutter {
    struct piece_list *list;        /* pieces are pushed here */
    enum cut_behavior behavior;
    int invert;                     /* matched and unmatched change places */
    size_t first;                   /* list->n when this piece began */
    int last_matched;               /* of the last range; 0 before the first */
    int holds;                      /* MERGED_WITH_NEXT: a match waits for what follows */
    struct piece held;
};

/* One cutter per piece; each range follows on the one before.  An empty match is
 * a range too (it keeps its neighbours apart), but never a piece.  NO_MEMORY. */
void cutter_init(struct cutter *c, struct piece_list *list, enum cut_behavior behavior, int invert);
MUST_CHECK enum status cutter_add(struct cutter *c, size_t begin, size_t end, int matched);
MUST_CHECK enum status cutter_finish(struct cutter *c);

#endif
