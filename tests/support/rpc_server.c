/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC server with prepared answers: see rpc_server.h. One thread takes one call at a time. */
#include "support/rpc_server.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_CALLS 64
#define ROUND_MS  20

struct rpc_server {
	const struct rpc_answer *answers;
	grpc_server *server;
	grpc_completion_queue *queue;
	int port;
	pthread_t thread;
	int stops;
	grpc_call *calls[MAX_CALLS]; /* those that are open, or have been */
	unsigned n_calls;
};

static grpc_event pluck(struct rpc_server *server, void *tag, gpr_timespec deadline)
{
	return grpc_completion_queue_pluck(server->queue, tag, deadline, NULL);
}

static gpr_timespec for_ever(void)
{
	return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

static void run(struct rpc_server *server, grpc_call *call, const grpc_op *ops, size_t n)
{
	assert_int_equal(grpc_call_start_batch(call, ops, n, call, NULL), GRPC_CALL_OK);
	pluck(server, call, for_ever());
}

/* The request is read and thrown away: what it says is tested with a real switch. */
static void take_request(struct rpc_server *server, grpc_call *call)
{
	grpc_byte_buffer *request = NULL;
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &request},
	};

	run(server, call, ops, 2);
	if (request != NULL)
		grpc_byte_buffer_destroy(request);
}

static void send_reply(struct rpc_server *server, grpc_call *call, const struct rpc_answer *answer)
{
	grpc_slice slice = grpc_slice_from_copied_buffer((const char *)answer->bytes, answer->n);
	grpc_byte_buffer *reply = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = reply};

	run(server, call, &op, 1);
	grpc_byte_buffer_destroy(reply);
	grpc_slice_unref(slice);
}

static void send_status(struct rpc_server *server, grpc_call *call, int status, const char *text,
			const struct rpc_answer *answer)
{
	grpc_slice words = grpc_slice_from_copied_string(text);
	grpc_metadata details = {.key = grpc_slice_from_static_string("grpc-status-details-bin"),
				 .value = grpc_empty_slice()};
	int cancelled = 0;
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &cancelled},
	};

	ops[0].data.send_status_from_server.status = (grpc_status_code)status;
	ops[0].data.send_status_from_server.status_details = &words;
	if (status != GRPC_STATUS_OK && answer != NULL && answer->n > 0) {
		details.value =
			grpc_slice_from_copied_buffer((const char *)answer->bytes, answer->n);
		ops[0].data.send_status_from_server.trailing_metadata = &details;
		ops[0].data.send_status_from_server.trailing_metadata_count = 1;
	}
	run(server, call, ops, 2);
	grpc_slice_unref(details.value);
	grpc_slice_unref(words);
}

static bool is_method(grpc_slice path, const char *name)
{
	size_t length = strlen(name), whole = GRPC_SLICE_LENGTH(path);

	return whole >= length &&
	       memcmp(GRPC_SLICE_START_PTR(path) + whole - length, name, length) == 0;
}

static void answer_call(struct rpc_server *server, grpc_call *call, grpc_slice path)
{
	const struct rpc_answer *answer = server->answers;

	while (answer->method != NULL && !is_method(path, answer->method))
		answer++;
	take_request(server, call);
	if (answer->method == NULL) {
		send_status(server, call, GRPC_STATUS_UNIMPLEMENTED, "no such method", NULL);
		return;
	}
	if (answer->how == RPC_REPLY || answer->how == RPC_STREAM)
		send_reply(server, call, answer);
	if (answer->how == RPC_REPLY)
		send_status(server, call, GRPC_STATUS_OK, "", NULL);
	if (answer->how == RPC_REFUSE)
		send_status(server, call, answer->status, answer->text, answer);
}

static bool stops(struct rpc_server *server)
{
	return __atomic_load_n(&server->stops, __ATOMIC_ACQUIRE);
}

/* false: the server is about to end. */
static bool take_call(struct rpc_server *server)
{
	grpc_call **call = &server->calls[server->n_calls];
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_event event;
	bool has_ended = false;

	grpc_call_details_init(&details);
	grpc_metadata_array_init(&metadata);
	assert_int_equal(grpc_server_request_call(server->server, call, &details, &metadata,
						  server->queue, server->queue, &details),
			 GRPC_CALL_OK);
	do {
		event = pluck(server, &details,
			      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
					   gpr_time_from_millis(ROUND_MS, GPR_TIMESPAN)));
		if (event.type == GRPC_QUEUE_TIMEOUT && stops(server) && !has_ended) {
			/* Also gives the request for a call back. */
			grpc_server_shutdown_and_notify(server->server, server->queue, server);
			grpc_server_cancel_all_calls(server->server);
			has_ended = true;
		}
	} while (event.type == GRPC_QUEUE_TIMEOUT);
	if (event.success) {
		server->n_calls++;
		answer_call(server, *call, details.method);
	}
	grpc_call_details_destroy(&details);
	grpc_metadata_array_destroy(&metadata);
	assert_true(server->n_calls < MAX_CALLS);
	return !has_ended;
}

static void *serve(void *argument)
{
	struct rpc_server *server = argument;

	while (take_call(server))
		;
	pluck(server, server, for_ever());
	return NULL;
}

struct rpc_server *rpc_server_open(const struct rpc_answer *answers)
{
	struct rpc_server *server = calloc(1, sizeof(*server));
	grpc_server_credentials *none;

	assert_non_null(server);
	server->answers = answers;
	grpc_init();
	none = grpc_insecure_server_credentials_create();
	server->server = grpc_server_create(NULL, NULL);
	server->queue = grpc_completion_queue_create_for_pluck(NULL);
	grpc_server_register_completion_queue(server->server, server->queue, NULL);
	server->port = grpc_server_add_http2_port(server->server, "127.0.0.1:0", none);
	grpc_server_credentials_release(none);
	assert_true(server->port > 0);
	grpc_server_start(server->server);
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
	return server;
}

uint16_t rpc_server_port(const struct rpc_server *server)
{
	return (uint16_t)server->port;
}

void rpc_server_close(struct rpc_server *server)
{
	__atomic_store_n(&server->stops, 1, __ATOMIC_RELEASE);
	pthread_join(server->thread, NULL);
	for (unsigned i = 0; i < server->n_calls; i++)
		grpc_call_unref(server->calls[i]);
	grpc_server_destroy(server->server);
	grpc_completion_queue_shutdown(server->queue);
	grpc_completion_queue_destroy(server->queue);
	grpc_shutdown();
	free(server);
}
