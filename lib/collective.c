/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls: arguments checked, put as a tensor of the core, handed to every
 * shard. Each collective is a choice of what this rank sends and wants of one
 * tensor that all ranks share:
 *
 *	                 tensor             sends         wants
 *	all-reduce       count              all           all
 *	broadcast        count, as bytes    root: all     others: all
 *	all-gather       n x count, bytes   its part      all
 *	reduce-scatter   n x count          all           its part
 *	barrier          0                  -             -
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "lib/context.h"

/* One call on its way to be a tensor. */
struct order {
	struct sml_tensor_spec spec;
	struct sml_call call;
};

size_t sml_type_size(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT32:
	case SML_INT32:
		return 4;
	case SML_FLOAT16:
	case SML_BFLOAT16:
		return 2;
	case SML_BYTE:
		return 1;
	}
	return 0;
}

/* ---- submission ---- */

/* 0, or why the job's streams have no room for so large a tensor now. */
static int reserve_chunks(struct sml_context *context, const struct order *order,
			  struct sml_request *request)
{
	uint64_t *all = &context->requests.chunks;
	/* At least one element of one byte a lane: an upper bound without overflow. */
	uint64_t chunks = order->spec.count / context->shape.lanes * 2 + 2;

	if (__atomic_add_fetch(all, chunks, __ATOMIC_RELAXED) > SML_CHUNKS_MAX) {
		__atomic_sub_fetch(all, chunks, __ATOMIC_RELAXED);
		return sml_context_refuse(context,
					  "%" PRIu64 " elements more are too many: at most %" PRIu64
					  " can be under way at once",
					  order->spec.count,
					  SML_CHUNKS_MAX / 2 * context->shape.lanes);
	}
	request->chunks = chunks;
	return 0;
}

/* The tensor gets its place in the streams, and every shard gets it. In the order of calls. */
static int enqueue(struct sml_context *context, struct order *order, struct sml_request *request)
{
	int error;

	pthread_mutex_lock(&context->submit_lock);
	error = sml_context_check(context);
	if (error) {
		pthread_mutex_unlock(&context->submit_lock);
		return error;
	}
	sml_tensor_init(&request->tensor, &order->spec, &context->shape, &context->sequence,
			request->memory);
	request->tensor.owner = request;
	order->call.number = request->tensor.number;
	memcpy(order->call.window, request->tensor.window, sizeof(order->call.window));
	sml_history_add(&context->history, &order->call);
	for (unsigned i = 0; i < context->n_shards; i++)
		sml_shard_submit(context->shards[i], request);
	pthread_mutex_unlock(&context->submit_lock);
	return 0;
}

static int submit(struct sml_context *context, struct order *order, struct sml_request **out)
{
	struct sml_request *request;
	int error;

	if (order->spec.count / context->shape.lanes > SML_CHUNKS_MAX)
		return sml_context_refuse(context, "%" PRIu64 " elements are too many",
					  order->spec.count);
	request = sml_request_take(&context->requests,
				   sml_tensor_memory_bytes(&order->spec, &context->shape));
	if (request == NULL)
		return -ENOMEM;
	error = reserve_chunks(context, order, request);
	if (error)
		goto err_give_back;
	request->context = context;
	request->references = 1 + context->n_shards;
	request->deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	error = enqueue(context, order, request);
	if (error)
		goto err_unreserve;
	*out = request;
	return 0;

err_unreserve:
	__atomic_sub_fetch(&context->requests.chunks, request->chunks, __ATOMIC_RELAXED);
err_give_back:
	sml_request_give_back(&context->requests, request);
	return error;
}

/* ---- arguments ---- */

static int check_numbers(struct sml_context *context, enum sml_type type, enum sml_op op)
{
	if (sml_type_size(type) == 0)
		return sml_context_refuse(context, "type %d does not exist", (int)type);
	if (type == SML_BYTE)
		return sml_context_refuse(context, "bytes cannot be combined: SML_BYTE is for "
						   "broadcast and all-gather");
	if (op < SML_SUM || op > SML_MIN)
		return sml_context_refuse(context, "operation %d does not exist", (int)op);
	return 0;
}

/* count elements of a type, times n, as bytes of memory that can exist. */
static int check_size(struct sml_context *context, size_t count, enum sml_type type, unsigned n,
		      size_t *bytes)
{
	size_t each = sml_type_size(type);

	*bytes = 0;
	if (each == 0)
		return sml_context_refuse(context, "type %d does not exist", (int)type);
	if (count > PTRDIFF_MAX / each / n)
		return sml_context_refuse(context, "%zu elements are too many", count);
	*bytes = count * each * n;
	return 0;
}

