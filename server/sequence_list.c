#include "server/sequence_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status sequence_list_init(struct sequence_list *list, int32_t capacity, int32_t priority_places,
                               struct error *err)
{
    *list = (struct sequence_list){ .capacity = capacity, .priority_places = priority_places };
    list->items = calloc((size_t)capacity + 1, sizeof(struct sequence *));
    if (list->items == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a list of %d sequences", capacity);
    return STATUS_OK;
}

void sequence_list_clear(struct sequence_list *list)
{
    free(list->items);
    list->items = NULL;
    list->n_items = 0;
}

static int64_t place_of(const struct sequence_list *list, const struct sequence *seq)
{
    return (int64_t)seq->arrival + (int64_t)seq->priority * list->priority_places;
}

int sequence_list_before(const struct sequence_list *list, const struct sequence *a, const struct sequence *b)
{
    int64_t place_a = place_of(list, a), place_b = place_of(list, b);
    if (place_a != place_b)
        return place_a < place_b;
    if (a->arrival != b->arrival)
        return a->arrival < b->arrival;
    return a->choice < b->choice;
}

int32_t sequence_list_find(const struct sequence_list *list, const struct sequence *seq)
{
    int32_t low = 0, high = list->n_items;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (sequence_list_before(list, list->items[middle], seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void sequence_list_insert(struct sequence_list *list, struct sequence *seq)
{
    assert(list->n_items < list->capacity);
    int32_t at = sequence_list_find(list, seq);
    struct sequence **place = &list->items[at];
    memmove(place + 1, place, (size_t)(list->n_items - at) * sizeof *place);
    *place = seq;
    list->n_items++;
}

void sequence_list_remove(struct sequence_list *list, const struct sequence *seq)
{
    int32_t at = sequence_list_find(list, seq);
    assert(at < list->n_items && list->items[at] == seq);
    struct sequence **place = &list->items[at];
    list->n_items--;
    memmove(place, place + 1, (size_t)(list->n_items - at) * sizeof *place);
}
