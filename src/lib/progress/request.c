/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/request.h"

#include <stdlib.h>

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

/* What a later call would hardly use again. */
static void trim(struct sml_request *request)
{
	if (request->memory_bytes <= SML_REQUEST_KEEPS_BYTES)
		return;
	free(request->memory);
	request->memory = NULL;
	request->memory_bytes = 0;
}

void sml_request_give_back(struct sml_requests *requests, struct sml_request *request)
{
	trim(request);
	pthread_mutex_lock(&requests->lock);
	request->next_idle = requests->idle;
	requests->idle = request;
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

void sml_request_release(struct sml_requests *requests, struct sml_request *request)
{
	if (__atomic_sub_fetch(&request->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	__atomic_sub_fetch(&requests->chunks, request->chunks, __ATOMIC_RELAXED);
	sml_request_give_back(requests, request);
}

struct sml_request *sml_request_next_unfinished(const struct sml_requests *requests,
						const struct sml_request *previous)
{
	struct sml_request *request = previous ? previous->next_of_all : requests->all;

	while (request && (__atomic_load_n(&request->references, __ATOMIC_ACQUIRE) == 0 ||
			   sml_tensor_is_done(&request->tensor)))
		request = request->next_of_all;
	return request;
}
