/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of a gRPC server, whose messages are protobuf-c's, for the module that speaks BF Runtime.
 * One thread at a time may use a connection with its streams.
 *
 * Nothing here waits without a limit: each call names its patience, and a negative errno is the
 * answer when it is over. sml_rpc_why() then has the reason in words, for the user.
 *
 * The connection moves bytes only while a call or a receive waits. A server that has gone is
 * therefore noticed by the next one of them.
 */
#ifndef SML_SWITCH_P4_RPC_H
#define SML_SWITCH_P4_RPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct sml_rpc;
struct sml_rpc_stream;

struct sml_rpc_method {
	const char *path; /* "/package.Service/Method" */
	const ProtobufCMessageDescriptor *reply;
};

/*
 * A connection without encryption, which is never made again by itself. -EHOSTUNREACH: the host's
 * name is unknown. -ENOMEM, and what connect() can say. *why: the error in words.
 */
int sml_rpc_open(struct sml_rpc **opened, const char *host, uint16_t port, const char **why);

/* After its streams. */
void sml_rpc_close(struct sml_rpc *rpc);

/* Why the last call failed, in one line. */
const char *sml_rpc_why(const struct sml_rpc *rpc);

/* A reply, valid during the call. 0, or a negative errno, which ends the call. */
typedef int sml_rpc_reply(void *context, const ProtobufCMessage *reply);

/*
 * Call a method with one request, and pass all its replies (one, or a stream of them) to on_reply,
 * which may be NULL. 0: the server said that all is well.
 *
 * -ECONNREFUSED: it is not there. -ETIMEDOUT: it did not answer within `seconds`. -ENOENT,
 * -EEXIST: as the server says. -EBADMSG: its answer is not what the interface says. -EREMOTEIO:
 * all else that a server can say. Or what on_reply returned.
 */
int sml_rpc_call(struct sml_rpc *rpc, const struct sml_rpc_method *method,
		 const ProtobufCMessage *request, sml_rpc_reply *on_reply, void *context,
		 unsigned seconds);

/*
 * A stream that begins with this request and lasts until one side ends it. Errors as for a call.
 */
int sml_rpc_stream_open(struct sml_rpc_stream **opened, struct sml_rpc *rpc,
			const struct sml_rpc_method *method, const ProtobufCMessage *request,
			unsigned seconds);

/*
 * Wait for a message. 1: *reply is one, for protobuf_c_message_free_unpacked(). 0: none came within
 * the time, which may be 0 to only look. A negative errno: the stream has ended.
 */
int sml_rpc_stream_receive(struct sml_rpc_stream *stream, ProtobufCMessage **reply,
			   unsigned milliseconds);

/* Ends it. NULL is no stream. */
void sml_rpc_stream_close(struct sml_rpc_stream *stream);

#endif
