/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: makes the compiler's code acceptable to the verifier. */
#ifndef SML_BPF_VERIFIER_H
#define SML_BPF_VERIFIER_H

/*
 * Hide a value's origin from the compiler, which must neither replace the value
 * by a loop counter nor remove the following bounds check, which the verifier
 * needs.
 */
#define hide(value) asm volatile("" : "+r"(value))

/*
 * Have the verifier forget what it knows about a number. It follows all that comes next once for
 * each state that it knows of, but only once if the states differ in nothing but forgotten numbers.
 * through: of a map, where nobody else writes now.
 */
static __always_inline uint32_t forget(uint32_t *through, uint32_t number)
{
	*(volatile uint32_t *)through = number;
	return *(volatile uint32_t *)through;
}

#endif
