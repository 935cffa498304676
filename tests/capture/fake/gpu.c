/* A runtime and a driver that do nothing, with the real calling conventions.
 *
 * Compiled twice: -DDRIVER gives libcuda.so.1, -DRUNTIME libcudart.so.12 on top of it.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct {
	unsigned x, y, z;
} dim3;
struct launch_config {
	unsigned grid[3], block[3];
	size_t shared_bytes;
	void *stream;
};

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuLaunchKernelEx(const struct launch_config *config, void *f, void **params, void **extra);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream);
int cuStreamSynchronize(void *stream);
int cuEventQuery(void *event);
int cuMemAlloc_v2(uint64_t *pointer, size_t size);

#ifdef DRIVER
#define EMPTY __asm__ volatile("" ::: "memory"); return 0
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	EMPTY;
}
int cuLaunchKernelEx(const struct launch_config *config, void *f, void **params, void **extra)
{
	EMPTY;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
	EMPTY;
}
int cuStreamSynchronize(void *stream)
{
	EMPTY;
}
int cuEventQuery(void *event)
{
	return event ? 600 : 0; /* not ready, unless there is none */
}
int cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
	*pointer = 0x700000000000ULL + size;
	return 0;
}
#endif

#ifdef RUNTIME
void (*fake_hook)(void); /* run inside of a synchronisation */

int cudaDeviceSynchronize(void)
{
	if (fake_hook)
		fake_hook();
	return 0;
}
int cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared,
		     void *stream)
{
	return cuLaunchKernel((void *)f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
			      shared, stream, args, 0) + 0 * (int)(intptr_t)f;
}
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
	return cuMemcpyHtoDAsync_v2((uint64_t)to, from, size, stream) | 0 * kind;
}
int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		 size_t height, int kind)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
int cudaStreamSynchronize(void *stream)
{
	return cuStreamSynchronize(stream) | 0;
}
int cudaEventQuery(void *event)
{
	volatile int result = cuEventQuery(event);

	return result;
}
int cudaMalloc(void **pointer, size_t size)
{
	volatile int result = cuMemAlloc_v2((uint64_t *)pointer, size);

	return result;
}
int cudaStreamBeginCapture(void *stream, int mode)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
int cudaStreamEndCapture(void *stream, void **graph)
{
	*graph = (void *)0x6000;
	return 0;
}
#endif
