/* test_clock - time goes forward, at the pace of the system's, and CPU time only while working. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

static void sleep_ms(long ms)
{
    struct timespec left = { .tv_nsec = ms * 1000000 };
    while (nanosleep(&left, &left) != 0)
        continue;
}

static void the_monotonic_clock_never_goes_back(void **state)
{
    (void)state;
    int64_t last = clock_now_ns();
    for (int i = 0; i < 200000; i++) {
        int64_t now = clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void a_sleep_takes_wall_time_and_no_cpu_time(void **state)
{
    (void)state;
    int64_t wall = clock_now_ns(), cpu = clock_thread_cpu_ns();
    sleep_ms(50);
    wall = clock_now_ns() - wall;
    cpu = clock_thread_cpu_ns() - cpu;
    assert_true(wall >= 50000000 && wall < 5000000000);
    assert_true(cpu >= 0 && cpu < 20000000);
}

static void work_takes_cpu_time_but_not_more_than_wall_time(void **state)
{
    (void)state;
    int64_t wall = clock_now_ns(), cpu = clock_thread_cpu_ns();
    volatile unsigned sink = 0;
    while (clock_thread_cpu_ns() - cpu < 20000000)
        sink++;
    cpu = clock_thread_cpu_ns() - cpu;
    wall = clock_now_ns() - wall;
    assert_true(cpu >= 20000000);
    assert_true(wall + 2000000 >= cpu);     /* the two clocks are read one after the other */
}

static void unix_seconds_are_those_of_the_system(void **state)
{
    (void)state;
    int64_t before = (int64_t)time(NULL), got = clock_unix_seconds(), after = (int64_t)time(NULL);
    assert_true(before <= got && got <= after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
        cmocka_unit_test(a_sleep_takes_wall_time_and_no_cpu_time),
        cmocka_unit_test(work_takes_cpu_time_but_not_more_than_wall_time),
        cmocka_unit_test(unix_seconds_are_those_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
