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

#endif
