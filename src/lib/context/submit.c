/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/context.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/thread.h"
#include "core/gather.h"
#include "lib/progress/progress.h"

/* If a packet has n lanes, n elements take at most this many chunks of either stream. */
#define CHUNKS_A_PACKET_OF_ELEMENTS 6
/* More than a small tensor has, which is gathered. */
#define SMALL_CHUNKS_MAX 2048

/* 0, or an error because the job's streams have no room for such a large tensor now. */
static int reserve_chunks(struct sml_context *context, const struct sml_order *order,
			  uint64_t *reserved)
{
	const struct sml_tensor_spec *spec = &order->spec;
	uint64_t *all = &context->requests.chunks;
	bool gathered = order->gathers || (spec->wire == SML_WIRE_EXACT &&
					   !sml_shape_adds(&context->shape, spec->type));
	/*
	 * Three lanes for an element, and exponents; or elements of all ranks in each packet: an
	 * upper bound without overflow.
	 */
	uint64_t most = gathered ? 1 : CHUNKS_A_PACKET_OF_ELEMENTS;
	uint64_t elements = gathered ? sml_gather_capacity(spec->type, context->shape.lanes,
							   context->shape.n_ranks)
				     : context->shape.lanes;
	uint64_t chunks = spec->count / elements * most + SMALL_CHUNKS_MAX;

	if (__atomic_add_fetch(all, chunks, __ATOMIC_RELAXED) > SML_CHUNKS_MAX) {
		__atomic_sub_fetch(all, chunks, __ATOMIC_RELAXED);
		return sml_context_refuse(context, -EINVAL,
					  "%" PRIu64 " more elements are too many: at most %" PRIu64
					  " can be in progress at once",
					  spec->count, SML_CHUNKS_MAX / most * elements);
	}
	*reserved = chunks;
	return 0;
}

/*
 * May a stripe be moving to where no floats are added, or parts of exact sums are rounded? Other
 * ranks may know. The submit lock is held. A failover ends at its deadline, or soon after the
 * context fails.
 */
static bool is_held(const struct sml_context *context, bool exact)
{
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (exact ? context->stripes[i].holds_exact : context->stripes[i].holds_floats)
			return true;
	return false;
}

bool sml_submit_fix_floats(struct sml_context *context)
{
	SML_NO_CANCELLATION;
	bool floats;

	pthread_mutex_lock(&context->submit_lock);
	while (context->shape.floats && is_held(context, false))
		pthread_cond_wait(&context->released, &context->submit_lock);
	floats = context->shape.floats;
	context->sent_floats |= floats;
	pthread_mutex_unlock(&context->submit_lock);
	return floats;
}

bool sml_submit_fix_parts(struct sml_context *context)
{
	SML_NO_CANCELLATION;
	bool adds_parts;

	pthread_mutex_lock(&context->submit_lock);
	while (!context->adds_parts && is_held(context, true))
		pthread_cond_wait(&context->released, &context->submit_lock);
	adds_parts = context->adds_parts;
	context->asked_exact |= !adds_parts;
	pthread_mutex_unlock(&context->submit_lock);
	return adds_parts;
}

const char *sml_submit_hold(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	const struct sml_admission *admission = &stripe->admission;
	const char *why = NULL;

	pthread_mutex_lock(&context->submit_lock);
	if (admission->adds_parts && context->asked_exact) {
		why = "leaves or hosts of it round sums of several ranks, and the job has asked "
		      "for exact sums where none do: list only switches of one kind in "
		      "SWITCHML_SWITCH";
	} else if (!admission->floats && context->sent_floats) {
		why = "it adds only integers, and the job has begun at switches that also add "
		      "floats: list only switches of one kind in SWITCHML_SWITCH, or set "
		      "SWITCHML_WIRE=int32";
	} else {
		stripe->holds_floats |= !admission->floats;
		stripe->holds_exact |= admission->adds_parts;
	}
	pthread_mutex_unlock(&context->submit_lock);
	return why;
}

