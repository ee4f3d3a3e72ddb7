/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's floating-point modes: how it rounds, whether subnormals count as zeros, and which
 * exceptions trap. A thread has those of its creator, which is the application. Where sums must not
 * depend on them, they are the default's for a moment. The code in between must not be inlined, or
 * the compiler could move arithmetic out of there.
 */
#ifndef SML_CORE_MODES_H
#define SML_CORE_MODES_H

#include "core/base.h"

#if defined(__x86_64__)

#define SML_MODES_DEFAULT 0x1f80u /* all exceptions are masked */
#define SML_MODES_FLAGS	  0x3fu	  /* what has happened, and no mode */

static inline uint64_t sml_modes_enter(void)
{
	unsigned modes = __builtin_ia32_stmxcsr();

	if ((modes & ~SML_MODES_FLAGS) != SML_MODES_DEFAULT)
		__builtin_ia32_ldmxcsr(SML_MODES_DEFAULT);
	return modes;
}

static inline void sml_modes_leave(uint64_t modes)
{
	if ((modes & ~(uint64_t)SML_MODES_FLAGS) != SML_MODES_DEFAULT)
		__builtin_ia32_ldmxcsr((unsigned)modes);
}

#elif defined(__aarch64__)

static inline uint64_t sml_modes_enter(void)
{
	uint64_t modes;

	asm volatile("mrs %0, fpcr" : "=r"(modes) : : "memory");
	if (modes != 0)
		asm volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
	return modes;
}

static inline void sml_modes_leave(uint64_t modes)
{
	if (modes != 0)
		asm volatile("msr fpcr, %0" : : "r"(modes) : "memory");
}

#else

static inline uint64_t sml_modes_enter(void)
{
	return 0;
}

static inline void sml_modes_leave(uint64_t modes)
{
	(void)modes;
}

#endif
#endif
