/* Can this libbpf read this kernel's types? Loaded, attached, and thrown away at once.
 *
 * One field of one structure is all that it takes: a libbpf that is older than the
 * kernel cannot read its types at all. No maps, so that it costs nothing.
 */
struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

char LICENSE[] __attribute__((section("license"), used)) = "Dual BSD/GPL";

__attribute__((section("tp_btf/sched_process_exec"), used)) int read_a_task(
	unsigned long long *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return task->pid == 1;
}
