/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of BF Runtime, as bf_switchd serves it: connected by a stream, and bound to the program
 * that has our tables. bf_switchd has loaded that program; nothing here loads one. The binding is
 * exclusive, so two daemons never write the same tables.
 */
#ifndef SML_SWITCH_P4_BFRT_SESSION_H
#define SML_SWITCH_P4_BFRT_SESSION_H

#include "switch/p4/bfrt/entry.h"
#include "switch/p4/bfrt/schema.h"
#include "switch/p4/grpc/rpc.h"
#include "switch/p4/target.h"

#define SML_BFRT_BATCH 64 /* entries in one message */

/* All pipes of the device. */
#define SML_BFRT_ALL_PIPES 0xffff

struct sml_bfrt {
	const struct sml_p4_services *services;
	char where[300];
	struct sml_rpc *rpc;
	struct sml_rpc_stream *stream;
	uint32_t device, client_id;
	struct sml_bfrt_schema schema;
};

/*
 * Connects and binds to the program that has this table. Errors have a text. After one, too, what
 * has been opened is closed by sml_bfrt_disconnect().
 */
int sml_bfrt_connect(struct sml_bfrt *bfrt, const struct sml_p4_address *address, const char *table,
		     const struct sml_p4_services *services);
void sml_bfrt_disconnect(struct sml_bfrt *bfrt);

/* Is this client still connected, and the program still the same? `table` is any table. */
int sml_bfrt_check(struct sml_bfrt *bfrt, const json_t *table);

/*
 * Returns `error`, and sets an error text that begins with the switch and says that `what` failed.
 */
int sml_bfrt_fail(const struct sml_bfrt *bfrt, int error, const char *what, const char *why);

/* Apply `type` to these entries, in their order: at most SML_BFRT_BATCH, as for reading. */
int sml_bfrt_write(struct sml_bfrt *bfrt, const char *what, BfrtProto__Update__Type type,
		   BfrtProto__TableEntry *const *entries, size_t n);

/* The entry is valid during the call. */
typedef void sml_bfrt_on_entry(void *context, const BfrtProto__TableEntry *entry);

/* Read these entries from one pipe or all. An entry without a key stands for all of its table. */
int sml_bfrt_read(struct sml_bfrt *bfrt, const char *what, uint32_t pipe,
		  BfrtProto__TableEntry *const *entries, size_t n, sml_bfrt_on_entry *on_entry,
		  void *context);

#endif
