/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SML_MULTIVERSION before a function: compile it once for each vector width and
 * let the loader choose. It is empty if the compiler does not support that, and
 * with sanitizers (ifunc resolvers run before their runtime is ready). All
 * versions give the same bits, because the core is compiled with
 * -ffp-contract=off.
 */
#ifndef SML_CORE_MULTIVERSION_H
#define SML_CORE_MULTIVERSION_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                         \
	!defined(SML_NO_MULTIVERSION)
#define SML_HAS_MULTIVERSION 1
#define SML_MULTIVERSION     __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define SML_HAS_MULTIVERSION 0
#define SML_MULTIVERSION
#endif

#endif
