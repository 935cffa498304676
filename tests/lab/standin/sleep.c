/* Sleep for a while, to the end, whatever signals come. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <time.h>

void lab_sleep(int64_t duration_ns);

void lab_sleep(int64_t duration_ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += duration_ns / 1000000000;
    until.tv_nsec += duration_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
