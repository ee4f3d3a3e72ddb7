/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of a gRPC server on gRPC's C core: see rpc.h.
 *
 * The connection is made here and given to gRPC, which therefore never makes one itself: not
 * through a proxy, and not to a server that has taken the place of the first one.
 *
 * A call consists of batches of operations. The invariant: a call's memory goes only when all its
 * pending batches have come back from the completion queue, which they do at once when the call is
 * cancelled, over its deadline, or has lost its connection (finish()).
 */
#include "switch/p4/grpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/connect.h"
#include "status.pb-c.h"

/* The longest messages are a switch's program and its description. */
#define MOST_BYTES (64 << 20)
#define WHY_BYTES  512
#define CONNECT_MS 10000
#define DETAILS	   "grpc-status-details-bin"

struct sml_rpc {
	grpc_channel *channel;
	grpc_completion_queue *queue;
	char why[WHY_BYTES];
};

enum batch { BATCH_SEND, BATCH_BEGIN, BATCH_RECEIVE, BATCH_END, BATCHES };

struct sml_rpc_stream {
	struct sml_rpc *rpc;
	const struct sml_rpc_method *method;
	grpc_call *call;
	bool pending[BATCHES]; /* the address of one is its batch's tag */
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *sending, *received;
	grpc_status_code status;
	grpc_slice text;
};

/* ---- words ---- */

/* Texts of a server are shown, so they have no control characters. */
static void add_text(struct sml_rpc *rpc, const char *text, size_t length)
{
	size_t used = strlen(rpc->why);

	for (size_t i = 0; i < length && used + 1 < sizeof(rpc->why); i++)
		rpc->why[used++] = text[i];
	rpc->why[used] = '\0';
	for (char *each = rpc->why; *each != '\0'; each++)
		if ((unsigned char)*each < ' ' || *each == 0x7f)
			*each = ' ';
}

static int fail(struct sml_rpc *rpc, int error, const char *why)
{
	rpc->why[0] = '\0';
	add_text(rpc, why, strlen(why));
	return error;
}

static int error_of(int status)
{
	switch (status) {
	case GRPC_STATUS_UNAVAILABLE:
		return -ECONNREFUSED;
	case GRPC_STATUS_DEADLINE_EXCEEDED:
		return -ETIMEDOUT;
	case GRPC_STATUS_NOT_FOUND:
		return -ENOENT;
	case GRPC_STATUS_ALREADY_EXISTS:
		return -EEXIST;
	default:
		return -EREMOTEIO;
	}
}

static void *unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n)
{
	return protobuf_c_message_unpack(type, NULL, n, bytes);
}

/* The first part of the request that failed: its text is added, and its status returned. */
static int add_part(struct sml_rpc *rpc, const Google__Rpc__Status *details)
{
	int status = GRPC_STATUS_OK;

	for (size_t i = 0; i < details->n_details && status == GRPC_STATUS_OK; i++) {
		const ProtobufCBinaryData *value = &details->details[i]->value;
		Google__Rpc__Status__Part *part =
			unpack(&google__rpc__status__part__descriptor, value->data, value->len);

		if (part == NULL)
			continue;
		status = part->canonical_code;
		if (status != GRPC_STATUS_OK) {
			add_text(rpc, ": ", 2);
			add_text(rpc, part->message, strlen(part->message));
		}
		protobuf_c_message_free_unpacked(&part->base, NULL);
	}
	return status;
}

static int add_parts(struct sml_rpc *rpc, const grpc_metadata_array *trailing)
{
	int status = GRPC_STATUS_OK;

	for (size_t i = 0; i < trailing->count && status == GRPC_STATUS_OK; i++) {
		const grpc_slice *value = &trailing->metadata[i].value;
		Google__Rpc__Status *details;

		if (grpc_slice_str_cmp(trailing->metadata[i].key, DETAILS) != 0)
			continue;
		details = unpack(&google__rpc__status__descriptor, GRPC_SLICE_START_PTR(*value),
				 GRPC_SLICE_LENGTH(*value));
		if (details == NULL)
			continue;
		status = add_part(rpc, details);
		protobuf_c_message_free_unpacked(&details->base, NULL);
	}
	return status;
}

/* What a call has ended with. */
static int outcome(const struct sml_rpc_stream *call)
{
	struct sml_rpc *rpc = call->rpc;
	int part;

	if (call->status == GRPC_STATUS_OK)
		return 0;
	rpc->why[0] = '\0';
	if (call->status == GRPC_STATUS_DEADLINE_EXCEEDED)
		return fail(rpc, -ETIMEDOUT, "no answer in time");
	add_text(rpc, (const char *)GRPC_SLICE_START_PTR(call->text),
		 GRPC_SLICE_LENGTH(call->text));
	part = add_parts(rpc, &call->trailing);
	if (rpc->why[0] == '\0')
		snprintf(rpc->why, sizeof(rpc->why), "gRPC status %d", (int)call->status);
	return error_of(part != GRPC_STATUS_OK ? part : (int)call->status);
}

