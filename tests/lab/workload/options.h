/* What a workload does in a step, and what is wrong with one of its ranks. */
#ifndef COLDTRACE_LAB_OPTIONS_H
#define COLDTRACE_LAB_OPTIONS_H

#include <stdint.h>

enum fault_kind { FAULT_NONE, FAULT_SLEEP, FAULT_READ, FAULT_COMPUTE, FAULT_GPU };

struct options {
    int steps;
    int collectives;    /* 1 or 2 a step */
    int prologue;       /* barriers before the first step */
    int64_t start_ns;   /* before communication is set up: what importing takes */
    int64_t sleep_ns;   /* every rank, every step */
    int64_t jitter_ns;  /* up to this is added to the sleep, evenly spread */
    int64_t read_ns;    /* time until the input of a step is there; 0: no input */
    int64_t compute_ns; /* CPU time of a step */
    int kernels;        /* GPU kernels of a step, NCCL job only */
    int64_t kernel_ns;
    int sync_every;     /* steps from one stream synchronisation to the next */
    int pin_rank, pin_core; /* put this rank's main thread on this core */
    int others_core;    /* and all other threads of the job on that one; -1: free */
    enum fault_kind fault;
    int fault_rank;
    int fault_every;    /* at the last of each so many steps */
    int64_t fault_ns;
    const char *feeder; /* program that brings the input */
    const char *id_file; /* where rank 0 leaves the unique id, NCCL job only */
};

void options_parse(struct options *options, int count, char **words);

/* Host work of one step, with this rank's fault in it if the step has it. */
void work_open(const struct options *options, int rank);
void work_step(const struct options *options, int rank, int step);
void work_close(void);
/* Put the calling thread where the options want it. */
void work_pin(const struct options *options, int rank, int is_main_thread);
int64_t fault_of(const struct options *options, enum fault_kind kind, int rank,
                 int step);

void lab_sleep(int64_t duration_ns);

#endif
