/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/request.h"

#include <stdlib.h>

#include "base/clock.h"

void sml_requests_init(struct sml_requests *requests)
{
	*requests = (struct sml_requests){0};
	pthread_mutex_init(&requests->lock, NULL);
}

void sml_requests_fini(struct sml_requests *requests)
{
	struct sml_request *request = requests->all;

	while (request) {
		struct sml_request *next = request->next_of_all;

		free(request->memory);
		free(request);
		request = next;
	}
	pthread_mutex_destroy(&requests->lock);
}

static bool make_room(struct sml_request *request, size_t bytes)
{
	void *memory;

	if (bytes <= request->memory_bytes)
		return true;
	memory = malloc(bytes);
	if (memory == NULL)
		return false;
	free(request->memory);
	request->memory = memory;
	request->memory_bytes = bytes;
	return true;
}

static struct sml_request *make(struct sml_requests *requests)
{
	struct sml_request *request = calloc(1, sizeof(*request));

	if (request) {
		request->next_of_all = requests->all;
		requests->all = request;
	}
	return request;
}

/* What a later call would hardly use again. A call that feeds back comes again in each step. */
static void trim(struct sml_request *request)
{
	if (request->memory_bytes <= SML_REQUEST_KEEPS_BYTES || request->tensor.spec.residual)
		return;
	free(request->memory);
	request->memory = NULL;
	request->memory_bytes = 0;
}

/* The lock is held. */
static void make_idle(struct sml_requests *requests, struct sml_request *request)
{
	__atomic_store_n(&request->submitted, false, __ATOMIC_RELAXED);
	request->next_idle = requests->idle;
	requests->idle = request;
}

void sml_request_give_back(struct sml_requests *requests, struct sml_request *request)
{
	trim(request);
	pthread_mutex_lock(&requests->lock);
	make_idle(requests, request);
	pthread_mutex_unlock(&requests->lock);
}

struct sml_request *sml_request_take(struct sml_requests *requests, size_t memory_bytes)
{
	struct sml_request *request;

	pthread_mutex_lock(&requests->lock);
	request = requests->idle;
	if (request)
		requests->idle = request->next_idle;
	else
		request = make(requests);
	pthread_mutex_unlock(&requests->lock);
	if (request && !make_room(request, memory_bytes)) {
		sml_request_give_back(requests, request);
		return NULL;
	}
	return request;
}

/* Then the request may be another call's, unless one of those left is the caller's. */
static void drop_references(struct sml_requests *requests, struct sml_request *request,
			    uint32_t references)
{
	if (__atomic_sub_fetch(&request->references, references, __ATOMIC_ACQ_REL) > 0)
		return;
	__atomic_sub_fetch(&requests->chunks, request->chunks, __ATOMIC_RELAXED);
	sml_request_give_back(requests, request);
}

static void note_time(struct sml_call_times *times, uint64_t ns)
{
	unsigned i = 0;

	while (i < SML_CALL_TIMES && ns > SML_CALL_TIME_NS(i))
		i++;
	__atomic_add_fetch(&times->ns, ns, __ATOMIC_RELAXED);
	__atomic_add_fetch(&times->n[i], 1, __ATOMIC_RELAXED);
}

void sml_request_release(struct sml_requests *requests, struct sml_request *request)
{
	/* It is done. A worker that had no part in its end may sleep until the next call. */
	if (__atomic_load_n(&requests->times.wanted, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&request->timed, true, __ATOMIC_RELAXED))
		note_time(&requests->times, sml_now_ns() - request->begun_ns);
	drop_references(requests, request, 1);
}

void sml_request_finish(struct sml_requests *requests, struct sml_request *request)
{
	if (sml_tensor_is_done(&request->tensor))
		sml_tensor_keep(&request->tensor);
	drop_references(requests, request, SML_REQUEST_CALLER);
}

/* The lock is held, but a caller may finish its request at the same time. */
static void end(struct sml_requests *requests, struct sml_request *request, int error)
{
	uint32_t before = __atomic_load_n(&request->references, __ATOMIC_ACQUIRE);

	if (before == 0)
		return; /* idle */
	if (!sml_request_is_over(request))
		__atomic_store_n(&request->error, error, __ATOMIC_RELEASE);
	before = __atomic_fetch_and(&request->references, SML_REQUEST_CALLER, __ATOMIC_ACQ_REL);
	if (before == 0 || before & SML_REQUEST_CALLER)
		return; /* its caller makes it idle, or has done so */
	__atomic_sub_fetch(&requests->chunks, request->chunks, __ATOMIC_RELAXED);
	trim(request);
	make_idle(requests, request);
}

void sml_requests_end(struct sml_requests *requests, int error)
{
	pthread_mutex_lock(&requests->lock);
	for (struct sml_request *request = requests->all; request; request = request->next_of_all)
		end(requests, request, error);
	pthread_mutex_unlock(&requests->lock);
}

bool sml_requests_use(struct sml_requests *requests, const void *memory, size_t bytes)
{
	bool used = false;

	pthread_mutex_lock(&requests->lock);
	for (const struct sml_request *r = requests->all; r && !used; r = r->next_of_all)
		used = __atomic_load_n(&r->submitted, __ATOMIC_ACQUIRE) &&
		       __atomic_load_n(&r->references, __ATOMIC_ACQUIRE) & SML_REQUEST_CALLER &&
		       __atomic_load_n(&r->error, __ATOMIC_ACQUIRE) == 0 &&
		       sml_tensor_uses(&r->tensor.spec, memory, bytes);
	pthread_mutex_unlock(&requests->lock);
	return used;
}

bool sml_requests_oldest(struct sml_requests *requests, struct sml_call_in_progress *oldest)
{
	const struct sml_request *first = NULL;

	pthread_mutex_lock(&requests->lock);
	for (const struct sml_request *r = requests->all; r; r = r->next_of_all)
		if (__atomic_load_n(&r->submitted, __ATOMIC_ACQUIRE) && !sml_request_is_over(r) &&
		    (first == NULL || (int32_t)(r->tensor.number - first->tensor.number) < 0))
			first = r;
	if (first)
		*oldest = (struct sml_call_in_progress){
			.number = first->tensor.number,
			.head_chunk = first->tensor.window[SML_HEAD].first,
			.left = __atomic_load_n(&first->tensor.left, __ATOMIC_RELAXED),
			.begun_ns = first->begun_ns,
			.deadline_ns = first->deadline_ns,
		};
	pthread_mutex_unlock(&requests->lock);
	return first != NULL;
}

struct sml_request *sml_request_next_unfinished(const struct sml_requests *requests,
						const struct sml_request *previous)
{
	struct sml_request *request = previous ? previous->next_of_all : requests->all;

	while (request && (__atomic_load_n(&request->references, __ATOMIC_ACQUIRE) == 0 ||
			   sml_request_is_over(request)))
		request = request->next_of_all;
	return request;
}
