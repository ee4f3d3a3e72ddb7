/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on its way: the core's tensor, and who still needs it. Its memory is
 * used again by later calls, so that a training loop allocates only in its
 * first steps. The memory of a very large call is freed when that call ends.
 */
#ifndef SML_LIB_REQUEST_H
#define SML_LIB_REQUEST_H

#include <pthread.h>

#include "core/tensor.h"

struct sml_context;

struct sml_request {
	struct sml_tensor tensor; /* tensor.owner is the request */
	struct sml_context *context;
	uint64_t begun_ns, deadline_ns;
	/*
	 * Atomic. What is above, and the tensor, do not change while it is set; it is cleared under
	 * the lock.
	 */
	bool submitted;
	/* Atomic: SML_REQUEST_CALLER, and one for each worker. */
	uint32_t references;
	bool timed; /* atomic: sml_call_times has it */
	int error;  /* atomic: how it ended when its job did, before it was done; 0 if it has not */
	struct sml_request *queued[SML_MAX_SHARDS]; /* the next in each thread's queue */
	struct sml_request *next_idle, *next_of_all;
	uint64_t chunks; /* of both streams */
	void *memory;	 /* after the tensor */
	size_t memory_bytes;
};

/*
 * Memory that a request keeps when its call has ended: what some 300 MB of float32 want. MAX
 * and MIN of 64-bit elements want half as much as the tensor has.
 */
#define SML_REQUEST_KEEPS_BYTES ((size_t)1 << 20)

/* Chunks under way at a time. They are compared as serial numbers, so 2^31 would be too many. */
#define SML_CHUNKS_MAX ((uint64_t)1 << 30)

/* The bounds of times are 2^14 ns (16 us), and each four times the one before, up to 17 s. */
#define SML_CALL_TIMES	    11
#define SML_CALL_TIME_NS(i) ((uint64_t)1 << (14 + 2 * (i)))

/* How long calls took until they and those before were done. Atomic. */
struct sml_call_times {
	bool wanted;			    /* else, nobody looks at a clock */
	uint64_t n[SML_CALL_TIMES + 1], ns; /* the last: longer than all bounds */
};

/* Where requests come from and go to. */
struct sml_requests {
	pthread_mutex_t lock;
	struct sml_request *idle, *all;
	uint64_t chunks; /* atomic: of all requests in use */
	struct sml_call_times times;
};

/*
 * A request with room for a tensor of this many bytes; no references yet. NULL if there is no
 * memory.
 */
struct sml_request *sml_request_take(struct sml_requests *requests, size_t memory_bytes);

/* The caller's reference: until it has the result. */
#define SML_REQUEST_CALLER 0x80000000u

/* A worker drops its reference; with the last one, the request becomes free. */
void sml_request_release(struct sml_requests *requests, struct sml_request *request);

/* The caller drops its reference, likewise. If the call has succeeded, its residual changes. */
void sml_request_finish(struct sml_requests *requests, struct sml_request *request);

/* Whether the request is done, or has ended with its job. */
static inline bool sml_request_is_over(const struct sml_request *request)
{
	return sml_tensor_is_done(&request->tensor) ||
	       __atomic_load_n(&request->error, __ATOMIC_ACQUIRE) != 0;
}

/*
 * The job has ended with this error, and its workers are gone: drop their references. Requests that
 * are not done end with the error, and stay until their callers have seen it. No thread submits.
 */
void sml_requests_end(struct sml_requests *requests, int error);

void sml_requests_init(struct sml_requests *requests);

/* Free a request that was never submitted. */
void sml_request_give_back(struct sml_requests *requests, struct sml_request *request);

/* Are any of these bytes those of a call that its caller has not waited for? */
bool sml_requests_use(struct sml_requests *requests, const void *memory, size_t bytes);

/* A call, as another thread sees it. */
struct sml_call_in_progress {
	uint32_t number, head_chunk;
	uint32_t left; /* chunks that are still missing */
	uint64_t begun_ns, deadline_ns;
};

/* The first call that has not ended. False if there is none. Any thread. */
bool sml_requests_oldest(struct sml_requests *requests, struct sml_call_in_progress *oldest);

/* Calls of this job that have not ended: the next after previous, or the first. Of a stopped
 * context only. */
struct sml_request *sml_request_next_unfinished(const struct sml_requests *requests,
						const struct sml_request *previous);

/* Frees all requests, also those in use. */
void sml_requests_fini(struct sml_requests *requests);

#endif
