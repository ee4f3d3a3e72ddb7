/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch that runs our P4 program, as the dataplane sees it: tables, multicast groups, counters
 * and registers, all by their names in the program. Each way to control such a switch is a module
 * with one of these tables of operations, which the dataplane loads when it is used (load.c), so
 * that only its users need the client library.
 *
 * One thread at a time calls. A negative number means that the target is gone or refuses, and
 * services->error_set() has been told why.
 */
#ifndef SML_SWITCH_P4_TARGET_H
#define SML_SWITCH_P4_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switchml.h"

/* Both must come from the same build: the versions are compared. */
#define SML_P4_TARGET_VERSION "3 " SML_VERSION_STRING
#define SML_P4_TARGET_ENTRY   "sml_p4_target_operations"

#define SML_P4_FIELD_BYTES 16
#define SML_P4_KEYS	   4
#define SML_P4_PARAMETERS  13

/* A number, big-endian, as long as its field. */
struct sml_p4_field {
	uint8_t bytes[SML_P4_FIELD_BYTES];
	uint8_t n;
};

/* A field of this many bytes. */
static inline struct sml_p4_field sml_p4_number(uint64_t value, uint8_t bytes)
{
	struct sml_p4_field field = {.n = bytes};

	for (unsigned i = bytes; i-- > 0 && value > 0; value >>= 8)
		field.bytes[i] = (uint8_t)value;
	return field;
}

/* An entry of a table with exact matches. */
struct sml_p4_row {
	const char *table, *action;
	struct sml_p4_field keys[SML_P4_KEYS];
	struct sml_p4_field parameters[SML_P4_PARAMETERS];
	unsigned n_keys, n_parameters;
};

/* One copy of a multicast packet. */
struct sml_p4_node {
	uint16_t replication;
	uint16_t port;
};

/* Where a switch is controlled. */
struct sml_p4_address {
	char host[256];
	uint16_t port;
	uint32_t device; /* which one of those that are controlled there */
};

/* What the program was compiled for. */
struct sml_p4_limits {
	uint32_t lanes;
	uint32_t slots;
	bool staged; /* its slots are those of p4/include/staged.p4 */
	bool rounds; /* sums of narrow lanes: core/rounding.h */
};

struct sml_p4_services {
	const char *version;
	int (*error_set)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

struct sml_p4_target;

typedef int sml_p4_change(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n);

struct sml_p4_target_operations {
	const char *version;
	const char *name; /* "bmv2" */
	/* Packets of one rank that it can hold when ranks send at once, if there is one rank. */
	uint32_t window;
	/* Ports p with the same p / pipe_ports share registers, so a job's ranks must be at such
	 * ports. 0 if all ports do. */
	uint16_t pipe_ports;
	/* Connects, and makes the target forget all that earlier daemons have told it. Refused
	 * while another daemon controls the target; to find out may take seconds. */
	int (*open)(struct sml_p4_target **opened, const struct sml_p4_address *address,
		    const struct sml_p4_services *services);
	void (*close)(struct sml_p4_target *target);
	int (*limits)(struct sml_p4_target *target, struct sml_p4_limits *limits);
	/*
	 * Whether the target is still there, and controlled by nobody else. Called about twice a
	 * second.
	 */
	int (*check)(struct sml_p4_target *target);
	sml_p4_change *insert;
	/* Change the action and the parameters of an entry. */
	int (*modify)(struct sml_p4_target *target, const struct sml_p4_row *row);
	/* The entries with the rows' keys. */
	sml_p4_change *remove;
	int (*add_group)(struct sml_p4_target *target, uint16_t group,
			 const struct sml_p4_node *nodes, unsigned n);
	int (*remove_group)(struct sml_p4_target *target, uint16_t group);
	int (*read_counter)(struct sml_p4_target *target, const char *name, uint32_t index,
			    uint64_t *packets, uint64_t *bytes);
	/* n elements from the first one on, of a pipe. NULL if the target cannot read registers. */
	int (*read_registers)(struct sml_p4_target *target, const char *name, unsigned pipe,
			      uint32_t first, uint64_t *values, uint32_t n);
	/* For tests: in all pipes. */
	int (*write_register)(struct sml_p4_target *target, const char *name, uint32_t index,
			      uint64_t value);
};

#endif
