/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane: connections, the jobs they belong to, and the dataplane
 * that serves them. Everything here runs in one thread, on one event loop, but
 * for note_mismatch(), which a dataplane's thread calls.
 *
 *	server --- connections (a worker, or somebody asking for status)
 *	   |            |
 *	   +---- jobs --+-- members[rank] -> connection
 *	   |       |
 *	   +---- dataplane: the job's slots
 */
#ifndef SML_SWITCH_SERVER_H
#define SML_SWITCH_SERVER_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "control/stream.h"
#include "core/pool.h"
#include "switch/dataplane.h"
#include "switchml.h"

/* Between two looks at deadlines. */
#define SML_TICK_NS	  100000000ull
#define SML_NAME_BYTES	  128
#define SML_VERSION_BYTES 32
#define SML_FAILED_TAGS	  256
#define SML_TEXT_BYTES	  512
/* A peer's own words in a text. */
#define SML_REASON_BYTES 300

struct sml_job;

struct sml_connection {
	struct sml_server *server;
	struct sml_connection *previous, *next;
	struct bufferevent *stream;
	struct sml_stream messages; /* between the stream's buffers and what is said */
	uint64_t heard_ns;
	uint64_t stranger_ns; /* since when it has no job */
	size_t held_bytes;    /* as strangers.c has counted them */
	struct sml_job *job;  /* NULL: not joined (yet, or any more) */
	uint8_t rank;
	bool closing; /* what is written goes out, then the end; nothing more is heard */
};

struct sml_server {
	struct sml_switch_config config;
	struct sml_tls *tls; /* NULL: control connections are plain */
	struct event_base *base;
	struct evconnlistener *listener;
	int listen_fd; /* the port, until it is the listener's; -1 */
	struct event *tick, *note, *stop;
	bool accepts_none; /* out of descriptors: until the next tick */
	bool stopping;
	uint64_t ticked_ns;
	uint16_t port, data_port;
	struct sml_group group; /* of the first job's results; none: no multicast */
	const struct sml_dataplane_operations *operations;
	struct sml_dataplane *dataplane;
	struct sml_connection *connections;
	uint32_t n_connections;
	size_t held_bytes; /* buffered for connections without a job */
	/* Connections that were no peer's of ours; and when one was last logged. */
	uint64_t n_refused, n_refused_told, refused_told_ns;
	uint64_t n_evicted; /* strangers that had to make room */
	struct sml_job *jobs[SML_MAX_JOBS];
	uint32_t n_jobs, slots_in_use;
	uint64_t begun_ns;
	/* Tags of jobs that failed here, newest last: their ranks must not go on here. */
	uint64_t failed_tags[SML_FAILED_TAGS];
	uint32_t n_failed;
	/* A dataplane thread's note: one mismatch at a time, others wait their turn. */
	pthread_mutex_t note_mutex;
	struct sml_mismatch noted[SML_MAX_JOBS];
	uint32_t n_noted;
};

/*
 * Open a zeroed server with its config set: sockets and dataplane. On failure a
 * sentence is in error_text, and the server is still to be closed.
 */
int sml_server_open(struct sml_server *server, const char *address, uint16_t port, char *error_text,
		    size_t error_bytes);

/* Serve until sml_server_stop(), which any thread may call. */
void sml_server_run(struct sml_server *server);
void sml_server_stop(struct sml_server *server);
void sml_server_close(struct sml_server *server);

/* ---- connections (connection.c) ---- */

/* Serve a peer. Takes the descriptor; others may have to make room. */
void sml_connection_open(struct sml_server *server, int fd);

/* Only for the tick and the server's end: its job must not know it any more. */
void sml_connection_free(struct sml_connection *connection);

/* It has had its time, and can be lost. For the tick, which looks at all. */
bool sml_connection_is_over(struct sml_connection *connection, uint64_t now_ns);

/* It reads what it is told: other than it must know need not be said to one that doesn't. */
bool sml_connection_listens(const struct sml_connection *connection);

/* Its job hears why, then it is freed. */
void sml_connection_lose(struct sml_connection *connection, const char *why);

/* Queue a message. 0, -ENOMEM, or -EMSGSIZE: too long for a message. */
int sml_connection_send(struct sml_connection *connection, const SmlControl__Envelope *message);

/* Close it once all is written and the peer has had time to read it. */
void sml_connection_end(struct sml_connection *connection);

/* Send Abort with this error and sentence, and end it. */
void sml_connection_refuse(struct sml_connection *connection, int error, const char *text);

/* ---- connections without a job (strangers.c) ---- */

/* While there are too many, or they hold too much, the oldest goes. May lose any stranger. */
void sml_strangers_make_room(struct sml_server *server);

/* The older half goes: descriptors have ended. */
void sml_strangers_evict_half(struct sml_server *server);

/* Its buffers have grown or shrunk. May lose any stranger. */
void sml_strangers_count(struct sml_connection *connection);

/* It will be lost because of what it sent: count it; important: say so, once a second. */
void sml_strangers_refused(struct sml_connection *connection, const char *why, bool important);

/* Are the slots elsewhere, with the ranks? */
bool sml_server_is_rendezvous(const struct sml_server *server);

/* ---- jobs (job.c, job_join.c, job_resume.c, status.c) ---- */

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_server *server, struct sml_connection *connection,
		  const SmlControl__Join *join);

/* A member has been added: are all here? */
void sml_job_joined(struct sml_job *job);

/* Any later message of a member. */
void sml_job_message(struct sml_connection *connection, const SmlControl__Envelope *message);

/* A rank that has slots tells what they have done. */
void sml_job_note_served(struct sml_connection *connection, const SmlControl__StripeStatus *served);

/* A member's connection has ended: why says how. */
void sml_job_lost(struct sml_connection *connection, const char *why);

/* The switch has not looked for so long, and nobody was heard: bounds begin that much later. */
void sml_job_forgive(struct sml_job *job, uint64_t away_ns);
/* Every SML_TICK_NS: missing ranks, deadlines. */
void sml_job_tick(struct sml_job *job, uint64_t now_ns);

/* Two ranks disagree: ask both what they believe, then tell all. */
void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch);

/* Tell every member, and give the slots back. The job is gone. */
void sml_job_fail(struct sml_job *job, int error, const char *text);

void sml_status_send(struct sml_server *server, struct sml_connection *connection);

#endif
