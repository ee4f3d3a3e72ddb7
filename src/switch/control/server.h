/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane's sockets and time: connections, an event loop, and the dataplane.
 * job/switch.h, which this code drives, decides what messages mean. Everything here runs in one
 * thread, except note_mismatch(), which a dataplane's thread calls.
 *
 *	server --- connections (a worker, or somebody asking for status)
 *	   |            |
 *	   +--- jobs ---+-- peer
 *	   |     |
 *	   +---- dataplane: the jobs' slots
 */
#ifndef SML_SWITCH_SERVER_H
#define SML_SWITCH_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop.h"
#include "control/channel.h"
#include "job/switch.h"
#include "net/address.h"
#include "switch/dataplane.h"
#include "switchml.h"

/*
 * ---- turns ----
 *
 * Which connections are served first, and how much in one turn of the event loop. A turn is what
 * the loop does between two polls of its sockets. Anyone can create work as a stranger, so members
 * of running jobs, and timers, go first:
 *
 *	SML_TURN_CLOCK      the tick, the dataplane's notes, the end
 *	SML_TURN_MEMBERS    connections of jobs that run
 *	SML_TURN_STRANGERS  all others: accepting, handshakes, joining, questions
 *
 * While a class has work, no class below it is served; and a turn serves at most SML_TURN_CALLS
 * connections, or those that fit in SML_TURN_NS. One call processes at most
 * SML_CHANNEL_TURN_MESSAGES messages of a connection; the rest waits for its next call. A member
 * that uses more than SML_MEMBER_CPU_NS of the thread between two ticks is served with the
 * strangers until the next tick.
 *
 * The invariant: once a member's bytes have come, at most one stranger's call is served before it.
 */

enum sml_turn_class { SML_TURN_CLOCK, SML_TURN_MEMBERS, SML_TURN_STRANGERS, SML_TURN_CLASSES };

#define SML_TURN_CALLS 16
#define SML_TURN_NS    2000000ull
/* Of 100 ms. */
#define SML_MEMBER_CPU_NS 500000ull
/* The connections that one call accepts, and that one tick closes. */
#define SML_CALL_ACCEPTS 8
#define SML_TICK_LOSSES	 64

/* ---- the server and its connections ---- */

/* The most addresses that the parent's name can have. */
#define SML_PARENT_ADDRESSES 8

/* Of a leaf: the way to its parent (parent.c). */
struct sml_uplink {
	char where[280], host[256];
	union sml_sockaddr addresses[SML_PARENT_ADDRESSES];
	unsigned n_addresses, next;
	struct sml_tls *tls;
	struct sml_watch *timer;     /* until the next try, or the end of one */
	struct sml_watch *connected; /* of a try */
	int fd;			     /* of a try; -1 if there is none */
	struct sml_connection *connection;
	char why[SML_SENTENCE_BYTES]; /* the last failure, as it was logged */
};

struct sml_connection {
	struct sml_server *server;
	struct sml_connection *previous, *next;
	struct sml_channel channel;
	struct sml_peer peer; /* the jobs' view of it */
	uint64_t stranger_ns; /* since when it has no job */
	size_t held_bytes;    /* as strangers.c has counted them */
	uint64_t used_ns;     /* of the thread's processor, since the last tick */
	enum sml_turn_class class;
	bool was_silent; /* when it began to close: its host may be gone */
	bool kept_alive; /* the kernels find out whether the peer's host is there */
};

