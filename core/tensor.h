/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective call, seen as chunks: which windows of the job's two endless
 * streams it owns, what its chunks look like as lanes, and what is still
 * missing. A tensor decides its windows from the sequence of calls alone.
 *
 *	form        head chunks                         data chunks
 *	EMPTY       one, without lanes (barrier)        none
 *	GATHER      some: every rank's own bits         none
 *	SMALL       one: the elements themselves        none
 *	EXPONENT    one for a block of data chunks:     the elements
 *	            their exponents, op MAX
 *	PLAIN       one, without lanes                  the elements
 *
 * MAX and MIN of 64-bit elements are PLAIN with twice the data chunks: the first half
 * carries the elements' upper halves, the second half the lower ones (wide.h). A chunk of
 * the second half can be sent when its chunk of the first half is done.
 *
 * Shared by all shards of a worker. Each chunk is served by one shard, so its
 * done byte and its part of the buffers have one writer; what crosses shards
 * is atomic.
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
	SML_BARRIER = 4
};

/* A call as its caller made it. Element ranges are of the whole tensor. */
struct sml_tensor_spec {
	enum sml_collective collective;
	enum sml_type type;
	enum sml_op op;
	/* Not DEFAULT. EXACT: a float's SUM or AVG, of sml_tensor_exact_elements() at most. */
	enum sml_wire wire;
	uint8_t root;
	uint64_t count; /* elements of the whole tensor */
	/* This rank contributes [send_first, + send_count), zeros elsewhere; send is its first. */
	const void *send;
	uint64_t send_first, send_count;
	/* This rank wants [recv_first, + recv_count); recv is the place of its first. */
	void *recv;
	uint64_t recv_first, recv_count;
};

/* What all tensors of a job share. */
struct sml_shape {
	uint16_t lanes; /* of a full packet */
	uint8_t rank;
	uint8_t n_ranks;
};

/*
 * Data chunks in a block: those whose exponents travel in one head chunk. As many
 * as it has lanes, unless their elements would not stay in a cache between being
 * measured and being quantized (half a megabyte of float32).
 */
uint32_t sml_tensor_block_chunks(uint32_t lanes);

enum sml_form {
	SML_FORM_EMPTY,
	SML_FORM_GATHER,
	SML_FORM_SMALL,
	SML_FORM_EXPONENT,
	SML_FORM_PLAIN
};

/*
 * A chunk on its way. It is CLAIMED by the one slot that sends it, and only a
 * head chunk whose lanes are exponents is ever MEASURED.
 *
 * The claim is there for a switch that lies: were it to give two slots the same
 * chunk, the second would read and write buffers that the application has had
 * back since the first was answered.
 */
enum sml_chunk_progress {
	SML_CHUNK_NEW = 0,
	SML_CHUNK_CLAIMED = 1,
	SML_CHUNK_MEASURED = 2,
	SML_CHUNK_DONE = 3
};

/* A contiguous part of a stream. */
struct sml_window {
	uint32_t first; /* the lower half of its number: what packets and error texts name */
	uint32_t count;
};

/* Where the next tensor's windows begin. Owned by whoever orders the calls. */
struct sml_sequence {
	uint32_t number;
	uint64_t next[SML_STREAMS];
};

struct sml_tensor {
	struct sml_tensor_spec spec;
	struct sml_shape shape;
	enum sml_form form;
	struct sml_code code;
	uint32_t number;
	uint32_t digest;
	uint32_t elements_per_chunk;
	uint32_t block_chunks;
	struct sml_window window[SML_STREAMS];
	uint64_t first[SML_STREAMS]; /* of each window: a stream never ends, so in full */

	/*
	 * Exponents of the data chunks: this rank's while a head chunk is
	 * MEASURED, the job's when it is DONE. A head's DONE is stored with
	 * release order after its exponents; data chunks load it with acquire.
	 */
	int32_t *exponents;
	int32_t *highs; /* SML_CODE_PAIR: the largest upper halves, in place of exponents */
	uint8_t *progress[SML_STREAMS]; /* atomic: enum sml_chunk_progress */
	uint32_t left;			/* atomic: chunks of both streams still missing */

	/* The library's; the core never looks. */
	void *owner;
	struct sml_tensor *next;
};

/* Elements that a sum can have on the exact wire; 0: packets are too small for all ranks. */
uint64_t sml_tensor_exact_elements(enum sml_type type, const struct sml_shape *shape);

/* Bytes that sml_tensor_init() wants behind `memory` (8-byte aligned). */
size_t sml_tensor_memory_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape);

/*
 * Give a tensor its place in the streams. Neither buffer is touched before its
 * first chunk is filled. Calls must come in the same order on all ranks.
 */
void sml_tensor_init(struct sml_tensor *tensor, const struct sml_tensor_spec *spec,
		     const struct sml_shape *shape, struct sml_sequence *sequence, void *memory);

bool sml_tensor_is_done(const struct sml_tensor *tensor);

/* Chunks are named by their index in the tensor's window of a stream. */
bool sml_tensor_chunk_is_done(const struct sml_tensor *tensor, enum sml_stream_id stream,
			      uint32_t index);

/* May a data chunk be sent: are its exponents here? */
bool sml_tensor_chunk_is_ready(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index);

/*
 * What a tensor has of one stripe of n_stripes. Chunk c of a stream belongs to
 * stripe c mod n_stripes, where it is number c div n_stripes. Those numbers wrap
 * around at 2^32 by themselves, whatever n_stripes.
 */
struct sml_window sml_tensor_stripe_window(const struct sml_tensor *tensor,
					   enum sml_stream_id stream, uint32_t stripe,
					   uint32_t n_stripes);

/*
 * A slot is to send the chunk, for the first time in this epoch. False: another
 * slot has it, or it is done; then neither fill nor take it. release() undoes
 * it where no result came: another epoch's slot will send it.
 */
bool sml_tensor_claim(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index);
void sml_tensor_release(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index);

/* The header fields that depend on the tensor: lanes, op, lane_kind, digest. */
void sml_tensor_describe_chunk(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index, struct sml_contribution *out);

/* Write a claimed chunk's lanes, as many as described, 4-byte aligned. */
void sml_tensor_fill(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     void *lanes);

/*
 * Take a chunk's combined lanes; true when that was the tensor's last chunk.
 * A chunk that is done already is left alone.
 */
bool sml_tensor_take(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     const void *lanes);

#endif
