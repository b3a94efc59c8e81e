/* test_interrupt - the first signal is reported once asked, and what follows it is as before. */
#include "base/interrupt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void a_signal_is_reported_and_stays_reported(void **state)
{
    (void)state;
    const int signals[] = { SIGINT, SIGTERM };
    for (int i = 0; i < 2; i++) {
        struct interrupt interrupt;
        struct error err;
        assert_int_equal(interrupt_open(&interrupt, &err), STATUS_OK);
        assert_false(interrupt_has_come(&interrupt));
        kill(getpid(), signals[i]);
        assert_true(interrupt_has_come(&interrupt));
        assert_true(interrupt_has_come(&interrupt));
        interrupt_close(&interrupt);
        interrupt_close(&interrupt);
    }
}

/* In a child: the second one ends it, as does one after the close. */
static int end_of_child(int closes)
{
    pid_t child = fork();
    if (child == 0) {
        struct interrupt interrupt;
        if (interrupt_open(&interrupt, NULL) != STATUS_OK)
            _exit(3);
        if (!closes) {
            kill(getpid(), SIGINT);
            interrupt_has_come(&interrupt);
        } else {
            interrupt_close(&interrupt);
        }
        kill(getpid(), SIGINT);
        _exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void afterwards_signals_do_what_they_did(void **state)
{
    (void)state;
    signal(SIGINT, SIG_DFL);
    assert_int_equal(end_of_child(0), SIGINT);
    assert_int_equal(end_of_child(1), SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_reported_and_stays_reported),
        cmocka_unit_test(afterwards_signals_do_what_they_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