static int check_buffer(struct sml_context *context, const char *name, const void *buffer,
			size_t bytes, enum sml_type type)
{
	if (bytes == 0)
		return 0;
	if (buffer == NULL)
		return sml_context_refuse(context, "%s is NULL, and %zu bytes of it are wanted",
					  name, bytes);
	if ((uintptr_t)buffer % sml_type_size(type))
		return sml_context_refuse(context,
					  "%s (%p) is not aligned to its elements of %zu "
					  "bytes",
					  name, buffer, sml_type_size(type));
	return 0;
}

/* Two buffers must be apart, or be the same memory in the one way that works. */
static int check_apart(struct sml_context *context, const void *send, size_t send_bytes,
		       const void *recv, size_t recv_bytes, const void *in_place)
{
	uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;

	if (send_bytes == 0 || recv_bytes == 0 || s + send_bytes <= r || r + recv_bytes <= s ||
	    recv == in_place)
		return 0;
	return sml_context_refuse(context,
				  "send (%p, %zu bytes) and recv (%p, %zu bytes) overlap, "
				  "and not in place",
				  send, send_bytes, recv, recv_bytes);
}

static int check_wire(struct sml_context *context, const struct sml_options *options,
		      enum sml_wire *wire)
{
	*wire = context->settings.wire;
	if (options == NULL || options->wire == SML_WIRE_DEFAULT)
		return 0;
	*wire = options->wire;
	if (*wire != SML_WIRE_INT32 && *wire != SML_WIRE_INT16)
		return sml_context_refuse(context, "wire %d does not exist", (int)options->wire);
	return 0;
}

/* What the context says before arguments are even looked at. */
static int begin(struct sml_context *context, struct sml_request **request)
{
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	error = sml_context_check(context);
	if (error == 0 && request == NULL)
		error = sml_context_refuse(context, "request is NULL");
	return error;
}

/* ---- the calls ---- */

int sml_allreduce_async(struct sml_context *context, const void *send, void *recv, size_t count,
			enum sml_type type, enum sml_op op, const struct sml_options *options,
			struct sml_request **request)
{
	enum sml_wire wire;
	struct order order;
	size_t bytes;
	int error;

	if ((error = begin(context, request)) || (error = check_numbers(context, type, op)) ||
	    (error = check_size(context, count, type, 1, &bytes)) ||
	    (error = check_buffer(context, "send", send, bytes, type)) ||
	    (error = check_buffer(context, "recv", recv, bytes, type)) ||
	    (error = check_apart(context, send, bytes, recv, bytes, send)) ||
	    (error = check_wire(context, options, &wire)))
		return error;
	order = (struct order){
		.spec = {.collective = SML_ALLREDUCE,
			 .type = type,
			 .op = op,
			 .wire = wire,
			 .count = count,
			 .send = send,
			 .send_count = count,
			 .recv = recv,
			 .recv_count = count},
		.call = {.collective = SML_ALLREDUCE,
			 .type = type,
			 .op = op,
			 .wire = wire,
			 .count = count},
	};
	return submit(context, &order, request);
}

int sml_broadcast_async(struct sml_context *context, void *data, size_t count, enum sml_type type,
			int root, struct sml_request **request)
{
	struct order order;
	bool is_root;
	size_t bytes;
	int error;

	if ((error = begin(context, request)) ||
	    (error = check_size(context, count, type, 1, &bytes)) ||
	    (error = check_buffer(context, "data", data, bytes, type)))
		return error;
	if (root < 0 || root >= context->settings.world_size)
		return sml_context_refuse(context, "root %d is not a rank: they are 0 to %d", root,
					  context->settings.world_size - 1);
	is_root = root == context->settings.rank;
	order = (struct order){
		.spec = {.collective = SML_BROADCAST,
			 .type = SML_BYTE,
			 .wire = SML_WIRE_INT32,
			 .root = (uint8_t)root,
			 .count = bytes,
			 .send = data,
			 .send_count = is_root ? bytes : 0,
			 .recv = data,
			 .recv_count = is_root ? 0 : bytes},
		.call = {.collective = SML_BROADCAST,
			 .type = type,
			 .count = count,
			 .root = (uint8_t)root},
	};
	return submit(context, &order, request);
}

int sml_allgather_async(struct sml_context *context, const void *send, void *recv, size_t count,
			enum sml_type type, struct sml_request **request)
{
	unsigned n, rank;
	struct order order;
	size_t all, own;
	int error;

