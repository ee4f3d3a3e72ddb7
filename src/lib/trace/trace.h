/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace (SWITCHML_RECORD): what a progress thread did and when, for people who look for the rank
 * that others wait for. docs/internals/trace.md has its format and its use.
 *
 * Events are kept in memory that sml_open() allocates: the newest of each kind, so that a job may
 * run for any time. Only sml_close() writes the file. Nothing here is called unless a trace was
 * asked for; then an event costs a copy of 40 bytes on the data path.
 *
 * The invariant: a trace belongs to one thread until that has ended.
 */
#ifndef SML_LIB_TRACE_H
#define SML_LIB_TRACE_H

#include "core/worker.h"

/* The newest that are kept, of each thread. Powers of two. */
#define SML_TRACE_EVENTS (1u << 17)
#define SML_TRACE_CALLS	 (1u << 14)

enum sml_trace_kind {
	SML_TRACE_SLOT,	  /* from the first transmission of a chunk to its result */
	SML_TRACE_RESENT, /* a transmission after the first */
	SML_TRACE_STALL,  /* nothing has arrived for a whole timeout */
};

struct sml_trace_event {
	uint64_t begin_ns, end_ns; /* equal, but for SLOT */
	uint32_t epoch, use, chunk, call;
	uint16_t slot; /* its number in the job */
	uint8_t kind;  /* enum sml_trace_kind */
	uint8_t stripe;
	uint8_t sends;	   /* SLOT: of this use, saturating */
	uint8_t was_last;  /* SLOT: this rank's contribution completed it */
	uint8_t is_head;   /* of the head stream: exponents, or a small tensor */
	uint8_t timed_out; /* RESENT: by the timer, and not because later packets were answered */
};

struct sml_trace_call {
	uint64_t begin_ns, end_ns, count;
	uint32_t number;
	uint8_t collective, type, op, wire; /* the tensor's */
	bool unfinished;		    /* end_ns is that of the trace */
};

struct sml_trace {
	unsigned shard;
	uint64_t n_events, n_calls; /* ever */
	struct sml_trace_event *events;
	struct sml_trace_call *calls;
};

/* NULL if there is no memory. */
struct sml_trace *sml_trace_new(unsigned shard);
void sml_trace_free(struct sml_trace *trace);

/*
 * Before a worker takes a packet: note what it says about the chunk in flight. False if it is not a
 * result for a slot in flight. If the worker takes it, the event is one of the trace.
 */
bool sml_trace_note_result(struct sml_trace_event *event, const struct sml_worker *worker,
			   const void *packet, size_t length, uint64_t now_ns);

static inline void sml_trace_add(struct sml_trace *trace, const struct sml_trace_event *event)
{
	trace->events[trace->n_events++ % SML_TRACE_EVENTS] = *event;
}

/* The worker has just written this packet. */
__attribute__((cold)) void sml_trace_sent(struct sml_trace *trace, const struct sml_worker *worker,
					  const void *packet, uint64_t now_ns);

__attribute__((cold)) void sml_trace_stalled(struct sml_trace *trace,
					     const struct sml_worker *worker, uint64_t now_ns);

/* The call with this tensor has ended, or has not ended by then. */
void sml_trace_call(struct sml_trace *trace, const struct sml_tensor *tensor, uint64_t begin_ns,
		    uint64_t end_ns, bool unfinished);

/* ---- write.c: the file ---- */

struct sml_trace_about {
	const char *job, *host;
	unsigned rank, world_size, n_stripes, lanes;
};

/* Create the file of a context, now, so that a wrong path is known before the job runs. */
int sml_trace_create(const char *path);

/* Write everything to the file, and close it. Returns 0 or -errno. */
int sml_trace_write(int fd, const struct sml_trace_about *about, struct sml_trace *const *traces,
		    unsigned n);

#endif
