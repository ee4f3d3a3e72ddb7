/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective call, seen as chunks. A tensor knows which windows of the job's two endless
 * streams it owns, what its chunks look like as lanes, and what is still missing. The
 * sequence of calls alone determines its windows.
 *
 *	form        head chunks                         data chunks
 *	EMPTY       one, without lanes (barrier)        none
 *	GATHER      some: every rank's own bits         none
 *	SMALL       one: the elements themselves        none
 *	EXPONENT    one for a run of blocks: their      the elements
 *	            exponents, op MAX
 *	PLAIN       one, without lanes                  the elements
 *
 * MAX and MIN of 64-bit elements are PLAIN with twice the data chunks: the first half
 * carries the elements' upper halves, the second half carries the lower halves (wide.h). A
 * chunk of the second half can be sent when the matching chunk of the first half is done.
 *
 * Exponents belong to blocks of elements, whose size does not depend on packets (coding.h). So a
 * data chunk may have elements of several blocks, and its first and last blocks may be partly in
 * other chunks. It can be sent when the head chunks of all its blocks are done.
 *
 * All shards of a worker share the tensor. One shard serves each chunk, so the chunk's done
 * byte and its part of the buffers have one writer. Everything that several shards write is
 * atomic.
 */
#ifndef SML_CORE_TENSOR_H
#define SML_CORE_TENSOR_H

#include "core/base.h"
#include "core/coding.h"
#include "core/pool.h"
#include "switchml.h"

enum sml_collective {
	SML_ALLREDUCE = 0,
	SML_BROADCAST = 1,
	SML_ALLGATHER = 2,
	SML_REDUCE_SCATTER = 3,
	SML_BARRIER = 4,
	SML_REDUCE = 5
};

/* Do these bytes have one in common? */
static inline bool sml_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a + a_bytes > (uintptr_t)b &&
	       (uintptr_t)b + b_bytes > (uintptr_t)a;
}

/* A call as the application made it. Element ranges refer to the whole tensor. */
struct sml_tensor_spec {
	enum sml_collective collective;
	enum sml_type type;
	enum sml_op op;
	/* Never DEFAULT or GRADIENT. EXACT: SUM or AVG of floats, if sml_tensor_may_be_exact(). */
	enum sml_wire wire;
	uint16_t root;
	/*
	 * For calls whose elements travel as bytes: the type that the program passed. It must be
	 * the same on all ranks.
	 */
	enum sml_type named_type;
	uint32_t name;	/* a hash of the call's name; 0 if it has none */
	uint64_t count; /* elements of the whole tensor */
	/*
	 * This rank contributes [send_first, + send_count) and zeros elsewhere; send[0] is the
	 * first.
	 */
	const void *send;
	uint64_t send_first, send_count;
	/*
	 * NULL, or for each element of `send` what calls before have lost: it is added. What this
	 * call loses replaces it in sml_tensor_keep(), because chunks may be filled again until
	 * then, and the call may fail. Only SUM and AVG of floats of at most 32 bits.
	 */
	float *residual;
	/* This rank wants [recv_first, + recv_count); recv[0] receives the first. */
	void *recv;
	uint64_t recv_first, recv_count;
};

/* Does the call read or write any of these bytes? */
bool sml_tensor_uses(const struct sml_tensor_spec *spec, const void *memory, size_t bytes);

/* What all tensors of a job have in common. */
struct sml_shape {
	uint16_t lanes; /* of a full packet */
	uint16_t rank;
	uint16_t n_ranks;
	bool only_full;	 /* the switch takes no shorter packets */
	bool only_int32; /* it takes no lanes of two int16; then no spec has the int16 wire */
	bool rounds;	 /* it rounds sums of narrow lanes; see sml_shape_rounds() */
	bool floats;	 /* it adds lanes of floats: exact.h */
};

/*
 * Are sums of lanes of this width rounded? A packet must have room for a block. Otherwise no spec
 * has the int8 wire, and the int16 wire has another form.
 */
static inline bool sml_shape_rounds(const struct sml_shape *shape, uint32_t width)
{
	return shape->rounds && sml_rounded_blocks(width, shape->lanes) > 0;
}

/* Does the switch add sums of this float as such? */
static inline bool sml_shape_adds(const struct sml_shape *shape, enum sml_type type)
{
	return type != SML_FLOAT64 && shape->floats;
}

enum sml_form {
	SML_FORM_EMPTY,
	SML_FORM_GATHER,
	SML_FORM_SMALL,
	SML_FORM_EXPONENT,
	SML_FORM_PLAIN
};

/*
 * The progress of a chunk. The one slot that sends a chunk has CLAIMED it. Only a head chunk
 * whose lanes are exponents is ever MEASURED.
 *
 * The claim protects against a switch that lies. If the switch gave the same chunk to two
 * slots, the second slot would access buffers that the application got back after the first
 * result.
 */
enum sml_chunk_progress {
	SML_CHUNK_NEW = 0,
	SML_CHUNK_CLAIMED = 1,
	SML_CHUNK_MEASURED = 2,
	SML_CHUNK_DONE = 3
};

