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

/* Never 0, which means that there is no name. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 0;

	while (*name)
		hash = sml_hash_step(hash, (unsigned char)*name++);
	return hash ? hash : 1;
}

/* ---- what each call orders: from what the program passed ---- */

static int check_root(struct sml_context *context, int root)
{
	if (root >= 0 && root < context->settings.world_size)
		return 0;
	return sml_context_refuse(context, -EINVAL, "root %d is not a rank: ranks are 0 to %d",
				  root, context->settings.world_size - 1);
}

/* Of each element, or of the elements of each rank's part. Only root has a buffer for the result.
 */
static int order_combined(struct sml_context *context, int root, const struct sml_options *options,
			  struct sml_tensor_spec *spec)
{
	bool in_parts = spec->collective == SML_REDUCE_SCATTER;
	bool is_reduce = spec->collective == SML_REDUCE;
	unsigned n_parts = in_parts ? context->settings.world_size : 1;
	unsigned own = in_parts ? context->settings.rank : 0;
	size_t count = spec->count, bytes, part;
	int error;

	if ((is_reduce && (error = check_root(context, root))) ||
	    (error = sml_check_numbers(context, spec->type, spec->op)) ||
	    (error = sml_check_size(context, count, spec->type, n_parts, &bytes)))
		return error;
	if (is_reduce && root != context->settings.rank)
		count = 0;
	part = count ? bytes / n_parts : 0;
	spec->root = (uint16_t)root;
	spec->count *= n_parts;
	spec->send_count = spec->count;
	spec->recv_first = (uint64_t)count * own;
	spec->recv_count = count;
	if ((error = sml_check_buffer(context, "send", spec->send, bytes, spec->type)) ||
	    (error = sml_check_buffer(context, "recv", spec->recv, part, spec->type)) ||
	    (error = sml_check_apart(context, spec->send, bytes, spec->recv, part,
				     (const char *)spec->send + part * own)))
		return error;
	return sml_check_wire(context, options, spec);
}

/* Elements that are only copied travel as bytes, whatever their type is. */
static void become_bytes(struct sml_tensor_spec *spec, size_t bytes)
{
	spec->named_type = spec->type;
	spec->type = SML_BYTE;
	spec->wire = SML_WIRE_INT32;
	spec->count = bytes;
}

static int order_broadcast(struct sml_context *context, int root, struct sml_tensor_spec *spec)
{
	bool is_root = root == context->settings.rank;
	size_t bytes;
	int error;

	if ((error = sml_check_size(context, spec->count, spec->type, 1, &bytes)) ||
	    (error = check_root(context, root)) ||
	    (error = sml_check_buffer(context, "data", spec->send, bytes, SML_BYTE)))
		return error;
	become_bytes(spec, bytes);
	spec->root = (uint16_t)root;
	spec->send_count = is_root ? bytes : 0;
	spec->recv_count = is_root ? 0 : bytes;
	return 0;
}

static int order_allgather(struct sml_context *context, struct sml_tensor_spec *spec)
{
	unsigned n = context->settings.world_size, rank = context->settings.rank;
	size_t all, own;
	int error;

	if ((error = sml_check_size(context, spec->count, spec->type, n, &all)))
		return error;
	own = all / n;
	if ((error = sml_check_buffer(context, "send", spec->send, own, SML_BYTE)) ||
	    (error = sml_check_buffer(context, "recv", spec->recv, all, SML_BYTE)))
		return error;
	if (all > 0 && (error = sml_check_apart(context, spec->send, own, spec->recv, all,
						(const char *)spec->send - own * rank)))
		return error;
	become_bytes(spec, all);
	spec->send_first = own * rank;
	spec->send_count = own;
	spec->recv_count = all;
	return 0;
}

