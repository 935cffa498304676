/*
 * A training-like GPU job: host work, kernels on a compute stream, an all-reduce on
 * a communication stream ordered by events, as DistributedDataParallel does it.
 */
#define _GNU_SOURCE
#include "nccl_abi.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS (1 << 16)

typedef struct {
    unsigned x, y, z;
} dim3;

int cudaSetDevice(int device);
int cudaMalloc(void **out, size_t bytes);
int cudaFree(void *pointer);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                    CUstream stream);
int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes, CUstream stream);
int cudaStreamCreateWithFlags(CUstream *out, unsigned flags);
int cudaStreamDestroy(CUstream stream);
int cudaStreamSynchronize(CUstream stream);
int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
int cudaEventCreateWithFlags(CUevent *out, unsigned flags);
int cudaEventRecord(CUevent event, CUstream stream);

static CUstream compute_stream, comm_stream;
static CUevent gradients_ready, gradients_summed;
static float *gradients;

static void check(int result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "nccl_job: %s returned %d\n", what, result);
    exit(1);
}

static int number_from(const char *variable)
{
    const char *text = getenv(variable);

    if (!text) {
        fprintf(stderr, "nccl_job: %s is not set\n", variable);
        exit(2);
    }
    return atoi(text);
}

static void leave_id(const char *path, const ncclUniqueId *id)
{
    char partial[4096];
    FILE *file;

    snprintf(partial, sizeof(partial), "%s.partial", path);
    file = fopen(partial, "wb");
    if (!file || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) ||
        rename(partial, path))
        check(1, "writing the unique id");
}

static void find_id(const char *path, ncclUniqueId *id)
{
    FILE *file;

    while (!(file = fopen(path, "rb")))
        lab_sleep(5000000);
    if (fread(id, sizeof(*id), 1, file) != 1)
        check(1, "reading the unique id");
    fclose(file);
}

static ncclComm_t make_communicator(const struct options *options, int rank, int size)
{
    ncclUniqueId id;
    ncclComm_t comm;

    if (rank == 0) {
        check(ncclGetUniqueId(&id), "ncclGetUniqueId");
        leave_id(options->id_file, &id);
    } else {
        find_id(options->id_file, &id);
    }
    check(ncclCommInitRankConfig(&comm, size, id, rank, NULL), "ncclCommInitRank");
    return comm;
}

static void make_streams(void)
{
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&compute_stream, 1), "stream");
    check(cudaStreamCreateWithFlags(&comm_stream, 1), "stream");
    check(cudaEventCreateWithFlags(&gradients_ready, 2), "event");
    check(cudaEventCreateWithFlags(&gradients_summed, 2), "event");
    check(cudaMalloc((void **)&gradients, ELEMENTS * sizeof(float)), "cudaMalloc");
}

static void launch(int64_t duration_ns)
{
    dim3 one = {1, 1, 1};
    void *arguments[] = {&duration_ns};

    check(cudaLaunchKernel((const void *)launch, one, one, arguments, 0,
                           compute_stream),
          "cudaLaunchKernel");
}

static void all_reduce(ncclComm_t comm)
{
    check(cudaEventRecord(gradients_ready, compute_stream), "record");
    check(cudaStreamWaitEvent(comm_stream, gradients_ready, 0), "wait");
    check(ncclAllReduce(gradients, gradients, ELEMENTS, ncclFloat32, ncclSum, comm,
                        comm_stream),
          "ncclAllReduce");
    check(cudaEventRecord(gradients_summed, comm_stream), "record");
    check(cudaStreamWaitEvent(compute_stream, gradients_summed, 0), "wait");
}

static void run_steps(const struct options *options, ncclComm_t comm, int rank)
{
    for (int step = 0; step < options->steps; step++) {
        int64_t slow_ns = fault_of(options, FAULT_GPU, rank, step);

        work_step(options, rank, step);
        if (slow_ns)
            launch(slow_ns);
        for (int i = 0; i < options->kernels; i++)
            launch(options->kernel_ns);
        for (int i = 0; i < options->collectives; i++)
            all_reduce(comm);
        if ((step + 1) % options->sync_every == 0)
            check(cudaStreamSynchronize(compute_stream), "synchronise");
    }
    check(cudaStreamSynchronize(compute_stream), "synchronise");
}

/* Parameters go to everyone before the first step, as DDP's do. */
static void send_parameters(ncclComm_t comm)
{
    check(ncclBcast(gradients, ELEMENTS, ncclFloat32, 0, comm, comm_stream),
          "ncclBcast");
    check(cudaStreamSynchronize(comm_stream), "synchronise");
}

int main(int count, char **words)
{
    struct options options;
    int rank = number_from("RANK"), size = number_from("WORLD_SIZE");

    options_parse(&options, count, words);
    if (!options.id_file)
        check(2, "--id-file");
    work_pin(&options, rank, 0);
    work_open(&options, rank);
    make_streams();
    lab_sleep(options.start_ns);
    ncclComm_t comm = make_communicator(&options, rank, size);
    work_pin(&options, rank, 1);
    for (int i = 0; i < options.prologue; i++)
        send_parameters(comm);
    run_steps(&options, comm, rank);
    work_close();
    check(ncclCommDestroy(comm), "ncclCommDestroy");
    check(cudaFree(gradients), "cudaFree");
    cudaStreamDestroy(compute_stream);
    cudaStreamDestroy(comm_stream);
    if (rank == 0)
        printf("done: %d ranks\n", size);
    return 0;
}
