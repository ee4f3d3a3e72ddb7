/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane's sockets and time: connections, an event loop, and the
 * dataplane. What their messages mean is decided in job/switch.h, which this
 * drives. Everything here runs in one thread, but for note_mismatch(), which a
 * dataplane's thread calls.
 *
 *	server --- connections (a worker, or somebody asking for status)
 *	   |            |
 *	   +--- jobs ---+-- peer
 *	   |     |
 *	   +---- dataplane: the jobs' slots
 */
#ifndef SML_SWITCH_SERVER_H
#define SML_SWITCH_SERVER_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "control/stream.h"
#include "job/switch.h"
#include "switch/control/turns.h"
#include "switch/dataplane.h"
#include "switchml.h"

struct sml_connection {
	struct sml_server *server;
	struct sml_connection *previous, *next;
	struct bufferevent *stream;
	struct sml_stream messages; /* between the stream's buffers and what is said */
	struct sml_peer peer;	    /* what the jobs know of it */
	uint64_t stranger_ns;	    /* since when it has no job */
	size_t held_bytes;	    /* as strangers.c has counted them */
	uint64_t used_ns;	    /* of the thread's processor, since the last tick */
	enum sml_turn_class class;
	bool waits;   /* it has said more than fits in a turn; no more is read until that is done */
	bool closing; /* what is written goes out, then the end; nothing more is heard */
};

struct sml_server {
	struct sml_switch_config config;
	struct sml_tls *tls; /* NULL: control connections are plain */
	struct event_base *base;
	int listen_fd; /* -1: none yet */
	struct event *accept, *tick, *note, *stop;
	bool accepts_none; /* out of descriptors: until the next tick */
	bool stopping;
	uint64_t ticked_ns;
	uint16_t port;
	struct sml_jobs jobs;
	struct sml_connection *connections;
	uint32_t n_connections, max_connections;
	size_t held_bytes; /* buffered for connections without a job */
	/* Of jobs.n_refused, connections that were no peer's of ours; and when one was last logged.
	 */
	uint64_t n_refused_told, refused_told_ns;
	/* A dataplane thread's note: one mismatch at a time, others wait their turn. */
	pthread_mutex_t note_mutex;
	struct sml_mismatch noted[SML_MAX_JOBS];
	uint32_t n_noted;
};

/*
 * Open a zeroed server with its config set: sockets and dataplane. On failure
 * sml_error_last() says why, and the server is still to be closed.
 */
int sml_server_open(struct sml_server *server, const char *address, uint16_t port);

/* Serve until sml_server_stop(), which any thread may call. */
void sml_server_run(struct sml_server *server);
void sml_server_stop(struct sml_server *server);
void sml_server_close(struct sml_server *server);

/* The jobs' ways out (peer.c). */
extern const struct sml_jobs_output sml_server_output;

/* ---- connections (connection.c) ---- */

/* Serve a peer. Takes the descriptor; others may have to make room. */
void sml_connection_open(struct sml_server *server, int fd);

/* Tell its peer's address to the jobs (peer.c). */
void sml_connection_locate(struct sml_connection *connection);

/* Only for the tick and the server's end: its job must not know it any more. */
void sml_connection_free(struct sml_connection *connection);

/* Which class it belongs to has changed, perhaps; at the tick, its use of the thread begins anew.
 */
void sml_connection_classify(struct sml_connection *connection);

/* It has had its time, and can be lost. For the tick, which looks at all. */
bool sml_connection_is_over(struct sml_connection *connection, uint64_t now_ns);

/* Its job hears why, then it is freed. */
void sml_connection_lose(struct sml_connection *connection, const char *why);

/* Close it once all is written and the peer has had time to read it. */
void sml_connection_end(struct sml_connection *connection);

/* ---- connections without a job (strangers.c) ---- */

/* While there are too many, or they hold too much, the oldest goes. May lose any stranger. */
void sml_strangers_make_room(struct sml_server *server);

/* The older half goes: descriptors have ended. */
void sml_strangers_evict_half(struct sml_server *server);

/* Its buffers have grown or shrunk. May lose any stranger. */
void sml_strangers_count(struct sml_connection *connection);

/* It will be lost because of what it sent: count it; important: say so, once a second. */
void sml_strangers_refused(struct sml_connection *connection, const char *why, bool important);

#endif