void sml_submit_decide(struct sml_stripe *stripe, bool moved)
{
	struct sml_context *context = stripe->context;

	pthread_mutex_lock(&context->submit_lock);
	/* Once it is false, others read it without the lock, so it is not written again. */
	if (moved && !stripe->admission.floats && context->shape.floats)
		context->shape.floats = false;
	context->adds_parts |= moved && stripe->admission.adds_parts;
	stripe->holds_floats = stripe->holds_exact = false;
	pthread_cond_broadcast(&context->released);
	pthread_mutex_unlock(&context->submit_lock);
}

void sml_submit_report(struct sml_context *context, struct sml_resumption *resumption)
{
	pthread_mutex_lock(&context->submit_lock);
	resumption->only_integers = !context->shape.floats;
	resumption->adds_parts = context->adds_parts;
	pthread_mutex_unlock(&context->submit_lock);
}

/*
 * Is the residual an array of another call? The submit lock is held: of two calls that begin at the
 * same time, the second one sees the first.
 */
static int check_residual(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	size_t bytes = spec->count * sizeof(*spec->residual);

	if (spec->residual == NULL || !sml_requests_use(&context->requests, spec->residual, bytes))
		return 0;
	return sml_context_refuse(context, -EINVAL,
				  "residual (%p, %zu bytes) overlaps an array of a call "
				  "that sml_wait() has not ended",
				  (const void *)spec->residual, bytes);
}

/* What the call's tensor is made for. */
static const struct sml_shape *shape_of(const struct sml_context *context,
					const struct sml_order *order, struct sml_shape *gathering)
{
	if (!order->gathers)
		return &context->shape;
	*gathering = context->shape;
	gathering->floats = false;
	return gathering;
}

/* Give the tensor its place in the streams, and give it to every thread, in the order of calls. */
static int enqueue(struct sml_context *context, const struct sml_order *order,
		   struct sml_request *request)
{
	struct sml_shape gathering;
	int error;

	pthread_mutex_lock(&context->submit_lock);
	error = sml_context_check(context);
	if (error == 0)
		error = check_residual(context, &order->spec);
	if (error) {
		pthread_mutex_unlock(&context->submit_lock);
		return error;
	}
	sml_tensor_init(&request->tensor, &order->spec, shape_of(context, order, &gathering),
			&context->sequence, request->memory);
	request->tensor.owner = request;
	sml_history_add(&context->history, &request->tensor, context->settings.world_size,
			order->gathers, order->name);
	sml_usage_begin(&context->usage, &order->spec, context->settings.world_size,
			request->begun_ns);
	__atomic_store_n(&request->submitted, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < context->threads.n_threads; i++)
		sml_progress_submit(context->threads.threads[i], request, order->waits);
	pthread_mutex_unlock(&context->submit_lock);
	return 0;
}

int sml_submit(struct sml_context *context, const struct sml_order *order,
	       struct sml_request **submitted)
{
	struct sml_request *request;
	struct sml_shape gathering;
	uint64_t chunks = 0;
	int error;

	if (order->spec.count / context->shape.lanes > SML_CHUNKS_MAX)
		return sml_context_refuse(context, -EINVAL, "%" PRIu64 " elements are too many",
					  order->spec.count);
	/* Before memory is taken for what may be too large. */
	error = reserve_chunks(context, order, &chunks);
	if (error)
		return error;
	request = sml_request_take(
		&context->requests,
		sml_tensor_memory_bytes(&order->spec, shape_of(context, order, &gathering)));
	if (request == NULL) {
		error = sml_context_refuse(context, -ENOMEM, "no memory for the call");
		goto err_unreserve;
	}
	request->chunks = chunks;
	request->context = context;
	request->error = 0;
	request->timed = false;
	request->references = SML_REQUEST_CALLER + context->threads.n_threads * context->n_stripes;
	request->begun_ns = sml_now_ns();
	request->deadline_ns =
		request->begun_ns + sml_timeout_ms(&context->settings) * SML_NS_PER_MS;
	error = enqueue(context, order, request);
	if (error)
		goto err_give_back;
	*submitted = request;
	return 0;

err_give_back:
	request->references = 0; /* it was no call */
	sml_request_give_back(&context->requests, request);
err_unreserve:
	__atomic_sub_fetch(&context->requests.chunks, chunks, __ATOMIC_RELAXED);
	return error;
}
