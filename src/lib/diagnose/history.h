/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last calls of a context, as text: for error texts, and for the switch when two ranks
 * disagree. Guarded by the context's submit lock.
 */
#ifndef SML_LIB_HISTORY_H
#define SML_LIB_HISTORY_H

#include "core/tensor.h"

/* More than a worker can hold unfinished, so a chunk in flight is always here. A power of two. */
#define SML_HISTORY_CALLS 4096

/* Names of calls, kept for the last ones that had a name. A power of two. */
#define SML_HISTORY_NAMES   256
#define SML_CALL_NAME_BYTES 160

struct sml_call {
	enum sml_collective collective;
	enum sml_type type; /* the caller's, where the tensor's is bytes */
	enum sml_op op;
	enum sml_wire wire;
	bool residual;
	bool gathers; /* it asks for exact sums where leaves or hosts would round parts */
	uint16_t root;
	uint32_t number;
	uint32_t name;	/* which of the names it has; 0 if there is none */
	uint64_t count; /* the caller's */
	struct sml_window window[SML_STREAMS];
};

struct sml_history {
	uint32_t n; /* calls ever made */
	struct sml_call calls[SML_HISTORY_CALLS];
	uint32_t n_names; /* ever given */
	char names[SML_HISTORY_NAMES][SML_CALL_NAME_BYTES];
};

/* A call of n_ranks ranks. name: its beginning is kept; or NULL. */
void sml_history_add(struct sml_history *history, const struct sml_tensor *tensor, unsigned n_ranks,
		     bool gathers, const char *name);

/* Does the call send floats on a wire that the rank has chosen? */
bool sml_call_has_wire(const struct sml_call *call);

/* The call that has this chunk, or NULL if it is not kept. */
const struct sml_call *sml_history_find(const struct sml_history *history,
					enum sml_stream_id stream, uint32_t chunk);

/* Its name, or in words: "all-reduce 17: 1000 float32, sum, int32 wire". Or: "nothing …". */
void sml_history_text(const struct sml_history *history, enum sml_stream_id stream, uint32_t chunk,
		      char *text, size_t bytes);

#endif
