/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How elements of a call are written into lanes and read from them. The type, the operation,
 * the wire and the number of ranks alone select one of the codings below. All functions are
 * pure, and each makes one pass over memory (quantize.h, wide.h). tensor.h decides which
 * elements are in which chunk, and when.
 */
#ifndef SML_CORE_CODING_H
#define SML_CORE_CODING_H

#include "core/base.h"
#include "core/quantize.h"
#include "switchml.h"

enum sml_coding {
	SML_CODE_FLOAT,	  /* block floating point in a lane, or in a part of one */
	SML_CODE_LIMBS,	  /* float64, int64, and floats as float64: three lanes */
	SML_CODE_ORDER,	  /* MAX and MIN */
	SML_CODE_PAIR,	  /* MAX and MIN of 64 bits: two chunks for the same elements */
	SML_CODE_INTEGER, /* at most 32 bits, one element in a lane */
	SML_CODE_HALVES,  /* at most 16 bits, two elements in a lane */
	SML_CODE_RAW,	  /* floats of at most 32 bits that the switch adds as such: exact.h */
	SML_CODE_BYTES
};

/* A coding, with everything about the call that encoding and decoding need. */
struct sml_code {
	enum sml_coding coding;
	enum sml_type type;
	uint8_t width;	  /* bits of an element: 32 / width of them share a lane */
	bool rounded;	  /* the switch rounds the sums: rounding.h */
	bool exponents;	  /* all elements of a block share one exponent */
	bool minimum;	  /* the operation is MIN: MAX combines lanes in the reverse order */
	uint16_t n_ranks; /* how many ranks' lanes are combined */
	uint16_t divisor; /* what the sum is divided by: n_ranks for an average, else 1 */
	/* Rounded: the blocks of each packet, even if fewer have elements; 0: as many as have. */
	uint16_t packet_blocks;
};

/* How many bytes one element takes in memory, or 0 if the type does not exist. */
size_t sml_element_bytes(enum sml_type type);

struct sml_code sml_code_of(enum sml_type type, enum sml_op op, enum sml_wire wire,
			    uint16_t n_ranks);
/* The same coding for a switch that takes no lanes of two int16. Not for the int16 wire. */
struct sml_code sml_code_without_halves(struct sml_code code);
/* The same coding for a switch that adds floats. Codings of anything else stay as they are. */
struct sml_code sml_code_with_floats(struct sml_code code);
/*
 * The same coding for a switch that rounds the sums of narrow wires. Other codings stay as they
 * are. The int8 wire has no other form. full_lanes: each packet has as many blocks as fit into
 * this number of lanes; if 0, it has only those that have elements.
 */
struct sml_code sml_code_with_rounding(struct sml_code code, uint32_t full_lanes);

/* The elements that fit into a number of lanes, and the lanes that a number of elements needs. */
uint32_t sml_code_elements(const struct sml_code *code, uint32_t lanes);
uint32_t sml_code_lanes(const struct sml_code *code, uint32_t count);
/* How many blocks a packet with `count` elements has if code.rounded. Their shifts follow them. */
uint32_t sml_code_packet_blocks(const struct sml_code *code, uint32_t count);

/*
 * How many elements a block has, if code.exponents. Blocks are counted from the tensor's first
 * element. Their size depends on nothing but the wire, so that the bits of a result do not depend
 * on how packets hold elements. It is a multiple of 4, because up to 4 elements share a lane.
 */
static inline unsigned sml_code_block_bits(const struct sml_code *code)
{
	return code->coding == SML_CODE_LIMBS || code->width < 32 ? 6 : 8;
}

static inline uint32_t sml_code_block(const struct sml_code *code)
{
	return 1u << sml_code_block_bits(code);
}

/*
 * This rank's part of the exponents of these elements, the first of which begins a block. Here and
 * below, `residual` is of the same elements, and is added to them unless it is NULL. Only FLOAT and
 * RAW codings have one.
 */
void sml_code_exponents(const struct sml_code *code, const void *elements, const float *residual,
			uint64_t count, int16_t *exponents);

/*
 * Convert the elements [first, first + count) of a tensor to lanes and back. For a pair, these are
 * the lower halves; sml_pair_high() does the upper halves. shared has the tensor's exponents
 * (int16_t, one for each block), or the combined upper halves of all its pairs (int32_t). Other
 * codings do not read it. If code.rounded, `first` begins a block, and there are sml_code_lanes()
 * lanes.
 */
void sml_code_encode(const struct sml_code *code, const void *shared, uint64_t first,
		     const void *elements, const struct sml_feedback *feedback, uint32_t count,
		     void *lanes);
void sml_code_decode(const struct sml_code *code, const void *shared, uint64_t first,
		     const void *lanes, uint32_t count, void *elements);

#endif