struct sml_server {
	struct sml_switch_config config;
	struct sml_tls *tls; /* NULL if control connections are plain */
	struct sml_loop *loop;
	int listen_fd; /* -1 if there is none yet */
	struct sml_watch *accept, *tick, *note, *reload, *status, *stop;
	bool accepts_none;	 /* out of descriptors: until the next tick */
	uint64_t room_logged_ns; /* when that was logged last; 0 if never */
	bool stopping;
	uint64_t stops_ns;	    /* by then, whoever has not read it yet */
	_Atomic uint64_t ticked_ns; /* other threads see by it that the loop runs */
	uint16_t port;
	struct sml_jobs jobs;
	char name[320];		       /* this switch's, in texts */
	char only_job[SML_NAME_BYTES]; /* the one of jobs.config, if it has one */
	struct sml_uplink uplink;
	struct sml_connection *connections;
	uint32_t n_connections, max_connections;
	size_t held_bytes;	      /* buffered for connections without a job */
	struct sml_log_room refusals; /* of connections */
	/* A dataplane thread's note: one mismatch at a time, others wait. */
	pthread_mutex_t note_mutex;
	struct sml_mismatch noted[SML_MAX_JOBS];
	uint32_t n_noted;
	/* What is to hold from now on; under the same mutex. */
	uint32_t new_heartbeat_ms, new_world_size;
	char new_job[SML_NAME_BYTES]; /* "": as before */
	int new_debug;
	/* Questions of other threads for the status, and the answer to those up to a number; too.
	 */
	pthread_cond_t status_written;
	uint64_t n_status_requests, n_status_answers;
	uint8_t *status_bytes;
	size_t status_n;
};

/*
 * Open a zeroed server with its config set: sockets and dataplane. On failure sml_error_last() says
 * why, and the server must still be closed.
 */
int sml_server_open(struct sml_server *server, const char *address, uint16_t port);

/* Serve until sml_server_stop(), which any thread may call. */
void sml_server_run(struct sml_server *server);
void sml_server_stop(struct sml_server *server);
/* As sml_switch_reload(). */
int sml_server_reload(struct sml_server *server, const struct sml_switch_config *config);
/* As sml_switch_status(). */
uint8_t *sml_server_status(struct sml_server *server, uint32_t timeout_ms, size_t *n);
void sml_server_close(struct sml_server *server);

/* The jobs' output functions (connection.c). */
extern const struct sml_jobs_output sml_server_output;

/* ---- connections (connection.c) ---- */

/* The watch's function of the port: some peers have come. context is the server. */
void sml_connection_accept(void *context, unsigned what);

/* Serve a peer. Takes the descriptor, and may close other strangers to make room. */
void sml_connection_open(struct sml_server *server, int fd);

/*
 * The same for a descriptor that leads to the parent. NULL if there is no memory, and it is closed.
 */
struct sml_connection *sml_connection_open_parent(struct sml_server *server, int fd);

/* Only for the tick and the server's end, when no job refers to it. */
void sml_connection_free(struct sml_connection *connection);

/* Its class may have changed. At the tick, its use of the thread starts at zero again. */
void sml_connection_classify(struct sml_connection *connection);

/* Its peer may have begun or ended to be silent. For the tick. */
void sml_connection_keep_alive(struct sml_connection *connection);

/* Its time is over, and it can be closed. For the tick, which checks all connections. */
bool sml_connection_is_over(struct sml_connection *connection, uint64_t now_ns);

/* Whether what was written is under way, or is lost there and sent again. */
bool sml_connection_is_resent(const struct sml_connection *connection);

/* Report the reason to its job, and then free the connection. */
void sml_connection_lose(struct sml_connection *connection, const char *why);

/* Close it once all is written and the peer has had time to read it. */
void sml_connection_end(struct sml_connection *connection);

/* ---- the parent (parent.c) ---- */

/*
 * Finds the parent's addresses, while names can be resolved. Returns 0 or an error, and sets the
 * error text.
 */
int sml_uplink_find(struct sml_server *server);

/*
 * Connect to the parent, and connect again whenever the connection is lost. Returns 0 or -ENOMEM.
 */
int sml_uplink_start(struct sml_server *server);

/* The connection to the parent has ended. */
void sml_uplink_lost(struct sml_server *server);

/* The reason why the parent is not reached: log it if it has changed. */
void sml_uplink_failed(struct sml_server *server, const char *why);

void sml_uplink_close(struct sml_server *server);

/* ---- connections without a job (strangers.c) ---- */

/* While there are too many, or they hold too much, close the oldest. May close any stranger. */
void sml_strangers_make_room(struct sml_server *server);

/* Close the older half: there are no descriptors left. */
void sml_strangers_evict_half(struct sml_server *server);

/* Its buffers have grown or shrunk. May close any stranger. */
void sml_strangers_count(struct sml_connection *connection);

/* It will be closed because of what it sent: count it. important: log it, at most once a second. */
void sml_strangers_refused(struct sml_connection *connection, const char *why, bool important);

#endif
