/* Wake-ups with the interrupt state of the waker, from where x86-64 kernels 6.2 to 6.14 keep it.
 *
 * An object of its own: where a kernel has no such symbol, libbpf looks for it in all
 * modules, which takes CAP_SYS_ADMIN, and nothing of the object loads.
 */
#define IN_INTERRUPT (((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count)

#include "flavour.h"

struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));
extern const struct pcpu_hot pcpu_hot __ksym;

#include "waking.h"
