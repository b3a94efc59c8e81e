#include "server/request.h"

#include <stdlib.h>
#include <string.h>

enum status request_create(struct request **out, struct error *err)
{
    struct request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a request");
    r->n_choices = 1;
    r->skip_special_tokens = 1;
    sampling_params_init(&r->sampling);
    *out = r;
    return STATUS_OK;
}

void request_destroy(struct request *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < r->n_stops; i++)
        free((char *)r->stops[i].text);
    free(r->stops);
    free(r->prompt);
    free(r);
}

enum status request_set_prompt(struct request *r, const int32_t *tokens, int32_t n, struct error *err)
{
    int32_t *copy = malloc((size_t)n * sizeof *copy);
    if (copy == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a prompt of %d tokens", n);
    memcpy(copy, tokens, (size_t)n * sizeof *copy);
    free(r->prompt);
    r->prompt = copy;
    r->n_prompt = n;
    return STATUS_OK;
}

enum status request_add_stop(struct request *r, const char *text, size_t len, struct error *err)
{
    struct stop_string *stops = realloc(r->stops, (size_t)(r->n_stops + 1) * sizeof *stops);
    char *copy = malloc(len + 1);
    if (stops != NULL)
        r->stops = stops;
    if (stops == NULL || copy == NULL) {
        free(copy);
        return fail(err, STATUS_NO_MEMORY, "no memory for a stop string");
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    r->stops[r->n_stops++] = (struct stop_string){ copy, len };
    return STATUS_OK;
}
