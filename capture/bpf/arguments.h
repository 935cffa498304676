/* Where a call keeps its arguments, on either architecture, and how one is read. */
#ifndef COLDTRACE_ARGUMENTS_H
#define COLDTRACE_ARGUMENTS_H

#include "flavour.h"

INLINE u64 read_user(u64 address, u32 width)
{
	u64 value = 0;

	if (width == 4)
		bpf_probe_read_user(&value, 4, (void *)address);
	else
		bpf_probe_read_user(&value, 8, (void *)address);
	return value;
}

#if defined(__TARGET_ARCH_x86)
#define RETURN_POPPED 8 /* the return instruction popped the return address */
#define RETURN_ADDRESS(ctx) read_user((ctx)->sp, 8)
#define STACK(ctx) ((ctx)->sp)
#define RESULT(ctx) ((s32)(ctx)->ax)
#else
#define RETURN_POPPED 0
#define USER(ctx) ((struct user_pt_regs *)(ctx))
#define RETURN_ADDRESS(ctx) (USER(ctx)->regs[30])
#define STACK(ctx) (USER(ctx)->sp)
#define RESULT(ctx) ((s32)USER(ctx)->regs[0])
#endif

/* The registers of an entry, copied before anything is decided: the compiler merges
 * reads of the context in different branches into one with a computed offset, which the
 * verifier refuses for a context and allows for the stack. */
struct registers {
	u64 argument[8];
	u64 stack;
	u64 caller;
};

INLINE void read_registers(struct pt_regs *ctx, struct registers *to)
{
#if defined(__TARGET_ARCH_x86)
	to->argument[0] = ctx->di;
	to->argument[1] = ctx->si;
	to->argument[2] = ctx->dx;
	to->argument[3] = ctx->cx;
	to->argument[4] = ctx->r8;
	to->argument[5] = ctx->r9;
	to->argument[6] = to->argument[7] = 0; /* on the stack */
#else
	int i;

#pragma unroll
	for (i = 0; i < 8; i++)
		to->argument[i] = USER(ctx)->regs[i];
#endif
	to->stack = STACK(ctx);
	to->caller = RETURN_ADDRESS(ctx);
}

INLINE u64 register_of(struct registers *from, u8 place)
{
	switch (place) {
	case 1: return from->argument[0];
	case 2: return from->argument[1];
	case 3: return from->argument[2];
	case 4: return from->argument[3];
	case 5: return from->argument[4];
	case 6: return from->argument[5];
	case 7: return from->argument[6];
	case 8: return from->argument[7];
	}
	return 0;
}

INLINE u64 argument(struct registers *from, struct argument *where)
{
	u64 value;

	if (where->place & 128)
		value = read_user(from->stack + 8 * (where->place & 127), 8);
	else
		value = register_of(from, where->place);
	if (where->follow == 1)
		value = read_user(value + where->offset, where->width);
	return where->width == 4 ? (u64)(s64)(s32)value : value;
}

#define HAS(row, slot) ((row)->arguments[slot].place)
#define GET(from, row, slot) argument(from, &(row)->arguments[slot])

#endif
