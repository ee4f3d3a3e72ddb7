/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a call's elements are written into lanes, and read from them: one of the codings
 * below, decided by type, operation, wire and the number of ranks alone. Pure functions,
 * one pass over memory each (quantize.h, wide.h). Which elements are in which chunk, and
 * when, is tensor.h's part.
 */
#ifndef SML_CORE_CODING_H
#define SML_CORE_CODING_H

#include "core/base.h"
#include "switchml.h"

enum sml_coding {
	SML_CODE_FLOAT,	  /* block floating point in a lane or half a lane */
	SML_CODE_LIMBS,	  /* float64 and int64: three lanes */
	SML_CODE_ORDER,	  /* MAX and MIN */
	SML_CODE_PAIR,	  /* MAX and MIN of 64 bits: two chunks for the same elements */
	SML_CODE_INTEGER, /* of at most 32 bits, a lane each */
	SML_CODE_HALVES,  /* of at most 16 bits, two to a lane */
	SML_CODE_BYTES
};

/* A coding with all that encoding and decoding need to know of the call. */
struct sml_code {
	enum sml_coding coding;
	enum sml_type type;
	bool halves;	 /* two elements to a lane */
	bool exponents;	 /* the elements of a chunk share an exponent */
	bool minimum;	 /* MIN: in lanes that are combined by MAX */
	uint8_t n_ranks; /* whose lanes are combined */
	uint8_t divisor; /* of the sum: n_ranks for an average, else 1 */
};

/* Bytes of one element in memory; 0: there is no such type. */
size_t sml_element_bytes(enum sml_type type);

struct sml_code sml_code_of(enum sml_type type, enum sml_op op, enum sml_wire wire,
			    uint8_t n_ranks);

/* Elements that fit into so many lanes, and lanes that so many elements take. */
uint32_t sml_code_elements(const struct sml_code *code, uint32_t lanes);
uint32_t sml_code_lanes(const struct sml_code *code, uint32_t count);

/* The local part of the exponent of these elements (code.exponents). */
int32_t sml_code_exponent(const struct sml_code *code, const void *elements, uint32_t count);

/*
 * Elements of a chunk to lanes and back, the lower halves of a pair (those of the upper
 * halves: sml_pair_high()). shared: the exponent of the chunk, or the combined upper halves
 * of a pair's elements; other codings do not read it.
 */
void sml_code_encode(const struct sml_code *code, const int32_t *shared, const void *elements,
		     uint32_t count, void *lanes);
void sml_code_decode(const struct sml_code *code, const int32_t *shared, const void *lanes,
		     uint32_t count, void *elements);

#endif
