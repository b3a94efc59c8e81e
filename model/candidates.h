/* candidates.h - the tokens that are still in the draw, and the stages that
 * take some of them out.
 *
 *   items  [ {token 3, logit 1.5, weight .22} {token 8, ..} {token 41, ..} ]
 *             always in rising token order
 *
 * weight is exp((logit - max) / temperature): the likeliest token has weight 1,
 * and a probability is a weight over the sum of weights.  "Likeliest" is decided
 * by logit, equals by lowest token, so two tokens whose weights round to the
 * same float still have their order.
 *
 * The cuts find their threshold by quickselect on a copy (linear time, no sort
 * of the vocabulary) and then keep what passes it, in place.  Every cut keeps at
 * least one token.
 *
 * Owner: the caller.  Memory: both arrays are the caller's, [capacity] each.
 */
#ifndef MODEL_CANDIDATES_H
#define MODEL_CANDIDATES_H

#include <stdint.h>

struct candidate {
    int32_t token;
    float logit;
    float weight;
    float rank;                 /* what a cut orders by, larger first */
};

struct candidates {
    struct candidate *items;    /* [capacity]; n in use */
    struct candidate *work;     /* [capacity] */
    int32_t n;
};

/* One row of the vocabulary and how much of it is of interest. */
struct candidates_source {
    const float *logits;        /* [n] */
    const float *weights;       /* [n] */
    int32_t n;
    float max;                  /* the largest logit */
    int64_t need_count;         /* at least so many of the likeliest, if that many there are; 0: no wish */
    double need_mass;           /* at least so much weight of the likeliest; used if need_count is 0;
                                 * 0 too: all of them */
};

/* Fill the list with a prefix (in likelihood) of the vocabulary that meets the
 * need and is not much larger.  Tokens at -infinity never come in. */
void candidates_gather(struct candidates *list, const struct candidates_source *source);

/* The k likeliest; k > 0. */
void candidates_keep_count(struct candidates *list, int64_t k);

/* The fewest likeliest whose weights add up to mass. */
void candidates_keep_mass(struct candidates *list, double mass);

/* Those with at least share (0..1) of the largest weight. */
void candidates_keep_share(struct candidates *list, double share);

/* Order by how far a token's surprise, -log p, lies from the mean surprise of
 * the list (its entropy); the fewest nearest whose probability adds up to p. */
void candidates_keep_typical(struct candidates *list, double p);

double candidates_mass(const struct candidates *list);          /* sum of the weights */

/* The token in which u (0 <= u < 1) of the mass falls, counted in token order. */
int32_t candidates_draw(const struct candidates *list, double u);

#endif
