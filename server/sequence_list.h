/* sequence_list.h - sequences in the order in which they are served.
 *
 *   place = arrival + priority * priority_places, smaller first; equal places
 *   by arrival, then by choice (forks have their parent's arrival).
 *
 * Nothing that decides the place changes while a sequence is in a list.
 * Lists are short (seats, queue): insert and remove move pointers.
 *
 * Owner: the engine thread.  Memory: at init; none afterwards.
 */
#ifndef SERVER_SEQUENCE_LIST_H
#define SERVER_SEQUENCE_LIST_H

#include "base/status.h"
#include "server/sequence.h"

struct sequence_list {
    /* fixed at init */
    int32_t capacity;
    int32_t priority_places;        /* 0: priority does not matter */

    struct sequence **items;        /* [n_items], in order */
    int32_t n_items;
};

/* NO_MEMORY: the list may still be cleared. */
MUST_CHECK enum status sequence_list_init(struct sequence_list *list, int32_t capacity,
                                          int32_t priority_places, struct error *err);
void sequence_list_clear(struct sequence_list *list);

/* 1 if a is served before b; 0 for a sequence and itself. */
int sequence_list_before(const struct sequence_list *list, const struct sequence *a, const struct sequence *b);

/* n_items < capacity */
void sequence_list_insert(struct sequence_list *list, struct sequence *seq);

/* The index of the first item that is not before seq: that of seq if it is in
 * the list, else where it would go. */
int32_t sequence_list_find(const struct sequence_list *list, const struct sequence *seq);

/* seq is in the list. */
void sequence_list_remove(struct sequence_list *list, const struct sequence *seq);

#endif
