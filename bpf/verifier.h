/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: what makes compiler and verifier agree. */
#ifndef SML_BPF_VERIFIER_H
#define SML_BPF_VERIFIER_H

/*
 * Hide from the compiler where a value comes from: it must neither trade it for
 * a loop's counter nor leave out the bound behind this, which the verifier needs.
 */
#define hide(value) asm volatile("" : "+r"(value))

#endif
