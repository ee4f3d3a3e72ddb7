/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by target.c (operations), tables.c (entries of tables), program.c and owner.c. */
#ifndef SML_SWITCH_P4_THRIFT_INTERNAL_H
#define SML_SWITCH_P4_THRIFT_INTERNAL_H

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "bm_simple_pre_l_a_g.h"
#include "bm_simple_switch.h"
#include "bm_standard.h"
#include "switch/p4/target.h"

#define SML_BMV2_CONTEXT     0
#define SML_BMV2_GROUPS	     512
#define SML_BMV2_GROUP_NODES 64
/* BMv2 answers that it does not do this. Not an error, until a caller makes it one. */
#define SML_BMV2_REFUSED 1

struct sml_bmv2_group {
	gint32 handle, nodes[SML_BMV2_GROUP_NODES];
	unsigned n;
	bool used;
};

/* An entry of a table, as BMv2 knows it. No other entry ever has the same handle in its table, as
 * long as nobody clears the table. */
struct sml_bmv2_entry {
	gint32 handle;
	struct sml_p4_field parameter; /* the first one of its action */
};

struct sml_bmv2_owner {
	gint32 handle; /* of our entry */
	uint64_t beat;
	uint64_t beaten_ns;
	bool holds;
};

struct sml_p4_target {
	const struct sml_p4_services *services;
	char where[300];
	ThriftTransport *raw, *transport;
	ThriftProtocol *protocol, *protocols[3];
	BmStandardIf *standard;
	BmSimplePreLAGIf *replication;
	BmSimpleSwitchIf *queues;
	struct sml_bmv2_group groups[SML_BMV2_GROUPS];
	struct sml_bmv2_owner owner;
};

/* Sets the rest of a sentence about what failed, frees `error`, and returns a negative errno. */
int sml_bmv2_fail(struct sml_p4_target *target, const char *what, GError *error);

/* A refusal becomes an error. */
int sml_bmv2_need(struct sml_p4_target *target, const char *table, int rc);

/* Of an operation: returns, with an error, if a call has failed or was refused. */
#define SML_BMV2_CALL(ok, what, exception)                                                         \
	do {                                                                                       \
		bool refused_ = (exception) != NULL;                                               \
		g_clear_object(&(exception));                                                      \
		if (!(ok) || refused_)                                                             \
			return sml_bmv2_fail(target, what, error);                                 \
	} while (0)

/* ---- program.c: 0, or an error with a text ---- */

int sml_bmv2_limits(struct sml_p4_target *target, struct sml_p4_limits *limits);
/* The entries of its tables, its registers and its counters. */
int sml_bmv2_forget_program(struct sml_p4_target *target);

/* ---- tables.c: 0, SML_BMV2_REFUSED, or an error with a text ---- */

int sml_bmv2_add(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 *handle);
/* The entry with the row's keys. */
int sml_bmv2_find(struct sml_p4_target *target, const struct sml_p4_row *row,
		  struct sml_bmv2_entry *found);
/* The row's action and parameters become those of the entry. */
int sml_bmv2_change(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 handle);
int sml_bmv2_delete(struct sml_p4_target *target, const char *table, gint32 handle);
int sml_bmv2_clear(struct sml_p4_target *target, const char *table);
/* All but one entry. */
int sml_bmv2_delete_others(struct sml_p4_target *target, const char *table, gint32 handle);

/* ---- owner.c: 0, or an error with a text ---- */

/* Makes this daemon the one that controls the P4 switch. May wait for some seconds. */
int sml_bmv2_owner_take(struct sml_p4_target *target);
/* Is this daemon still the one that controls the P4 switch? Others hear that it lives. */
int sml_bmv2_owner_beat(struct sml_p4_target *target);
/* The same, if the last beat is so old that another daemon may soon take over. */
int sml_bmv2_owner_keep(struct sml_p4_target *target);
/* Deletes all entries of a table that others may have left, except the owner's. */
int sml_bmv2_owner_clear(struct sml_p4_target *target, const char *table);
void sml_bmv2_owner_give(struct sml_p4_target *target);

#endif
