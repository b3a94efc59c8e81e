#include "model/pieces.h"

#include <stdlib.h>

enum status piece_list_push(struct piece_list *list, size_t begin, size_t end)
{
    if (list->n == list->room) {
        size_t room = 2 * list->room + 64;
        struct piece *at = reallocarray(list->at, room, sizeof *at);
        if (at == NULL)
            return STATUS_NO_MEMORY;
        list->at = at;
        list->room = room;
    }
    list->at[list->n++] = (struct piece){ .begin = begin, .end = end };
    return STATUS_OK;
}

void piece_list_clear(struct piece_list *list)
{
    free(list->at);
    *list = (struct piece_list){ 0 };
}

void cutter_init(struct cutter *c, struct piece_list *list, enum cut_behavior behavior, int invert)
{
    *c = (struct cutter){ .list = list, .behavior = behavior, .invert = invert, .first = list->n };
}

static enum status release_held(struct cutter *c)
{
    if (!c->holds)
        return STATUS_OK;
    c->holds = 0;
    return piece_list_push(c->list, c->held.begin, c->held.end);
}

/* A match waits; what follows it, unless that is a match too, takes it along. */
static enum status add_before_next(struct cutter *c, size_t begin, size_t end, int matched)
{
    if (matched) {
        TRY(release_held(c));
        c->held = (struct piece){ begin, end };
        c->holds = 1;
        return STATUS_OK;
    }
    if (c->holds)
        begin = c->held.begin;
    c->holds = 0;
    return piece_list_push(c->list, begin, end);
}

enum status cutter_add(struct cutter *c, size_t begin, size_t end, int matched)
{
    if (begin == end && !matched)
        return STATUS_OK;
    if (c->invert)
        matched = !matched;
    int after_match = c->last_matched, has_last = c->list->n > c->first;
    c->last_matched = matched;
    switch (c->behavior) {
    case CUT_REMOVED:
        return matched ? STATUS_OK : piece_list_push(c->list, begin, end);
    case CUT_ISOLATED:
        break;
    case CUT_MERGED_WITH_NEXT:
        return add_before_next(c, begin, end, matched);
    case CUT_MERGED_WITH_PREVIOUS:
        if (matched && !after_match && has_last) {
            c->list->at[c->list->n - 1].end = end;
            return STATUS_OK;
        }
        break;
    case CUT_CONTIGUOUS:
        if (has_last && matched == after_match) {
            c->list->at[c->list->n - 1].end = end;
            return STATUS_OK;
        }
        break;
    }
    return piece_list_push(c->list, begin, end);
}

enum status cutter_finish(struct cutter *c)
{
    TRY(release_held(c));
    struct piece_list *list = c->list;
    size_t kept = c->first;
    for (size_t i = c->first; i < list->n; i++) {
        if (list->at[i].begin < list->at[i].end)
            list->at[kept++] = list->at[i];
    }
    list->n = kept;
    return STATUS_OK;
}