/* ---- batches ---- */

static gpr_timespec after_ms(unsigned milliseconds)
{
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			    gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

static void start_batch(struct sml_rpc_stream *call, enum batch batch, const grpc_op *ops, size_t n)
{
	/* It fails only for operations that do not go together. */
	if (grpc_call_start_batch(call->call, ops, n, &call->pending[batch], NULL) != GRPC_CALL_OK)
		abort();
	call->pending[batch] = true;
}

/* false: the time is over, and the batch is still pending. */
static bool await(struct sml_rpc_stream *call, enum batch batch, gpr_timespec deadline)
{
	grpc_event event;

	if (!call->pending[batch])
		return true;
	event = grpc_completion_queue_pluck(call->rpc->queue, &call->pending[batch], deadline,
					    NULL);
	if (event.type == GRPC_QUEUE_TIMEOUT)
		return false;
	call->pending[batch] = false;
	return true;
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message)
{
	grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
	grpc_byte_buffer *buffer;

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
	buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return buffer;
}

/* The received message, or NULL if it is not one. */
static ProtobufCMessage *take_message(struct sml_rpc_stream *call)
{
	ProtobufCMessage *message = NULL;
	grpc_byte_buffer_reader reader;

	if (grpc_byte_buffer_reader_init(&reader, call->received)) {
		grpc_slice all = grpc_byte_buffer_reader_readall(&reader);

		message = unpack(call->method->reply, GRPC_SLICE_START_PTR(all),
				 GRPC_SLICE_LENGTH(all));
		grpc_slice_unref(all);
		grpc_byte_buffer_reader_destroy(&reader);
	}
	grpc_byte_buffer_destroy(call->received);
	call->received = NULL;
	return message;
}

static void begin_receive(struct sml_rpc_stream *call)
{
	grpc_op ops[] = {
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received}};

	if (!call->pending[BATCH_RECEIVE])
		start_batch(call, BATCH_RECEIVE, ops, 1);
}

/* With both metadata and the end asked for. */
static void begin_stream(struct sml_rpc_stream *call, struct sml_rpc *rpc,
			 const struct sml_rpc_method *method, gpr_timespec deadline)
{
	grpc_slice path = grpc_slice_from_static_string(method->path);
	grpc_op begin = {.op = GRPC_OP_RECV_INITIAL_METADATA,
			 .data.recv_initial_metadata.recv_initial_metadata = &call->initial};
	grpc_op end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		       .data.recv_status_on_client = {.trailing_metadata = &call->trailing,
						      .status = &call->status,
						      .status_details = &call->text}};

	*call = (struct sml_rpc_stream){.rpc = rpc, .method = method};
	grpc_metadata_array_init(&call->initial);
	grpc_metadata_array_init(&call->trailing);
	call->text = grpc_empty_slice();
	call->call = grpc_channel_create_call(rpc->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
					      rpc->queue, path, NULL, deadline, NULL);
	start_batch(call, BATCH_BEGIN, &begin, 1);
	start_batch(call, BATCH_END, &end, 1);
}

/* Ends the call, if the server has not, and gives its outcome. */
static int finish(struct sml_rpc_stream *call, bool cancel)
{
	gpr_timespec for_ever = gpr_inf_future(GPR_CLOCK_MONOTONIC);
	int rc;

	if (cancel)
		grpc_call_cancel(call->call, NULL);
	/* The call is over or has a deadline, so none of this takes longer. */
	for (unsigned batch = 0; batch < BATCHES; batch++)
		await(call, (enum batch)batch, for_ever);
	rc = outcome(call);
	grpc_byte_buffer_destroy(call->sending);
	grpc_byte_buffer_destroy(call->received);
	grpc_slice_unref(call->text);
	grpc_metadata_array_destroy(&call->initial);
	grpc_metadata_array_destroy(&call->trailing);
	grpc_call_unref(call->call);
	return rc;
}

/* ---- calls ---- */

/* is_all: a call has one request, and a stream may have more. */
static void send_request(struct sml_rpc_stream *call, const ProtobufCMessage *request, bool is_all)
{
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	};

	ops[1].data.send_message.send_message = call->sending = pack(request);
	start_batch(call, BATCH_SEND, ops, is_all ? 3 : 2);
}

/* 1: there may be more. 0: that was the last. */
static int receive_reply(struct sml_rpc_stream *call, sml_rpc_reply *on_reply, void *context)
{
	ProtobufCMessage *reply;
	int rc = 0;

	begin_receive(call);
	await(call, BATCH_RECEIVE, gpr_inf_future(GPR_CLOCK_MONOTONIC));
	if (call->received == NULL)
		return 0;
	reply = take_message(call);
	if (reply == NULL)
		return fail(call->rpc, -EBADMSG, "an answer that cannot be read");
	if (on_reply != NULL)
		rc = on_reply(context, reply);
	protobuf_c_message_free_unpacked(reply, NULL);
	return rc < 0 ? rc : 1;
}