	if ((error = begin(context, request)))
		return error;
	n = context->settings.world_size;
	rank = context->settings.rank;
	if ((error = check_size(context, count, type, n, &all)) ||
	    (error = check_buffer(context, "send", send, all / n, type)) ||
	    (error = check_buffer(context, "recv", recv, all, type)) ||
	    (error = check_apart(context, send, all / n, recv, all,
				 (const char *)send - all / n * rank)))
		return error;
	own = all / n;
	order = (struct order){
		.spec = {.collective = SML_ALLGATHER,
			 .type = SML_BYTE,
			 .wire = SML_WIRE_INT32,
			 .count = all,
			 .send = send,
			 .send_first = own * rank,
			 .send_count = own,
			 .recv = recv,
			 .recv_count = all},
		.call = {.collective = SML_ALLGATHER, .type = type, .count = count},
	};
	return submit(context, &order, request);
}

int sml_reduce_scatter_async(struct sml_context *context, const void *send, void *recv,
			     size_t count, enum sml_type type, enum sml_op op,
			     const struct sml_options *options, struct sml_request **request)
{
	unsigned n, rank;
	enum sml_wire wire;
	struct order order;
	size_t all;
	int error;

	if ((error = begin(context, request)))
		return error;
	n = context->settings.world_size;
	rank = context->settings.rank;
	if ((error = check_numbers(context, type, op)) ||
	    (error = check_size(context, count, type, n, &all)) ||
	    (error = check_buffer(context, "send", send, all, type)) ||
	    (error = check_buffer(context, "recv", recv, all / n, type)) ||
	    (error = check_apart(context, send, all, recv, all / n,
				 (const char *)send + all / n * rank)) ||
	    (error = check_wire(context, options, &wire)))
		return error;
	order = (struct order){
		.spec = {.collective = SML_REDUCE_SCATTER,
			 .type = type,
			 .op = op,
			 .wire = wire,
			 .count = (uint64_t)count * n,
			 .send = send,
			 .send_count = (uint64_t)count * n,
			 .recv = recv,
			 .recv_first = (uint64_t)count * rank,
			 .recv_count = count},
		.call = {.collective = SML_REDUCE_SCATTER,
			 .type = type,
			 .op = op,
			 .wire = wire,
			 .count = count},
	};
	return submit(context, &order, request);
}

int sml_barrier_async(struct sml_context *context, struct sml_request **request)
{
	int error = begin(context, request);
	struct order order = {
		.spec = {.collective = SML_BARRIER, .type = SML_BYTE, .wire = SML_WIRE_INT32},
		.call = {.collective = SML_BARRIER},
	};

	return error ? error : submit(context, &order, request);
}

/* ---- waited for ---- */

static int forked_or_null(const struct sml_request *request)
{
	if (request == NULL)
		return sml_error_set(-EINVAL, "the request is NULL");
	return request->context->owner == getpid() ? 0 : SML_ERROR_FORKED;
}

int sml_wait(struct sml_request *request)
{
	int result = forked_or_null(request);

	if (result)
		return result;
	result = sml_context_wait(request->context, request);
	sml_request_release(&request->context->requests, request);
	return result;
}

int sml_test(struct sml_request *request, int *done)
{
	int result = forked_or_null(request);

	*done = 1;
	if (result)
		return result;
	result = sml_context_look(request->context, request);
	*done = result != -EAGAIN;
	if (!*done)
		return 0;
	sml_request_release(&request->context->requests, request);
	return result;
}

int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type, enum sml_op op, const struct sml_options *options)
{
	struct sml_request *request = NULL;
	int error = sml_allreduce_async(context, send, recv, count, type, op, options, &request);

	return error ? error : sml_wait(request);
}

int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
		  int root)
{
	struct sml_request *request = NULL;
	int error = sml_broadcast_async(context, data, count, type, root, &request);

	return error ? error : sml_wait(request);
}

int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type)
{
	struct sml_request *request = NULL;
	int error = sml_allgather_async(context, send, recv, count, type, &request);

	return error ? error : sml_wait(request);
}

int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv, size_t count,
		       enum sml_type type, enum sml_op op, const struct sml_options *options)
{
	struct sml_request *request = NULL;
	int error =
		sml_reduce_scatter_async(context, send, recv, count, type, op, options, &request);

	return error ? error : sml_wait(request);
}

int sml_barrier(struct sml_context *context)
{
	struct sml_request *request = NULL;
	int error = sml_barrier_async(context, &request);

	return error ? error : sml_wait(request);
}
