/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls: they check their arguments and turn them into a tensor of the core. Each collective
 * chooses what this rank sends and wants of one tensor that all ranks share:
 *
 *	                 tensor             sends         wants
 *	all-reduce       count              all           all
 *	reduce           count              all           root: all
 *	broadcast        count, as bytes    root: all     others: all
 *	all-gather       n x count, bytes   its part      all
 *	reduce-scatter   n x count          all           its part
 *	barrier          0                  -             -
 *
 * A call may have a name, which is a part of the digest.
 */
#include <errno.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/thread.h"
#include "lib/api/arguments.h"
#include "lib/context/context.h"
#include "lib/context/submit.h"

/* Is this thread's call inside, from begin_call() to end_call()? */
static _Thread_local bool is_inside;

static int read_options(struct sml_context *context, const struct sml_options *options,
			struct sml_options *own)
{
	static const struct sml_sized kind = {sizeof(*own), "struct sml_options",
					      "begin with SML_OPTIONS_INIT", -EINVAL};

	if (options != NULL && sml_sized_read(&kind, own, options) != 0)
		return sml_context_refuse(context, -EINVAL, "%s", sml_error_last());
	/* Where switches add integers, DEFAULT may be int64, which rounds nothing to feed back. */
	if (own->residual && own->wire == SML_WIRE_DEFAULT)
		own->wire = SML_WIRE_GRADIENT;
	return 0;
}

/* Checks the context and the options, before the arguments. Every call then ends with end_call().
 */
static int begin_call(struct sml_context *context, const struct sml_options *options,
		      struct sml_options *own)
{
	int error;

	*own = (struct sml_options)SML_OPTIONS_INIT;
	is_inside = false;
	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	is_inside = sml_context_enter(context);
	error = sml_context_check(context);
	if (error == 0 && !is_inside)
		error = SML_ERROR_CLOSED;
	return error ? error : read_options(context, options, own);
}

/* Never 0, which means that there is no name. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 0;

	while (*name)
		hash = sml_hash_step(hash, (unsigned char)*name++);
	return hash ? hash : 1;
}

/* The order has been checked (0), or why not. request: NULL waits. */
static int end_call(struct sml_context *context, int error, struct sml_order *order,
		    const struct sml_options *options, struct sml_request **request)
{
	SML_NO_CANCELLATION;
	struct sml_request *own = NULL;

	if (error == 0 && options->residual && order->spec.residual == NULL)
		error = sml_context_refuse(context, -EINVAL, SML_RESIDUAL_REFUSED);
	if (error == 0) {
		order->call.residual = options->residual != NULL;
		order->call.gathers = sml_wire_gathers(context, options, &order->spec);
		order->waits = request == NULL || options->waits;
		if (options->name && *options->name) {
			order->name = options->name;
			order->spec.name = hash_of(options->name);
		}
		error = sml_submit(context, order, request ? request : &own);
	}
	if (is_inside)
		sml_context_exit(context);
	is_inside = false;
	return error || request ? error : sml_wait(&own, 1, -1, NULL);
}

/* ---- what each call orders ---- */

static int order_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
			   enum sml_type type, enum sml_op op, const struct sml_options *options,
			   struct sml_order *order)
{
	size_t bytes;
	int error;

	*order = (struct sml_order){
		.spec = {.collective = SML_ALLREDUCE,
			 .type = type,
			 .op = op,
			 .count = count,
			 .send = send,
			 .send_count = count,
			 .recv = recv,
			 .recv_count = count},
		.call = {.collective = SML_ALLREDUCE, .type = type, .op = op, .count = count},
	};
	if ((error = sml_check_numbers(context, type, op)) ||
	    (error = sml_check_size(context, count, type, 1, &bytes)) ||
	    (error = sml_check_buffer(context, "send", send, bytes, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, bytes, type)) ||
	    (error = sml_check_apart(context, send, bytes, recv, bytes, send)) ||
	    (error = sml_check_wire(context, options, &order->spec)))
		return error;
	order->call.wire = order->spec.wire;
	return 0;
}

static int check_root(struct sml_context *context, int root)
{
	if (root >= 0 && root < context->settings.world_size)
		return 0;
	return sml_context_refuse(context, -EINVAL, "root %d is not a rank: ranks are 0 to %d",
				  root, context->settings.world_size - 1);
}