/* A contiguous part of a stream. */
struct sml_window {
	uint32_t first; /* the lower half of the number: packets and error texts use it */
	uint32_t count;
};

/* Where the next tensor's windows begin. The thread that orders the calls owns it. */
struct sml_sequence {
	uint32_t number;
	uint64_t next[SML_STREAMS];
};

struct sml_tensor {
	struct sml_tensor_spec spec;
	struct sml_shape shape;
	enum sml_form form;
	/* The receive buffer has all elements, and their coding can be reversed (recover.h). */
	bool recoverable;
	struct sml_code code;
	uint32_t number;
	uint32_t digest;
	uint32_t elements_per_chunk;
	/*
	 * EXPONENT: the elements of all blocks whose exponents a full head chunk carries. There are
	 * as many as fit, or fewer if the elements (half a megabyte) would leave the cache between
	 * measuring and quantizing.
	 */
	uint32_t elements_per_head;
	struct sml_window window[SML_STREAMS];
	uint64_t first[SML_STREAMS]; /* of each window, in full: streams never end */

	/*
	 * Exponents of the blocks: this rank's own while a head chunk is MEASURED, the job's
	 * when it is DONE. The head's DONE is stored with release order after its exponents. Data
	 * chunks load it with acquire order.
	 */
	int16_t *exponents;
	int32_t *highs; /* SML_CODE_PAIR: the largest upper halves, instead of exponents */
	uint8_t *progress[SML_STREAMS]; /* atomic: enum sml_chunk_progress */
	uint32_t left;			/* atomic: chunks of both streams that are still missing */
	float *lost;			/* with a residual: what filled chunks have lost */

	/* For the library; the core never reads it. */
	void *owner;
	struct sml_tensor *next;
};

/*
 * Can a sum travel on the exact wire? If the switch does not add its floats as such, they are
 * gathered: then a packet needs room for an element of every rank.
 */
bool sml_tensor_may_be_exact(enum sml_type type, const struct sml_shape *shape);

/* Bytes that sml_tensor_init() needs at `memory` (8-byte aligned). */
size_t sml_tensor_memory_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape);

/*
 * Assign a tensor its place in the streams. This call accesses neither buffer: filling the
 * first chunk does. All ranks must make the calls in the same order.
 */
void sml_tensor_init(struct sml_tensor *tensor, const struct sml_tensor_spec *spec,
		     const struct sml_shape *shape, struct sml_sequence *sequence, void *memory);

bool sml_tensor_is_done(const struct sml_tensor *tensor);

/* A chunk's name is its index in the tensor's window of a stream. */
bool sml_tensor_chunk_is_done(const struct sml_tensor *tensor, enum sml_stream_id stream,
			      uint32_t index);

/* Can a data chunk be sent, that is, have its exponents arrived? */
bool sml_tensor_chunk_is_ready(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index);

/*
 * The part of a tensor that belongs to one stripe of n_stripes. Chunk c of a stream belongs
 * to stripe c mod n_stripes, which numbers it c div n_stripes. These numbers wrap around at
 * 2^32 for any n_stripes.
 */
struct sml_window sml_tensor_stripe_window(const struct sml_tensor *tensor,
					   enum sml_stream_id stream, uint32_t stripe,
					   uint32_t n_stripes);

/*
 * Claim a chunk for a slot that will send it for the first time in this epoch. False:
 * another slot has it, or it is done; then neither fill nor take it. release() undoes a
 * claim if no result came: a slot of another epoch will send the chunk.
 */
bool sml_tensor_claim(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index);
void sml_tensor_release(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index);

/* Set the header fields that depend on the tensor: lanes, op, lane_kind, digest. */
void sml_tensor_describe_chunk(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index, struct sml_contribution *out);

/* Write the lanes of a claimed chunk, as many as described, 4-byte aligned. */
void sml_tensor_fill(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     void *lanes);

/*
 * Does one rank alone contribute each byte (broadcast, scatter, gather, all-gather)? Then ranks
 * that share memory need no sum: each of them places its bytes of a claimed chunk, and leaves all
 * others as they are.
 */
static inline bool sml_tensor_is_inserted(const struct sml_tensor *tensor)
{
	return tensor->code.coding == SML_CODE_BYTES;
}

void sml_tensor_insert(const struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		       void *lanes);

/* The tensor is done: its residual becomes what it has lost. */
void sml_tensor_keep(const struct sml_tensor *tensor);

/*
 * Take a chunk's combined lanes. Returns true if this was the tensor's last chunk. Does
 * nothing if the chunk is already done.
 */
bool sml_tensor_take(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     const void *lanes);

/*
 * The combined lanes of a data chunk that is done, or others that are taken for the same bits, from
 * the receive buffer. Only if the tensor is recoverable, and before it is done: then the
 * application has its buffer back. False if the buffer does not hold a result.
 */
bool sml_tensor_recover(const struct sml_tensor *tensor, uint32_t index, void *lanes);

#endif
