/* SPDX-License-Identifier: BSD-3-Clause */
/* MAX and MIN of 64-bit elements, in two passes of 32-bit lanes: see wide.h. */
#include "core/element.h"
#include "core/quantize.h"
#include "core/wide.h"

#define KEY_NAN 0x7fffffffffffffffu /* above everything, for MAX and MIN alike */

/* As order_of() in order.c, with 64 bits. */
SML_INLINE uint64_t key_of(uint64_t bits, bool is_float, uint64_t flip)
{
	uint64_t negative = is_float ? -(bits >> 63) & SML_FLOAT64_REST : 0;

	return is_float && (bits & SML_FLOAT64_REST) > SML_FLOAT64_INFINITY
		       ? KEY_NAN
		       : bits ^ negative ^ flip;
}

SML_INLINE uint64_t key_undo(uint64_t key, bool is_float, uint64_t flip)
{
	uint64_t bits = key ^ flip;

	if (!is_float)
		return bits;
	return key == KEY_NAN ? SML_FLOAT64_NAN : bits ^ (-(bits >> 63) & SML_FLOAT64_REST);
}

void sml_pair_high(enum sml_type type, const void *elements, size_t count, bool minimum,
		   void *lanes)
{
	uint64_t flip = minimum ? UINT64_MAX : 0;
	bool is_float = type == SML_FLOAT64;

	for (size_t i = 0; i < count; i++)
		((sml_any_u32 *)lanes)[i] = sml_be32(
			(uint32_t)(key_of(((const sml_any_u64 *)elements)[i], is_float, flip) >>
				   32));
}

void sml_pair_keep_highs(const void *lanes, size_t count, int32_t *highs)
{
	for (size_t i = 0; i < count; i++)
		highs[i] = (int32_t)sml_be32(((const sml_any_u32 *)lanes)[i]);
}

/* Lower halves are unsigned, but the switch compares signed lanes, so their top bit is inverted. */
void sml_pair_low(enum sml_type type, const void *elements, size_t count, bool minimum,
		  const int32_t *highs, void *lanes)
{
	uint64_t flip = minimum ? UINT64_MAX : 0;
	bool is_float = type == SML_FLOAT64;

	for (size_t i = 0; i < count; i++) {
		uint64_t key = key_of(((const sml_any_u64 *)elements)[i], is_float, flip);
		bool largest = (uint32_t)(key >> 32) == (uint32_t)highs[i];

		((sml_any_u32 *)lanes)[i] =
			sml_be32(sml_select(largest, (uint32_t)key ^ 0x80000000u, 0x80000000u));
	}
}

void sml_pair_decode(enum sml_type type, const int32_t *highs, const void *lanes, size_t count,
		     bool minimum, void *elements)
{
	uint64_t flip = minimum ? UINT64_MAX : 0;
	bool is_float = type == SML_FLOAT64;

	for (size_t i = 0; i < count; i++) {
		uint32_t low = sml_be32(((const sml_any_u32 *)lanes)[i]) ^ 0x80000000u;

		((sml_any_u64 *)elements)[i] =
			key_undo((uint64_t)(uint32_t)highs[i] << 32 | low, is_float, flip);
	}
}
