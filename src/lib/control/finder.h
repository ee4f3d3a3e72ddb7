/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job/rank/search.h with sockets: connects to the addresses that the search wants to try, several
 * at once, and reads the switches' messages, all in one event loop.
 */
#ifndef SML_LIB_FINDER_H
#define SML_LIB_FINDER_H

#include <stdbool.h>
#include <stdint.h>

#include "job/rank/search.h"
#include "lib/control/client.h"

#define SML_TRIED_BYTES 401

struct sml_finder;

struct sml_finder_config {
	enum sml_search_kind kind;
	const struct sml_endpoint *endpoints;
	unsigned n_endpoints, first; /* the address to begin with */
	const char *interface;	     /* filter, or NULL */
	uint64_t deadline_ns;
	uint32_t heartbeat_ms;		     /* to go on: the longest of the job's ranks */
	const struct sml_settings *settings; /* for what is logged */
	const char *lost;		     /* to go on: how the switch was lost; else NULL */
	const bool *give_up;		     /* atomic; NULL if never */
	const bool *moved;		     /* likewise: look no longer at these endpoints */
	const volatile int *interrupt;	     /* likewise: the application's, while it opens */

	/* To go on: open a control on this connection and loop, and ask to join. NULL at first. */
	int (*join)(void *self, const struct sml_reached *connection, struct sml_loop *loop,
		    struct sml_control **control);
	/*
	 * Reports the state of all switches, in SML_TRIED_BYTES. Called often. NULL if there are no
	 * reports.
	 */
	void (*tell)(void *self, const char *text);
	/*
	 * If give_up is set because the job is over for this rank, what the other ranks are to be
	 * told of it. False: there is nothing to tell. NULL at first.
	 */
	bool (*get_abort_message)(void *self, struct sml_abort_message *message);
	/* Atomic; not 0 if this rank only wants to leave, and others may have left. NULL for 0. */
	const uint64_t *leaves_ns;
	void *self;
};

/* The config's pointers must outlive the finder. Returns 0, or an error with its text set. */
int sml_finder_open(struct sml_finder **opened, const struct sml_finder_config *config);

/*
 * To begin: connect to one switch. The caller owns the connection's socket. Returns 0, or an error
 * with its text set.
 */
int sml_finder_connect(struct sml_finder *finder, struct sml_reached *connection);

/* What a rank that only leaves may be told instead of a switch: it has left. */
#define SML_FINDER_LEFT 1
/* The switches' names mean something else, and nothing has begun: look again. */
#define SML_FINDER_MOVED 2

/*
 * To go on: until a switch that all ranks have joined begins with them. The control stays the
 * finder's until sml_finder_keep(). Returns 0; SML_FINDER_LEFT or _MOVED; SML_ERROR_CLOSED if
 * give_up is set; or an error, and then sets an error text that lists all switches.
 */
int sml_finder_meet(struct sml_finder *finder, struct sml_control **control,
		    struct sml_reached *connection);

/* The switch that began cannot continue; the last error has the reason. Closes its control. */
void sml_finder_reject(struct sml_finder *finder, int error);

/* The switch that began continues: the caller owns the control, with the loop that it runs in. */
void sml_finder_keep(struct sml_finder *finder);

void sml_finder_close(struct sml_finder *finder);

#endif
