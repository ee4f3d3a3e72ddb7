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
	uint32_t references; /* atomic: one for the caller, and one for each worker */
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

/* Where requests come from and go to. */
struct sml_requests {
	pthread_mutex_t lock;
	struct sml_request *idle, *all;
	uint64_t chunks; /* atomic: of all requests in use */
};

/* A request with room for a tensor of this many bytes; no references yet. NULL: no memory. */
struct sml_request *sml_request_take(struct sml_requests *requests, size_t memory_bytes);

/* Drop a reference; with the last one, the request becomes free. */
void sml_request_release(struct sml_requests *requests, struct sml_request *request);

void sml_requests_init(struct sml_requests *requests);

/* Free a request that was never submitted. */
void sml_request_give_back(struct sml_requests *requests, struct sml_request *request);

/* Calls that have not ended: the next after previous, or the first. Of a stopped context only. */
struct sml_request *sml_request_next_unfinished(const struct sml_requests *requests,
						const struct sml_request *previous);

/* Frees all requests, also those in use. */
void sml_requests_fini(struct sml_requests *requests);

#endif
