/* The host work of a step: sleep, wait for input, compute. */
#define _GNU_SOURCE
#include "options.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH_BYTES 4096

static int ask = -1, input = -1;
static pid_t feeder;
static unsigned random_state;

int64_t fault_of(const struct options *options, enum fault_kind kind, int rank,
                 int step)
{
    if (options->fault != kind || rank != options->fault_rank)
        return 0;
    return (step + 1) % options->fault_every ? 0 : options->fault_ns;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The feeder is a program of its own, with no environment: no rank, no MPI. */
static void start_feeder(const char *program)
{
    int to_feeder[2], from_feeder[2];
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    char *environment[] = {NULL};
    posix_spawn_file_actions_t actions;

    if (pipe(to_feeder) || pipe(from_feeder))
        fail("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_feeder[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_feeder[1], 1);
    posix_spawn_file_actions_addclose(&actions, to_feeder[1]);
    posix_spawn_file_actions_addclose(&actions, from_feeder[0]);
    if (posix_spawn(&feeder, program, &actions, NULL, arguments, environment))
        fail(program);
    posix_spawn_file_actions_destroy(&actions);
    close(to_feeder[0]);
    close(from_feeder[1]);
    ask = to_feeder[1];
    input = from_feeder[0];
}

/* Ask for a batch that takes the feeder this long, and read all of it. */
static void read_batch(int64_t duration_ns)
{
    char batch[BATCH_BYTES];
    size_t have = 0;

    if (write(ask, &duration_ns, sizeof(duration_ns)) != sizeof(duration_ns))
        fail("write");
    while (have < sizeof(batch)) {
        ssize_t got = read(input, batch + have, sizeof(batch) - have);
        if (got <= 0)
            fail("read");
        have += (size_t)got;
    }
}

static int64_t cpu_time_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void compute(int64_t duration_ns)
{
    int64_t until = cpu_time_ns() + duration_ns;
    volatile double value = 1.0;

    while (cpu_time_ns() < until)
        for (int i = 0; i < 10000; i++)
            value = value * 1.0000001 + 1e-9;
}

void work_open(const struct options *options, int rank)
{
    random_state = 7919u * (unsigned)(rank + 1);
    if (options->feeder && (options->read_ns || options->fault == FAULT_READ))
        start_feeder(options->feeder);
}

void work_step(const struct options *options, int rank, int step)
{
    int64_t late = fault_of(options, FAULT_SLEEP, rank, step);
    int64_t input_ns = options->read_ns + fault_of(options, FAULT_READ, rank, step);
    int64_t busy_ns =
        options->compute_ns + fault_of(options, FAULT_COMPUTE, rank, step);
    int64_t jitter =
        options->jitter_ns
            ? (int64_t)(rand_r(&random_state) / (RAND_MAX + 1.0) *
                        (double)options->jitter_ns)
            : 0;

    if (options->sleep_ns + jitter)
        lab_sleep(options->sleep_ns + jitter);
    if (late)
        lab_sleep(late);
    if (input_ns && ask >= 0)
        read_batch(input_ns);
    if (busy_ns)
        compute(busy_ns);
}

void work_close(void)
{
    if (ask < 0)
        return;
    close(ask);
    close(input);
    waitpid(feeder, NULL, 0);
    ask = input = -1;
}

void work_pin(const struct options *options, int rank, int is_main_thread)
{
    int core = is_main_thread && rank == options->pin_rank ? options->pin_core
                                                           : options->others_core;
    cpu_set_t set;

    if (core < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        fail("sched_setaffinity");
}