/* Only root has a buffer for the result. */
static int order_reduce(struct sml_context *context, const void *send, void *recv, size_t count,
			enum sml_type type, enum sml_op op, int root,
			const struct sml_options *options, struct sml_order *order)
{
	size_t bytes, recv_bytes;
	int error;

	if ((error = check_root(context, root)) || (error = sml_check_numbers(context, type, op)) ||
	    (error = sml_check_size(context, count, type, 1, &bytes)))
		return error;
	recv_bytes = root == context->settings.rank ? bytes : 0;
	if ((error = sml_check_buffer(context, "send", send, bytes, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, recv_bytes, type)) ||
	    (error = sml_check_apart(context, send, bytes, recv, recv_bytes, send)))
		return error;
	*order = (struct sml_order){
		.spec = {.collective = SML_REDUCE,
			 .type = type,
			 .op = op,
			 .root = (uint16_t)root,
			 .count = count,
			 .send = send,
			 .send_count = count,
			 .recv = recv,
			 .recv_count = recv_bytes ? count : 0},
		.call = {.collective = SML_REDUCE,
			 .type = type,
			 .op = op,
			 .count = count,
			 .root = (uint16_t)root},
	};
	error = sml_check_wire(context, options, &order->spec);
	order->call.wire = order->spec.wire;
	return error;
}

static int order_broadcast(struct sml_context *context, void *data, size_t count,
			   enum sml_type type, int root, struct sml_order *order)
{
	bool is_root = root == context->settings.rank;
	size_t bytes;
	int error;

	if ((error = sml_check_size(context, count, type, 1, &bytes)) ||
	    (error = check_root(context, root)) ||
	    (error = sml_check_buffer(context, "data", data, bytes, SML_BYTE)))
		return error;
	*order = (struct sml_order){
		.spec = {.collective = SML_BROADCAST,
			 .type = SML_BYTE,
			 .named_type = type,
			 .wire = SML_WIRE_INT32,
			 .root = (uint16_t)root,
			 .count = bytes,
			 .send = data,
			 .send_count = is_root ? bytes : 0,
			 .recv = data,
			 .recv_count = is_root ? 0 : bytes},
		.call = {.collective = SML_BROADCAST,
			 .type = type,
			 .count = count,
			 .root = (uint16_t)root},
	};
	return 0;
}

static int order_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
			   enum sml_type type, struct sml_order *order)
{
	unsigned n = context->settings.world_size, rank = context->settings.rank;
	size_t all, own;
	int error;

	if ((error = sml_check_size(context, count, type, n, &all)))
		return error;
	own = all / n;
	if ((error = sml_check_buffer(context, "send", send, own, SML_BYTE)) ||
	    (error = sml_check_buffer(context, "recv", recv, all, SML_BYTE)))
		return error;
	if (all > 0 && (error = sml_check_apart(context, send, own, recv, all,
						(const char *)send - own * rank)))
		return error;
	*order = (struct sml_order){
		.spec = {.collective = SML_ALLGATHER,
			 .type = SML_BYTE,
			 .named_type = type,
			 .wire = SML_WIRE_INT32,
			 .count = all,
			 .send = send,
			 .send_first = own * rank,
			 .send_count = own,
			 .recv = recv,
			 .recv_count = all},
		.call = {.collective = SML_ALLGATHER, .type = type, .count = count},
	};
	return 0;
}

static int order_reduce_scatter(struct sml_context *context, const void *send, void *recv,
				size_t count, enum sml_type type, enum sml_op op,
				const struct sml_options *options, struct sml_order *order)
{
	unsigned n = context->settings.world_size, rank = context->settings.rank;
	size_t all;
	int error;

	if ((error = sml_check_numbers(context, type, op)) ||
	    (error = sml_check_size(context, count, type, n, &all)) ||
	    (error = sml_check_buffer(context, "send", send, all, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, all / n, type)) ||
	    (error = sml_check_apart(context, send, all, recv, all / n,
				     (const char *)send + all / n * rank)))
		return error;
	*order = (struct sml_order){
		.spec = {.collective = SML_REDUCE_SCATTER,
			 .type = type,
			 .op = op,
			 .count = (uint64_t)count * n,
			 .send = send,
			 .send_count = (uint64_t)count * n,
			 .recv = recv,
			 .recv_first = (uint64_t)count * rank,
			 .recv_count = count},
		.call = {.collective = SML_REDUCE_SCATTER, .type = type, .op = op, .count = count},
	};
	error = sml_check_wire(context, options, &order->spec);
	order->call.wire = order->spec.wire;
	return error;
}

