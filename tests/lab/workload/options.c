/* Options of the workloads: `--name value` pairs, times in microseconds. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fault_names[] = {"none", "sleep", "read", "compute", "gpu"};

static void refuse(const char *word)
{
    fprintf(stderr, "workload: cannot use option %s\n", word);
    exit(2);
}

static enum fault_kind fault_named(const char *name)
{
    for (int i = 0; i < (int)(sizeof(fault_names) / sizeof(fault_names[0])); i++)
        if (!strcmp(name, fault_names[i]))
            return (enum fault_kind)i;
    refuse(name);
    return FAULT_NONE;
}

static void set(struct options *o, const char *name, const char *value)
{
    struct {
        const char *name;
        int *number;
        int64_t *time;
        const char **text;
    } known[] = {
        {"--steps", &o->steps, 0, 0},
        {"--collectives", &o->collectives, 0, 0},
        {"--prologue", &o->prologue, 0, 0},
        {"--start-us", 0, &o->start_ns, 0},
        {"--sleep-us", 0, &o->sleep_ns, 0},
        {"--jitter-us", 0, &o->jitter_ns, 0},
        {"--read-us", 0, &o->read_ns, 0},
        {"--compute-us", 0, &o->compute_ns, 0},
        {"--kernels", &o->kernels, 0, 0},
        {"--kernel-us", 0, &o->kernel_ns, 0},
        {"--sync-every", &o->sync_every, 0, 0},
        {"--pin-rank", &o->pin_rank, 0, 0},
        {"--pin-core", &o->pin_core, 0, 0},
        {"--others-core", &o->others_core, 0, 0},
        {"--fault-rank", &o->fault_rank, 0, 0},
        {"--fault-every", &o->fault_every, 0, 0},
        {"--fault-us", 0, &o->fault_ns, 0},
        {"--feeder", 0, 0, &o->feeder},
        {"--id-file", 0, 0, &o->id_file},
    };

    if (!strcmp(name, "--fault")) {
        o->fault = fault_named(value);
        return;
    }
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name))
            continue;
        if (known[i].number)
            *known[i].number = atoi(value);
        else if (known[i].time)
            *known[i].time = strtoll(value, NULL, 10) * 1000;
        else
            *known[i].text = value;
        return;
    }
    refuse(name);
}

void options_parse(struct options *options, int count, char **words)
{
    *options = (struct options){
        .steps = 10,
        .collectives = 1,
        .kernels = 4,
        .kernel_ns = 500000,
        .sync_every = 1,
        .pin_rank = -1,
        .pin_core = -1,
        .others_core = -1,
        .fault_rank = -1,
        .fault_every = 1,
    };
    for (int i = 1; i + 1 < count; i += 2)
        set(options, words[i], words[i + 1]);
    if (count % 2 == 0)
        refuse(words[count - 1]);
}
