/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by target.c (operations), entries.c (what is written and read), session.c (the stream and
 * the program) and names.c (P4Info). A call of the switch waits for CALL_SECONDS at most.
 */
#ifndef SML_SWITCH_P4_P4RUNTIME_INTERNAL_H
#define SML_SWITCH_P4_P4RUNTIME_INTERNAL_H

#include "p4info.pb-c.h"
#include "p4runtime.pb-c.h"
#include "switch/p4/grpc/rpc.h"
#include "switch/p4/target.h"

/* Tests are in a hurry. */
#ifndef CALL_SECONDS
#define CALL_SECONDS 10
#endif

struct sml_p4_target {
	const struct sml_p4_services *services;
	char where[300];
	uint32_t device;
	P4__V1__Uint128 election; /* also the cookie of our program */
	P4__Config__V1__P4Info *info;
	struct sml_p4_limits limits;
	struct sml_rpc *rpc;
	struct sml_rpc_stream *stream;
};

/* Tells that `what` failed with rc, and the reason of the connection. Returns rc. */
int p4rt_fail(struct sml_p4_target *target, int rc, const char *what);

/* ---- names.c ---- */

const P4__Config__V1__Table *p4rt_table(const P4__Config__V1__P4Info *info, const char *name);
const P4__Config__V1__Action *p4rt_action(const P4__Config__V1__P4Info *info, const char *name);
const P4__Config__V1__Counter *p4rt_counter(const P4__Config__V1__P4Info *info, const char *name);
const P4__Config__V1__Register *p4rt_register(const P4__Config__V1__P4Info *info, const char *name);

/* The shortest form of a number, which points into the field. */
ProtobufCBinaryData p4rt_bytes(const struct sml_p4_field *field);

/* Does a number of so many bits fit? */
bool p4rt_fits(ProtobufCBinaryData bytes, int32_t bits);

/* ---- entries.c ---- */

int p4rt_write_row(struct sml_p4_target *target, P4__V1__Update__Type type,
		   const struct sml_p4_row *row);
int p4rt_add_group(struct sml_p4_target *target, uint16_t group, const struct sml_p4_node *nodes,
		   unsigned n);
int p4rt_remove_group(struct sml_p4_target *target, uint16_t group);
int p4rt_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
		      uint64_t *packets, uint64_t *bytes);
/* All that earlier controllers have made: a new program does not end them. */
int p4rt_remove_all_groups(struct sml_p4_target *target);

/* ---- session.c ---- */

/* Become the only client that may write. */
int p4rt_become_primary(struct sml_p4_target *target);
/* Is it still we? */
int p4rt_check_primary(struct sml_p4_target *target);
int p4rt_load(struct sml_p4_target *target, const struct sml_p4_program *program);
/* Does the switch still answer, and with our program? */
int p4rt_check_program(struct sml_p4_target *target);

#endif
