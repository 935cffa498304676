/* A driver that does nothing and a loop over one of its calls, timed by the block.
 *
 * -DDRIVER gives libcuda.so.1, with FIRST before the push that functions begin with.
 * The program reads a number of calls a line and prints
 * the nanoseconds of one call, of an entry-only probe (l) or of one with return (s).
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuStreamSynchronize(void *stream);

#ifdef DRIVER
#ifndef __x86_64__
#error "the first instruction of a function is chosen for x86-64 only"
#endif
#define FUNCTION(name)                                                                   \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n" FIRST         \
		"\n push %rbp\n mov %rsp, %rbp\n xor %eax, %eax\n pop %rbp\n ret\n"        \
		".size " #name ", . - " #name)
FUNCTION(cuLaunchKernel);
FUNCTION(cuStreamSynchronize);
#else
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(void)
{
	char call;
	long count;

	while (scanf(" %c %ld", &call, &count) == 2) {
		uint64_t start = now_ns();

		for (long i = 0; i < count; i++) {
			if (call == 'l')
				cuLaunchKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
			else
				cuStreamSynchronize(0);
		}
		printf("%.2f\n", (double)(now_ns() - start) / count);
		fflush(stdout);
	}
	return 0;
}
#endif