static int complete(struct sml_context *context, int root, const struct sml_options *options,
		    struct sml_tensor_spec *spec)
{
	switch (spec->collective) {
	case SML_ALLREDUCE:
	case SML_REDUCE:
	case SML_REDUCE_SCATTER:
		return order_combined(context, root, options, spec);
	case SML_BROADCAST:
		return order_broadcast(context, root, spec);
	case SML_ALLGATHER:
		return order_allgather(context, spec);
	case SML_BARRIER:
		break;
	}
	become_bytes(spec, 0);
	return 0;
}

/* ---- the calls ---- */

static int submit(struct sml_context *context, const struct sml_options *options,
		  struct sml_order *order, struct sml_request **request)
{
	if (options->residual && order->spec.residual == NULL)
		return sml_context_refuse(context, -EINVAL, SML_RESIDUAL_REFUSED);
	order->gathers = sml_wire_gathers(context, options, &order->spec);
	if (options->name && *options->name) {
		order->name = options->name;
		order->spec.name = hash_of(options->name);
	}
	return sml_submit(context, order, request);
}

/* order: its collective, type, op, count and buffers, as they were passed. request: NULL waits. */
static int make_call(struct sml_context *context, struct sml_order *order, int root,
		     const struct sml_options *options, struct sml_request **request)
{
	SML_NO_CANCELLATION;
	struct sml_options own = SML_OPTIONS_INIT;
	struct sml_request *awaited = NULL;
	bool waits = request == NULL, is_inside;
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	is_inside = sml_context_enter(context);
	error = sml_context_check(context);
	if (error == 0 && !is_inside)
		error = SML_ERROR_CLOSED;
	if (error == 0)
		error = read_options(context, options, &own);
	if (error == 0)
		error = complete(context, root, &own, &order->spec);
	order->waits = waits || own.waits;
	if (error == 0)
		error = submit(context, &own, order, waits ? &awaited : request);
	if (is_inside)
		sml_context_exit(context);
	return error || !waits ? error : sml_wait(&awaited, 1, -1, NULL);
}

/* One that combines elements. */
static int combine(struct sml_context *context, enum sml_collective collective, const void *send,
		   void *recv, size_t count, enum sml_type type, enum sml_op op, int root,
		   const struct sml_options *options, struct sml_request **request)
{
	struct sml_order order = {.spec = {.collective = collective,
					   .type = type,
					   .op = op,
					   .count = count,
					   .send = send,
					   .recv = recv}};

	return make_call(context, &order, root, options, request);
}

int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type, enum sml_op op, const struct sml_options *options,
		  struct sml_request **request)
{
	return combine(context, SML_ALLREDUCE, send, recv, count, type, op, 0, options, request);
}

int sml_reduce(struct sml_context *context, const void *send, void *recv, size_t count,
	       enum sml_type type, enum sml_op op, int root, const struct sml_options *options,
	       struct sml_request **request)
{
	return combine(context, SML_REDUCE, send, recv, count, type, op, root, options, request);
}

int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
		  int root, const struct sml_options *options, struct sml_request **request)
{
	struct sml_order order = {.spec = {.collective = SML_BROADCAST,
					   .type = type,
					   .count = count,
					   .send = data,
					   .recv = data}};

	return make_call(context, &order, root, options, request);
}

int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
		  enum sml_type type, const struct sml_options *options,
		  struct sml_request **request)
{
	struct sml_order order = {.spec = {.collective = SML_ALLGATHER,
					   .type = type,
					   .count = count,
					   .send = send,
					   .recv = recv}};

	return make_call(context, &order, 0, options, request);
}

int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv, size_t count,
		       enum sml_type type, enum sml_op op, const struct sml_options *options,
		       struct sml_request **request)
{
	return combine(context, SML_REDUCE_SCATTER, send, recv, count, type, op, 0, options,
		       request);
}

int sml_barrier(struct sml_context *context, const struct sml_options *options,
		struct sml_request **request)
{
	struct sml_order order = {.spec = {.collective = SML_BARRIER}};

	return make_call(context, &order, 0, options, request);
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
	int result = sml_context_wait_any(context, requests, n, until_ns, index);

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
