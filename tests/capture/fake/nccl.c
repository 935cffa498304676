/* Collective calls that do nothing, with NCCL's calling conventions.
 *
 * A split inside a group fills its handle at the group's end, as the real one may.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct {
	char internal[128];
} ncclUniqueId;
typedef struct comm *ncclComm_t;

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);

static __thread int depth;
static __thread ncclComm_t *late;
static uintptr_t next = 0x100000;

int ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	*comm = (ncclComm_t)(next += 0x1000);
	return 0;
}
int ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
	for (int i = 0; i < count; i++)
		comms[i] = (ncclComm_t)(next += 0x1000);
	return 0;
}
int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, void *config)
{
	*made = 0;
	if (color < 0)
		return 0;
	if (depth)
		late = made;
	else
		*made = (ncclComm_t)(next += 0x1000);
	return 0;
}
int ncclGroupStart(void)
{
	depth++;
	return 0;
}
int ncclGroupEnd(void)
{
	if (--depth == 0 && late) {
		*late = (ncclComm_t)(next += 0x1000);
		late = 0;
	}
	return 0;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm,
		  void *stream)
{
	return cuLaunchKernel(0, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) | 0;
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
		  ncclComm_t comm, void *stream)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
int ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
	volatile int result = ncclBroadcast(buffer, buffer, count, type, root, comm, stream);

	return result;
}
int ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
int ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
int ncclCommDestroy(ncclComm_t comm)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}
