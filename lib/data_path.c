/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/data_path.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/probe.h"

/* What the kernel charges a buffer for a packet, beyond the packet. */
#define PACKET_SLACK_BYTES 1024
#define WINDOW_MIN	   4

static int open_transport(struct sml_context *context, unsigned shard,
			  struct sml_transport **transport)
{
	const struct sml_faults *faults = &context->settings.faults;
	struct sml_transport_config config = {
		.interface = &context->connection.interface,
		.peer = context->connection.endpoint->address,
		.log = &context->settings.log,
		.single_packets = context->admission.single_packets,
	};
	struct sml_transport *faulty;
	int error;

	sml_sockaddr_set_port(&config.peer, context->admission.data_port);
	error = sml_transport_udp.open(transport, &config);
	if (error || (faults->drop | faults->duplicate | faults->reorder) == 0)
		return error;
	faulty = sml_faults_wrap(*transport, faults,
				 (uint64_t)context->settings.rank * SML_MAX_SHARDS + shard);
	if (faulty == NULL)
		return sml_error_set(-ENOMEM, "no memory for the faults");
	*transport = faulty;
	return 0;
}

/* Packets in flight that the switch's buffers and this socket's take. */
static uint32_t window_of(const struct sml_context *context, const struct sml_transport *transport)
{
	const struct sml_admission *admission = &context->admission;
	uint32_t packet = SML_HEADER_BYTES + 4u * context->shape.lanes;
	uint32_t own = transport->receive_bytes / (packet + packet / 4 + PACKET_SLACK_BYTES);
	uint32_t switchs, window;

	sml_assert(admission->shards > 0);
	switchs = admission->window_packets / admission->shards;
	window = switchs && switchs < own ? switchs : own;

	return window < WINDOW_MIN ? WINDOW_MIN : window;
}

static struct sml_worker_config worker_config(const struct sml_context *context, unsigned index,
					      const struct sml_transport *transport)
{
	const struct sml_admission *admission = &context->admission;

	return (struct sml_worker_config){
		.cookie = admission->cookie,
		.tag = admission->tag,
		.job = admission->job_number,
		.epoch = admission->epoch,
		.shape = context->shape,
		.head_slots = admission->head_slots,
		.data_slots = admission->data_slots,
		.shard = (uint8_t)index,
		.n_shards = admission->shards,
		.n_stripes = 1,
		.no_resume = context->settings.switch_address == NULL,
		.window_max = window_of(context, transport),
	};
}

static int init_shard(struct sml_context *context, unsigned index, struct sml_transport *transport)
{
	struct sml_worker_config config = worker_config(context, index, transport);
	struct sml_shard *shard = calloc(1, sizeof(*shard));

	if (shard == NULL)
		return sml_error_set(-ENOMEM, "no memory for a progress thread");
	context->shards[index] = shard;
	return sml_shard_init(shard, context, &config, transport);
}

static void close_transports(struct sml_transport **transports)
{
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++)
		if (transports[i])
			transports[i]->ops->close(transports[i]);
}

/* Open the transports, prove the path and agree with the other ranks on *lanes. */
static int agree(struct sml_context *context, struct sml_control *control,
		 struct sml_transport **transports, uint16_t *lanes, uint64_t deadline_ns)
{
	const struct sml_admission *admission = &context->admission;
	int error = 0;

	*lanes = admission->lanes;
	for (unsigned i = 0; error == 0 && i < admission->shards; i++)
		error = open_transport(context, i, &transports[i]);
	if (error == 0)
		error = sml_probe(control, admission, context->settings.rank, transports,
				  context->connection.endpoint->name, lanes, deadline_ns);
	return error ? error : sml_control_ready(control, lanes, deadline_ns);
}

int sml_data_path_open(struct sml_context *context, uint64_t deadline_ns)
{
	struct sml_transport *transports[SML_MAX_SHARDS] = {NULL};
	uint16_t lanes;
	int error = agree(context, context->control, transports, &lanes, deadline_ns);

	context->shape = (struct sml_shape){
		.lanes = lanes,
		.rank = context->settings.rank,
		.n_ranks = context->settings.world_size,
	};
	for (unsigned i = 0; error == 0 && i < context->admission.shards; i++) {
		error = init_shard(context, i, transports[i]);
		if (context->shards[i])
			transports[i] = NULL; /* the shard's now */
	}
	close_transports(transports);
	return error;
}

int sml_data_path_renew(struct sml_context *context, struct sml_control *control,
			uint64_t deadline_ns, bool keep)
{
	const struct sml_admission *admission = &context->admission;
	struct sml_transport *transports[SML_MAX_SHARDS] = {NULL};
	uint16_t lanes;
	int error = agree(context, control, transports, &lanes, deadline_ns);

	/* Chunks are cut by lanes: a job cannot change them on its way. */
	if (error == 0 && (lanes != context->shape.lanes || admission->shards != context->n_shards))
		error = sml_error_set(SML_ERROR_PROTOCOL,
				      "the switch at %s takes only %u lanes a packet, and the job "
				      "goes on with %u: is its path's MTU smaller?",
				      context->connection.endpoint->name, lanes,
				      context->shape.lanes);
	for (unsigned i = 0; error == 0 && i < context->n_shards; i++) {
		struct sml_worker_config config = worker_config(context, i, transports[i]);

		if (!sml_shard_renew(context->shards[i], &config, admission->maps, transports[i],
				     keep))
			error = sml_error_set(-ENOMEM, "no memory to go on with another switch");
		else
			transports[i] = NULL;
	}
	close_transports(transports);
	return error;
}
