/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls: they check their arguments and turn them into a tensor of the core. Each collective
 * chooses what this rank sends and wants of one tensor that all ranks share:
 *
 *	                 tensor             sends         wants
 *	all-reduce       count              all           all
 *	broadcast        count, as bytes    root: all     others: all
 *	all-gather       n x count, bytes   its part      all
 *	reduce-scatter   n x count          all           its part
 *	barrier          0                  -             -
 */
#include <errno.h>

#include "lib/api/arguments.h"
#include "lib/api/submit.h"

/* Checks the context, before the arguments. */
static int begin(struct sml_context *context, struct sml_request **request)
{
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	error = sml_context_check(context);
	if (error == 0 && request == NULL)
		error = sml_context_refuse(context, -EINVAL, "request is NULL");
	return error;
}

/* ---- the calls ---- */

int sml_allreduce_async(struct sml_context *context, const void *send, void *recv, size_t count,
			enum sml_type type, enum sml_op op, const struct sml_options *options,
			struct sml_request **request)
{
	struct sml_order order = {
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
	size_t bytes;
	int error;

	if ((error = begin(context, request)) || (error = sml_check_numbers(context, type, op)) ||
	    (error = sml_check_size(context, count, type, 1, &bytes)) ||
	    (error = sml_check_buffer(context, "send", send, bytes, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, bytes, type)) ||
	    (error = sml_check_apart(context, send, bytes, recv, bytes, send)) ||
	    (error = sml_check_wire(context, options, &order.spec)))
		return error;
	order.call.wire = order.spec.wire;
	return sml_submit(context, &order, request);
}

int sml_broadcast_async(struct sml_context *context, void *data, size_t count, enum sml_type type,
			int root, struct sml_request **request)
{
	struct sml_order order;
	bool is_root;
	size_t bytes;
	int error;

	if ((error = begin(context, request)) ||
	    (error = sml_check_size(context, count, type, 1, &bytes)) ||
	    (error = sml_check_buffer(context, "data", data, bytes, type)))
		return error;
	if (root < 0 || root >= context->settings.world_size)
		return sml_context_refuse(context, -EINVAL,
					  "root %d is not a rank: ranks are 0 to %d", root,
					  context->settings.world_size - 1);
	is_root = root == context->settings.rank;
	order = (struct sml_order){
		.spec = {.collective = SML_BROADCAST,
			 .type = SML_BYTE,
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
			 .root = (uint8_t)root},
	};
	return sml_submit(context, &order, request);
}

int sml_allgather_async(struct sml_context *context, const void *send, void *recv, size_t count,
			enum sml_type type, struct sml_request **request)
{
	unsigned n, rank;
	struct sml_order order;
	size_t all, own;
	int error;

	if ((error = begin(context, request)))
		return error;
	n = context->settings.world_size;
	rank = context->settings.rank;
	if ((error = sml_check_size(context, count, type, n, &all)) ||
	    (error = sml_check_buffer(context, "send", send, all / n, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, all, type)) ||
	    (error = sml_check_apart(context, send, all / n, recv, all,
				     (const char *)send - all / n * rank)))
		return error;
	own = all / n;
	order = (struct sml_order){
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
	return sml_submit(context, &order, request);
}

int sml_reduce_scatter_async(struct sml_context *context, const void *send, void *recv,
			     size_t count, enum sml_type type, enum sml_op op,
			     const struct sml_options *options, struct sml_request **request)
{
	unsigned n, rank;
	struct sml_order order;
	size_t all;
	int error;

	if ((error = begin(context, request)))
		return error;
	n = context->settings.world_size;
	rank = context->settings.rank;
	if ((error = sml_check_numbers(context, type, op)) ||
	    (error = sml_check_size(context, count, type, n, &all)) ||
	    (error = sml_check_buffer(context, "send", send, all, type)) ||
	    (error = sml_check_buffer(context, "recv", recv, all / n, type)) ||
	    (error = sml_check_apart(context, send, all, recv, all / n,
				     (const char *)send + all / n * rank)))
		return error;
	order = (struct sml_order){
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
	if ((error = sml_check_wire(context, options, &order.spec)))
		return error;
	order.call.wire = order.spec.wire;
	return sml_submit(context, &order, request);
}

int sml_barrier_async(struct sml_context *context, struct sml_request **request)
{
	int error = begin(context, request);
	struct sml_order order = {
		.spec = {.collective = SML_BARRIER, .type = SML_BYTE, .wire = SML_WIRE_INT32},
		.call = {.collective = SML_BARRIER},
	};

	return error ? error : sml_submit(context, &order, request);
}

/* ---- the same, with a wait ---- */

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
