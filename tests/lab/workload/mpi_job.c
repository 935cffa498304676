/* A training-like MPI job: host work, then one or two collectives, again and again. */
#include "options.h"

#include <mpi.h>
#include <stdio.h>

int main(int count, char **words)
{
    struct options options;
    double mine = 1.0, sum = 0.0, all[1024];
    int rank, size;

    options_parse(&options, count, words);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > (int)(sizeof(all) / sizeof(all[0])))
        MPI_Abort(MPI_COMM_WORLD, 2);
    work_open(&options, rank);
    work_pin(&options, rank, 1);
    for (int i = 0; i < options.prologue; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < options.steps; step++) {
        work_step(&options, rank, step);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (options.collectives < 2)
            continue;
        lab_sleep(options.sleep_ns / 4);
        MPI_Allgather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    }
    work_close();
    if (rank == 0)
        printf("done: %d ranks, sum %g\n", size, sum);
    MPI_Finalize();
    return 0;
}
