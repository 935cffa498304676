/*
 * hog CORE BUSY_US IDLE_US: burns one core in bursts at real-time priority until
 * its standard input closes.  Whoever else wants that core waits in its run queue.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void lab_sleep(int64_t duration_ns);

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(int count, char **words)
{
    struct sched_param priority = {.sched_priority = 1};
    struct pollfd parent = {.fd = 0, .events = POLLIN};
    cpu_set_t set;

    if (count != 4)
        return 2;
    CPU_ZERO(&set);
    CPU_SET(atoi(words[1]), &set);
    if (sched_setaffinity(0, sizeof(set), &set) ||
        sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("hog");
        return 1;
    }
    while (poll(&parent, 1, 0) == 0) {
        int64_t until = now_ns() + atoll(words[2]) * 1000;
        while (now_ns() < until)
            ;
        lab_sleep(atoll(words[3]) * 1000);
    }
    return 0;
}
