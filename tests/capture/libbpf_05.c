/* Answers as libbpf 0.5 does where it cannot do what is asked; STANDIN_REFUSES says what.
 *
 *   kind    reading the types of a kernel that is newer than the library
 *   type    a program in a section whose name it does not know
 *   attach  attaching by name, with the error as a pointer
 *
 * No version function, as in 0.5. What it says, and at which level, are the words of
 * libbpf 0.5, so that what the recorder makes of them is what users will read.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { WARN, INFO, DEBUG };

typedef int (*print_function)(int level, const char *format, va_list values);

static print_function print;
static int object, program;

static void say(int level, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    if (print)
        print(level, format, values);
    va_end(values);
}

static int refuses(const char *what)
{
    const char *asked = getenv("STANDIN_REFUSES");

    return asked && !strcmp(asked, what);
}

print_function libbpf_set_print(print_function function)
{
    print_function before = print;

    print = function;
    return before;
}

void *bpf_object__open_mem(const void *content, size_t size, const void *options)
{
    (void)options;
    return size > 4 && !memcmp(content, "\177ELF", 4) ? &object : NULL;
}

void *btf__load_vmlinux_btf(void)
{
    if (!refuses("kind"))
        return &object;
    say(DEBUG, "libbpf: Unsupported BTF_KIND:%u\n", 19);
    say(WARN, "libbpf: failed to find valid kernel BTF\n");
    return (void *)(long)-ESRCH;
}

void btf__free(void *types)
{
    (void)types;
}

int bpf_object__load(void *opened)
{
    (void)opened;
    if (refuses("kind")) {
        btf__load_vmlinux_btf();
        say(WARN, "libbpf: Error loading vmlinux BTF: %d\n", -ESRCH);
        return -ESRCH;
    }
    if (refuses("type")) {
        say(WARN,
            "libbpf: prog '%s': missing BPF prog type, check ELF section name '%s'\n",
            "read_a_task", "tp_btf/sched_process_exec");
        return -EINVAL;
    }
    return 0;
}

void *bpf_object__find_program_by_name(const void *opened, const char *name)
{
    (void)opened;
    (void)name;
    return &program;
}

void *bpf_program__attach(void *found)
{
    (void)found;
    return (void *)(long)-ESRCH;
}

int bpf_link__destroy(void *link)
{
    (void)link;
    return 0;
}

void bpf_object__close(void *opened)
{
    (void)opened;
}
