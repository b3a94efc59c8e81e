#include "model/candidates.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    N_BUCKETS = 1024,           /* of distance below the largest logit */
    BUCKETS_PER_UNIT = 32
};

/* The bucket of a logit: 0 at the top.  Rounding keeps the order, so a bucket
 * never holds a likelier token than an earlier one. */
static int bucket_of(float logit, float max)
{
    float place = (max - logit) * (float)BUCKETS_PER_UNIT;
    return place < (float)(N_BUCKETS - 1) ? (int)place : N_BUCKETS - 1;
}

/* The last bucket that is needed to meet the wish. */
static int last_bucket(const struct candidates_source *source)
{
    int64_t counts[N_BUCKETS] = { 0 };
    double masses[N_BUCKETS] = { 0 };
    for (int32_t i = 0; i < source->n; i++) {
        if (source->logits[i] == -INFINITY)
            continue;
        int b = bucket_of(source->logits[i], source->max);
        counts[b]++;
        masses[b] += (double)source->weights[i];
    }
    int64_t count = 0;
    double mass = 0;
    for (int b = 0; b < N_BUCKETS; b++) {
        count += counts[b];
        mass += masses[b];
        if (source->need_count > 0 ? count >= source->need_count : mass >= source->need_mass)
            return b;
    }
    return N_BUCKETS - 1;
}

void candidates_gather(struct candidates *list, const struct candidates_source *source)
{
    int all = source->need_count <= 0 && source->need_mass <= 0;
    int last = all ? N_BUCKETS - 1 : last_bucket(source);
    int32_t n = 0;
    for (int32_t i = 0; i < source->n; i++) {
        float logit = source->logits[i];
        if (logit != -INFINITY && bucket_of(logit, source->max) <= last)
            list->items[n++] = (struct candidate){ i, logit, source->weights[i], logit };
    }
    list->n = n;
}

/* Larger rank first, equals by lower token.  A total order: no two are equal. */
static int comes_before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank > b->rank : a->token < b->token;
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate c = *a;
    *a = *b;
    *b = c;
}

/* Partition items[n] around one of them; returns its final place. */
static int32_t partition(struct candidate *items, int32_t n, struct rng *rng)
{
    swap(&items[rng_below(rng, (uint64_t)n)], &items[n - 1]);
    int32_t place = 0;
    for (int32_t i = 0; i < n - 1; i++)
        if (comes_before(&items[i], &items[n - 1]))
            swap(&items[i], &items[place++]);
    swap(&items[place], &items[n - 1]);
    return place;
}

/* The last candidate of the shortest prefix, in rank order, whose total reaches
 * target: the total is the number of candidates (by_count) or their weight.  If
 * none reaches it, the very last.  The pivots come from a fixed seed, so the
 * same list is always cut the same way. */
static struct candidate select_last(const struct candidates *list, int by_count, double target)
{
    struct candidate *items = list->work;
    int32_t n = list->n;
    struct rng rng;
    rng_seed(&rng, 1);
    memcpy(items, list->items, (size_t)n * sizeof *items);
    double before = 0;
    while (n > 1) {
        int32_t place = partition(items, n, &rng);
        double front = 0;
        for (int32_t i = 0; i < place; i++)
            front += by_count ? 1.0 : (double)items[i].weight;
        double pivot = by_count ? 1.0 : (double)items[place].weight;
        if (place > 0 && before + front >= target) {
            n = place;
        } else if (before + front + pivot >= target || place == n - 1) {
            return items[place];
        } else {
            before += front + pivot;
            items += place + 1;
            n -= place + 1;
        }
    }
    return items[0];
}

/* Drop everything behind last in rank order. */
static void keep_until(struct candidates *list, struct candidate last)
{
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++)
        if (!comes_before(&last, &list->items[i]))
            list->items[n++] = list->items[i];
    list->n = n;
}

void candidates_keep_count(struct candidates *list, int64_t k)
{
    assert(k > 0 && list->n > 0);
    if (k < list->n)
        keep_until(list, select_last(list, 1, (double)k));
}

void candidates_keep_mass(struct candidates *list, double mass)
{
    assert(list->n > 0);
    keep_until(list, select_last(list, 0, mass));
}

void candidates_keep_share(struct candidates *list, double share)
{
    float largest = 0;
    for (int32_t i = 0; i < list->n; i++)
        largest = list->items[i].weight > largest ? list->items[i].weight : largest;
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++)
        if ((double)list->items[i].weight >= share * (double)largest)
            list->items[n++] = list->items[i];
    list->n = n;
}

void candidates_keep_typical(struct candidates *list, double p)
{
    double mass = candidates_mass(list);
    double log_mass = log(mass);
    double entropy = 0;
    for (int32_t i = 0; i < list->n; i++) {
        double weight = (double)list->items[i].weight;
        if (weight > 0)
            entropy -= weight / mass * (log(weight) - log_mass);
    }
    for (int32_t i = 0; i < list->n; i++) {
        double weight = (double)list->items[i].weight;
        double surprise = weight > 0 ? log_mass - log(weight) : (double)INFINITY;
        list->items[i].rank = (float)-fabs(surprise - entropy);
    }
    keep_until(list, select_last(list, 0, p * mass));
    for (int32_t i = 0; i < list->n; i++)
        list->items[i].rank = list->items[i].logit;
}

double candidates_mass(const struct candidates *list)
{
    double mass = 0;
    for (int32_t i = 0; i < list->n; i++)
        mass += (double)list->items[i].weight;
    return mass;
}

int32_t candidates_draw(const struct candidates *list, double u)
{
    double target = u * candidates_mass(list);
    double mass = 0;
    int32_t token = list->items[0].token;
    for (int32_t i = 0; i < list->n; i++) {
        if (list->items[i].weight <= 0.0f)
            continue;
        mass += (double)list->items[i].weight;
        token = list->items[i].token;
        if (mass > target)
            break;
    }
    return token;
}
