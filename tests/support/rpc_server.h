/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A gRPC server with prepared answers, for what a real switch never does: it answers too late, not
 * at all, or with bytes that are no message.
 */
#ifndef SML_TESTS_RPC_SERVER_H
#define SML_TESTS_RPC_SERVER_H

#include <stddef.h>
#include <stdint.h>

struct rpc_answer {
	const char *method; /* the end of its path; NULL ends the list */
	enum {
		RPC_REPLY,  /* with these bytes; all is well */
		RPC_STREAM, /* the same, and the call goes on */
		RPC_SILENCE,
		RPC_REFUSE, /* with this status, its text, and these bytes as its details */
	} how;
	const uint8_t *bytes;
	size_t n;
	int status;
	const char *text;
};

struct rpc_server;

/* It answers each method as the list says, and all others with "unimplemented". */
struct rpc_server *rpc_server_open(const struct rpc_answer *answers);
uint16_t rpc_server_port(const struct rpc_server *server);
/* Its calls are cancelled. */
void rpc_server_close(struct rpc_server *server);

#endif