int sml_rpc_call(struct sml_rpc *rpc, const struct sml_rpc_method *method,
		 const ProtobufCMessage *request, sml_rpc_reply *on_reply, void *context,
		 unsigned seconds)
{
	struct sml_rpc_stream call;
	char why[WHY_BYTES];
	int rc = 1;

	begin_stream(&call, rpc, method, after_ms(seconds * 1000));
	send_request(&call, request, true);
	while (rc > 0)
		rc = receive_reply(&call, on_reply, context);
	if (rc == 0)
		return finish(&call, false);
	/* A cancelled call ends with another text. */
	memcpy(why, rpc->why, sizeof(why));
	finish(&call, true);
	memcpy(rpc->why, why, sizeof(why));
	return rc;
}

/* ---- streams ---- */

/* The stream is over: why? */
static int over(struct sml_rpc_stream *stream)
{
	int rc;

	grpc_call_cancel(stream->call, NULL);
	await(stream, BATCH_END, gpr_inf_future(GPR_CLOCK_MONOTONIC));
	rc = outcome(stream);
	return rc < 0 ? rc : fail(stream->rpc, -ECONNRESET, "it has ended the stream");
}

/* Until a batch that sends has been taken: false means that the stream is over. */
static bool sent(struct sml_rpc_stream *stream, unsigned seconds)
{
	gpr_timespec deadline = after_ms(seconds * 1000);
	grpc_event event = grpc_completion_queue_pluck(
		stream->rpc->queue, &stream->pending[BATCH_SEND], deadline, NULL);

	if (event.type == GRPC_QUEUE_TIMEOUT)
		return false;
	stream->pending[BATCH_SEND] = false;
	return event.success;
}

int sml_rpc_stream_open(struct sml_rpc_stream **opened, struct sml_rpc *rpc,
			const struct sml_rpc_method *method, const ProtobufCMessage *request,
			unsigned seconds)
{
	struct sml_rpc_stream *stream = calloc(1, sizeof(*stream));
	int rc;

	if (stream == NULL)
		return fail(rpc, -ENOMEM, "no memory for a stream");
	begin_stream(stream, rpc, method, gpr_inf_future(GPR_CLOCK_MONOTONIC));
	send_request(stream, request, false);
	if (!sent(stream, seconds)) {
		rc = over(stream);
		sml_rpc_stream_close(stream);
		return rc;
	}
	*opened = stream;
	return 0;
}

int sml_rpc_stream_receive(struct sml_rpc_stream *stream, ProtobufCMessage **reply,
			   unsigned milliseconds)
{
	begin_receive(stream);
	if (!await(stream, BATCH_RECEIVE, after_ms(milliseconds)))
		return 0;
	if (stream->received == NULL)
		return over(stream);
	*reply = take_message(stream);
	return *reply != NULL ? 1 : fail(stream->rpc, -EBADMSG, "a message that cannot be read");
}

void sml_rpc_stream_close(struct sml_rpc_stream *stream)
{
	if (stream == NULL)
		return;
	finish(stream, true);
	free(stream);
}

/* ---- the connection ---- */

/* Whoever calls tells what went wrong. */
static void log_nothing(gpr_log_func_args *line)
{
	(void)line;
}

static grpc_channel *channel_of(int fd)
{
	grpc_arg arguments[] = {
		{.type = GRPC_ARG_INTEGER,
		 .key = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
		 .value.integer = MOST_BYTES},
	};
	const grpc_channel_args all = {.num_args = 1, .args = arguments};
	grpc_channel_credentials *none = grpc_insecure_credentials_create();
	grpc_channel *channel = grpc_channel_create_from_fd("switch", fd, none, &all);

	grpc_channel_credentials_release(none);
	return channel;
}

int sml_rpc_open(struct sml_rpc **opened, const char *host, uint16_t port, const char **why)
{
	struct sml_rpc *rpc = calloc(1, sizeof(*rpc));
	struct sml_connect wish = {.host = host, .port = port, .timeout_ms = CONNECT_MS};
	int fd = sml_connect(&wish), rc;

	if (rpc == NULL || fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		rc = rpc == NULL ? -ENOMEM : fd < 0 ? fd : -errno;
		*why = rc == fd ? wish.why : strerror(-rc);
		free(rpc);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	gpr_set_log_function(log_nothing);
	grpc_init();
	rpc->queue = grpc_completion_queue_create_for_pluck(NULL);
	rpc->channel = channel_of(fd);
	*opened = rpc;
	return 0;
}

void sml_rpc_close(struct sml_rpc *rpc)
{
	grpc_channel_destroy(rpc->channel);
	/* Nothing is pending, so nothing is left to be taken out of it. */
	grpc_completion_queue_shutdown(rpc->queue);
	grpc_completion_queue_destroy(rpc->queue);
	grpc_shutdown();
	free(rpc);
}

const char *sml_rpc_why(const struct sml_rpc *rpc)
{
	return rpc->why;
}
