/* step_gate.h - lets an engine's steps through one by one, so that a test knows what it interrupts. */
#ifndef TESTS_SERVER_STEP_GATE_H
#define TESTS_SERVER_STEP_GATE_H

#include "tests/server/engine_fixture.h"

#include <time.h>

struct step_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_open;                /* everything passes */
    int n_allowed;              /* turns that may pass while it is closed */
    int is_waiting;             /* the engine stands at the gate */
    long linger_ns;             /* the end of a step takes so much longer; set before the first */
};

static inline void step_gate_init(struct step_gate *g)
{
    *g = (struct step_gate){ .is_open = 1 };
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

/* For engine_options.on_step. */
static inline void step_gate_on_step(void *context, int begins)
{
    struct step_gate *g = context;
    if (!begins) {
        nanosleep(&(struct timespec){ .tv_nsec = g->linger_ns }, NULL);
        return;
    }
    pthread_mutex_lock(&g->lock);
    g->is_waiting = 1;
    pthread_cond_broadcast(&g->changed);
    while (!g->is_open && g->n_allowed == 0)
        pthread_cond_wait(&g->changed, &g->lock);
    g->is_waiting = 0;
    g->n_allowed -= !g->is_open;
    pthread_mutex_unlock(&g->lock);
}

/* Close it, and wait until the engine stands there: between its steps, flags read. */
static inline void step_gate_close(struct step_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_open = 0;
    g->n_allowed = 0;
    while (!g->is_waiting)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* Let n turns pass, and wait until the engine stands at the gate again. */
static inline void step_gate_pass(struct step_gate *g, int n)
{
    pthread_mutex_lock(&g->lock);
    g->n_allowed += n;
    pthread_cond_broadcast(&g->changed);
    while (g->n_allowed > 0 || !g->is_waiting)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static inline void step_gate_open(struct step_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_open = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* The events that are there, without waiting. */
static inline void fixture_take_present(struct running_model *m)
{
    struct engine_event event;
    while (engine_next_event(m->engine, &event))
        outcome_take(&event);
}

#endif
