/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * What the core needs from its target, in user space and in eBPF: fixed-width
 * integers, byte order, assertions, and atomics. This is the only file of the
 * core that knows the target.
 */
#ifndef SML_CORE_BASE_H
#define SML_CORE_BASE_H

#ifdef __bpf__

/*
 * vmlinux.h or linux/types.h is included first and defines __u8 and the others.
 */
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
#ifndef __cplusplus
#ifndef bool
#define bool _Bool
#define true 1
#define false 0
#endif
#endif
#define sml_fetch_add_u32(pointer, n) __sync_fetch_and_add((pointer), (n))
#define sml_load_u64(pointer)	      (*(volatile uint64_t *)(pointer))
#define sml_exchange_u64(pointer, n)  __sync_lock_test_and_set((pointer), (n))
/*
 * A function of eBPF has at most five parameters, and before Linux 6.9, none is called while a lock
 * is held: what has more, or is used there, must be inlined.
 */
#define SML_SLOT_INLINE	      static inline __attribute__((always_inline))
#define sml_assert(condition) ((void)0)
/*
 * An index that is below n, a power of two. The compiler knows the bound and
 * removes a mask, but verifiers before Linux 6.8 forget it when a register is
 * spilled, and need the mask.
 */
#define sml_below(index, n)                                                                        \
	({                                                                                         \
		uint32_t index_ = (index);                                                         \
		asm volatile("" : "+r"(index_));                                                   \
		index_ &((n)-1);                                                                   \
	})
/*
 * The lesser of both, where a <= most + 1. Verifiers would follow both ways of a branch, and
 * clang makes one of a difference of signed numbers.
 */
#define sml_at_most(a, most) ((a) - (int32_t)(((uint32_t)(most) - (uint32_t)(a)) >> 31))

#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define sml_below(index, n)	      (index)
#define sml_at_most(a, most)	      ((a) < (most) ? (a) : (most)) /* vector units have it */
#define SML_SLOT_INLINE		      static inline

/*
 * Several threads draw the tickets of one stream, and add up how long the job has waited for each
 * rank. Threads share nothing else.
 */
#define sml_fetch_add_u32(pointer, n) __atomic_fetch_add((pointer), (n), __ATOMIC_RELAXED)
#define sml_load_u64(pointer)	      __atomic_load_n((pointer), __ATOMIC_RELAXED)
#define sml_exchange_u64(pointer, n)  __atomic_exchange_n((pointer), (n), __ATOMIC_RELAXED)

/*
 * A defect of ours ends the process, in release builds too. Each program links
 * one definition (base/assertion.c). The core calls no other external function.
 */
_Noreturn void sml_assertion_failed(const char *condition, const char *file, int line);
#define sml_assert(condition)                                                                      \
	((condition) ? (void)0 : sml_assertion_failed(#condition, __FILE__, __LINE__))

#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define sml_be16(x) __builtin_bswap16(x)
#define sml_be32(x) __builtin_bswap32(x)
#define sml_be64(x) __builtin_bswap64(x)
#else
#define sml_be16(x) ((uint16_t)(x))
#define sml_be32(x) ((uint32_t)(x))
#define sml_be64(x) ((uint64_t)(x))
#endif

/*
 * Serial numbers (chunks, tickets) wrap around: a comes before b if b - a,
 * modulo 2^32, is below 2^31.
 */
static inline bool sml_serial_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline uint32_t sml_serial_max(uint32_t a, uint32_t b)
{
	return sml_serial_before(a, b) ? b : a;
}

/* One step of a 32-bit hash: murmur3's finalizer over a running value. */
static inline uint32_t sml_hash_step(uint32_t hash, uint32_t value)
{
	hash ^= value + 0x9e3779b9u + (hash << 6) + (hash >> 2);
	hash ^= hash >> 16;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35u;
	return hash ^ (hash >> 16);
}

#endif
