/* Wake-ups with the interrupt state of the waker, from where most kernels keep it.
 *
 * An object of its own: where a kernel has no such symbol, libbpf looks for it in all
 * modules, which takes CAP_SYS_ADMIN, and nothing of the object loads.
 */
#if defined(__TARGET_ARCH_x86)
#define IN_INTERRUPT (*(int *)bpf_this_cpu_ptr(&__preempt_count))
#else
#define IN_INTERRUPT \
	((u32)((struct task_struct *)bpf_get_current_task_btf())->thread_info.preempt_count)
#endif

#include "flavour.h"

#if defined(__TARGET_ARCH_x86)
extern const int __preempt_count __ksym;
#endif

#include "waking.h"
