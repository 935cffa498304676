/* Makes a prime number of each call, after a line on stdin; then waits for the end of it.
 *
 * What it does is named by the first argument: see main.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
	unsigned x, y, z;
} dim3;
typedef struct {
	char internal[128];
} ncclUniqueId;
struct launch_config {
	unsigned grid[3], block[3];
	size_t shared_bytes;
	void *stream;
};

int cuLaunchKernelEx(const struct launch_config *, void *, void **, void **);
int cuStreamSynchronize(void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaDeviceSynchronize(void);
extern void (*fake_hook)(void);
int cudaStreamSynchronize(void *);
int cudaEventQuery(void *);
int cudaMalloc(void **, size_t);
int cudaStreamBeginCapture(void *, int);
int cudaStreamEndCapture(void *, void **);
int ncclCommInitRank(void **, int, ncclUniqueId, int);
int ncclCommInitAll(void **, int, const int *);
int ncclCommSplit(void *, int, int, void **, void *);
int ncclCommDestroy(void *);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclBcast(void *, size_t, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);
int ncclRecv(void *, size_t, int, int, void *, void *);

#define STREAM ((void *)0x5000)
#define TIMES(n) for (int i = 0; i < (n); i++)

static void gpu_calls(void)
{
	struct launch_config config = {.stream = STREAM};
	dim3 one = {1, 1, 1};
	void *pointer;

	TIMES(17) cudaLaunchKernel((void *)0x4000, one, one, 0, 0, STREAM);
	TIMES(7) cuLaunchKernelEx(&config, (void *)0x4000, 0, 0);
	TIMES(11) cudaMemcpyAsync((void *)16, (void *)32, 1009, 1, STREAM);
	TIMES(3) cudaMemcpy2D(0, 64, 0, 64, 10, 7, 2);
	TIMES(5) cudaStreamSynchronize(STREAM);
	TIMES(2) cuStreamSynchronize(STREAM);
	TIMES(13) cudaEventQuery((void *)0x3000);
	TIMES(3) cudaEventQuery(0);
	TIMES(2) cudaMalloc(&pointer, 4099);
}

static void captured_calls(void)
{
	void *graph;

	cudaStreamBeginCapture(STREAM, 0);
	TIMES(2) cudaMemcpyAsync((void *)16, (void *)32, 2003, 1, STREAM);
	cudaStreamEndCapture(STREAM, &graph);
}

static void collective_calls(void)
{
	void *comm, *child, *none, *all[2];
	ncclUniqueId id;

	for (int i = 0; i < 128; i++)
		id.internal[i] = i;
	ncclCommInitRank(&comm, 4, id, 3);
	TIMES(11) ncclAllReduce(0, 0, 1021, 7, 0, comm, STREAM);
	TIMES(5) ncclBcast(0, 503, 0, 2, comm, STREAM);
	ncclGroupStart();
	ncclGroupStart();
	TIMES(3) ncclSend(0, 101, 7, 1, comm, STREAM);
	ncclGroupEnd();
	TIMES(2) ncclRecv(0, 101, 7, 1, comm, STREAM);
	ncclGroupEnd();
	ncclSend(0, 101, 7, 2, comm, STREAM);
	ncclCommSplit(comm, -1, 0, &none, 0);
	ncclGroupStart();
	ncclCommSplit(comm, 5, 9, &child, 0);
	ncclGroupEnd();
	TIMES(3) ncclAllReduce(0, 0, 13, 7, 0, child, STREAM);
	ncclCommInitAll(all, 2, 0);
	ncclAllReduce(0, 0, 13, 7, 0, all[1], STREAM);
	ncclCommDestroy(child);
	ncclAllReduce(0, 0, 13, 7, 0, (void *)0x42, STREAM);
}

static void pause_ns(long ns)
{
	struct timespec time = {ns / 1000000000, ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *yield_for(void *seconds)
{
	long long end = now_ns() + (long)seconds * 1000000000LL;

	while (now_ns() < end)
		syscall(SYS_sched_yield);
	return 0;
}

static void *spin_for(void *seconds)
{
	long long end = now_ns() + (long)seconds * 1000000000LL;

	while (now_ns() < end)
		;
	return 0;
}

static void two_on_one_cpu(void *(*work)(void *))
{
	cpu_set_t one;
	pthread_t other;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_create(&other, 0, work, (void *)1);
	work((void *)1);
	pthread_join(other, 0);
}

static jmp_buf place;

static void jump(void)
{
	longjmp(place, 1);
}

static void say_done_and_wait(void)
{
	char line[16];

	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
}

static __attribute__((noinline)) void leave_by_jump(void)
{
	fake_hook = jump;
	if (!setjmp(place))
		cudaDeviceSynchronize();
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "calls";
	char line[16];
	int status;

	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (!strcmp(what, "calls")) {
		gpu_calls();
		captured_calls();
		collective_calls();
	} else if (!strcmp(what, "fork")) {
		TIMES(2) cuStreamSynchronize(STREAM);
		if (!fork()) {
			TIMES(3) cuStreamSynchronize(STREAM);
			_exit(0);
		}
		wait(&status);
	} else if (!strcmp(what, "sleep")) {
		cuStreamSynchronize(STREAM);
		TIMES(20) pause_ns(5000000);
		TIMES(100) pause_ns(20000);
	} else if (!strcmp(what, "yield")) {
		cuStreamSynchronize(STREAM);
		two_on_one_cpu(yield_for);
	} else if (!strcmp(what, "spin")) {
		cuStreamSynchronize(STREAM);
		two_on_one_cpu(spin_for);
	} else if (!strcmp(what, "jump")) {
		leave_by_jump();
		cudaStreamSynchronize(STREAM);
	} else if (!strcmp(what, "hang")) {
		fake_hook = say_done_and_wait;
		cudaDeviceSynchronize();
		return 0;
	}
	say_done_and_wait();
	return 0;
}