/* ---- the calls ---- */

int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type, enum sml_op op, const struct sml_options *options,
		  struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order;
	int error = begin_call(context, options, &own);

	if (error == 0)
		error = order_allreduce(context, send, recv, count, type, op, &own, &order);
	return end_call(context, error, &order, &own, request);
}

int sml_reduce(struct sml_context *context, const void *send, void *recv, size_t count,
	       enum sml_type type, enum sml_op op, int root, const struct sml_options *options,
	       struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order;
	int error = begin_call(context, options, &own);

	if (error == 0)
		error = order_reduce(context, send, recv, count, type, op, root, &own, &order);
	return end_call(context, error, &order, &own, request);
}

int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
		  int root, const struct sml_options *options, struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order;
	int error = begin_call(context, options, &own);

	if (error == 0)
		error = order_broadcast(context, data, count, type, root, &order);
	return end_call(context, error, &order, &own, request);
}

int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type, const struct sml_options *options,
		  struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order;
	int error = begin_call(context, options, &own);

	if (error == 0)
		error = order_allgather(context, send, recv, count, type, &order);
	return end_call(context, error, &order, &own, request);
}

int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv, size_t count,
		       enum sml_type type, enum sml_op op, const struct sml_options *options,
		       struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order;
	int error = begin_call(context, options, &own);

	if (error == 0)
		error = order_reduce_scatter(context, send, recv, count, type, op, &own, &order);
	return end_call(context, error, &order, &own, request);
}

int sml_barrier(struct sml_context *context, const struct sml_options *options,
		struct sml_request **request)
{
	struct sml_options own;
	struct sml_order order = {
		.spec = {.collective = SML_BARRIER, .type = SML_BYTE, .wire = SML_WIRE_INT32},
		.call = {.collective = SML_BARRIER},
	};
	int error = begin_call(context, options, &own);

	return end_call(context, error, &order, &own, request);
}

/* ---- waiting for requests ---- */

/* The end of a wait that begins now. 0: it only looks. Negative: there is none. */
static uint64_t end_of(int timeout_ms)
{
	if (timeout_ms <= 0)
		return timeout_ms ? SML_WAIT_FOREVER : 0;
	return sml_now_ns() + (unsigned)timeout_ms * SML_NS_PER_MS;
}

/* The context of all of them: NULL, and *error, if they are not of one; *error 0: all are NULL. */
static struct sml_context *context_of(struct sml_request *const *requests, size_t n, int *error)
{
	struct sml_context *context = NULL;

	*error = 0;
	for (size_t i = 0; i < n; i++) {
		if (requests[i] == NULL)
			continue;
		if (context == NULL)
			context = requests[i]->context;
		if (context->owner != getpid())
			*error = SML_ERROR_FORKED;
		else if (requests[i]->context != context)
			*error = sml_context_refuse(context, -EINVAL,
						    "request %zu belongs to another context", i);
		if (*error)
			return NULL;
	}
	return context;
}

/* The result of one of them, which is freed. -EAGAIN: none has ended. */
static int take_any(struct sml_context *context, struct sml_request **requests, size_t n,
		    uint64_t until_ns, size_t *index)
{
	int result = until_ns ? sml_context_wait_any(context, requests, n, until_ns, index)
			      : sml_context_look(context, requests, n, index);

	if (result == -EAGAIN)
		return result;
	sml_request_finish(&context->requests, requests[*index]);
	requests[*index] = NULL;
	return result;
}

static int take_all(struct sml_context *context, struct sml_request **requests, size_t n,
		    uint64_t until_ns)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		size_t ignored;
		int result =
			requests[i] ? take_any(context, requests + i, 1, until_ns, &ignored) : 0;

		if (first == 0 || first == -EAGAIN)
			first = result ? result : first;
	}
	return first;
}

int sml_wait(struct sml_request **requests, size_t n, int timeout_ms, size_t *index)
{
	SML_NO_CANCELLATION;
	uint64_t until_ns = end_of(timeout_ms);
	struct sml_context *context;
	size_t found = n;
	int result;

	context = context_of(requests, n, &result);
	if (context)
		result = index ? take_any(context, requests, n, until_ns, &found)
			       : take_all(context, requests, n, until_ns);
	if (index)
		*index = result == -EAGAIN ? n : found;
	return result;
}
