/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two dataplanes have in common whose slots are elsewhere (in the kernel, or in a P4 switch):
 * the daemon's own socket, the thread that serves it, and the jobs as that thread sees them. The
 * thread gets what is meant for the daemon: probes, mismatches, and what the place of the slots
 * cannot send itself.
 *
 * The invariants: there is one such socket, and only its thread receives from it. No contribution
 * is ever summed here.
 */
#ifndef SML_SWITCH_SHARED_DAEMON_H
#define SML_SWITCH_SHARED_DAEMON_H

#include <pthread.h>

#include "net/udp_inbox.h"
#include "net/udp_sender.h"
#include "switch/dataplane.h"

/* A job begins with this. */
struct sml_daemon_job {
	struct sml_pool_rules rules;
	uint64_t daemon_key; /* only the place of the slots and the daemon know it */
	bool started, mismatch_reported;
	uint32_t renewals[SML_MAX_CHILDREN][SML_MAX_SHARDS]; /* 0 if there is none */
};

/* A dataplane begins with this. */
struct sml_daemon {
	struct sml_dataplane_config config;
	int fd, wake_fd;       /* wake_fd: readable when the thread should end */
	uint32_t buffer_bytes; /* of the kernel, for what comes in */
	struct sml_udp_inbox *inbox;
	const struct sml_daemon_service *service;
	int events_fd; /* readable: there is something else to do; -1 */
	pthread_t thread;
	bool has_thread;
	/* All below. */
	pthread_mutex_t mutex;
	struct sml_udp_sender sender;
	struct sml_daemon_job *jobs[SML_MAX_JOBS];
	struct sml_dataplane_counters counters; /* of the socket */
	struct sml_packet packets[SML_RECEIVE_PACKETS];
};

/* ---- the control thread ---- */

/*
 * Allocates a dataplane, whose structure has this many bytes, and opens it. open_parts() returns 0,
 * or a negative error, whose text it has set; then free_all() follows.
 */
int sml_daemon_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config,
		    size_t bytes, int (*open_parts)(struct sml_dataplane *dataplane),
		    void (*free_all)(struct sml_dataplane *dataplane));

/* Without a socket. Then stop() and fini() do no harm. */
void sml_daemon_init(struct sml_daemon *daemon, const struct sml_dataplane_config *config);
/* With the memory of its jobs. */
void sml_daemon_fini(struct sml_daemon *daemon);

/*
 * At the data port of the configuration. segments: the sender may use UDP_SEGMENT. 0, or an error
 * with a text.
 */
int sml_daemon_listen(struct sml_daemon *daemon, uint32_t inbox_bytes, bool segments);

/* The thread. 0, or an error with a text. */
int sml_daemon_start(struct sml_daemon *daemon, const struct sml_daemon_service *service);
void sml_daemon_stop(struct sml_daemon *daemon);

static inline struct sml_daemon_job *sml_daemon_job_of(const struct sml_daemon *daemon,
						       uint32_t number)
{
	return daemon->jobs[number % SML_MAX_JOBS];
}

/* At the place of this number; NULL: the job has gone. */
void sml_daemon_set_job(struct sml_daemon *daemon, uint32_t number, struct sml_daemon_job *job);

/* The operation. */
void sml_daemon_renew_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t child,
			      uint8_t shard, uint32_t renewal);

/* What the socket's thread has counted. */
void sml_daemon_counters(struct sml_daemon *daemon, struct sml_dataplane_counters *counters);

/* A run of buffers in an array that jobs share. */
struct sml_run {
	uint32_t first, n;
};

/* Sets where the first `n` in a row of `all` begin that no other run has. False: there are none. */
bool sml_run_find(struct sml_run *wanted, uint32_t all, const struct sml_run *others,
		  unsigned n_others);

/* ---- the socket's thread, with the mutex ---- */

/* What a dataplane does with packets of its jobs. The inbox's memory may be changed. */
struct sml_daemon_service {
	uint32_t longest; /* bytes of a packet */
	/* Of a valid probe, which then becomes its own answer: take the rank's address from it. */
	void (*note_address)(struct sml_dataplane *dataplane, struct sml_daemon_job *job,
			     struct sml_header *header, struct msghdr *message);
	/* All others. */
	void (*take)(struct sml_dataplane *dataplane, struct sml_daemon_job *job,
		     struct sml_header *header, uint32_t length, struct msghdr *message);
	/* Called after each batch of packets. May be NULL. */
	void (*end_batch)(struct sml_dataplane *dataplane);
	/* Every so often, also while packets come, and without the mutex; NULL, and -1: never. */
	void (*check)(struct sml_dataplane *dataplane);
	int check_ms;
};

void sml_daemon_send(struct sml_daemon *daemon, const void *packet, uint32_t length,
		     const struct sml_path *path);

static inline void sml_daemon_drop(struct sml_daemon *daemon, enum sml_verdict verdict)
{
	daemon->counters.verdicts[verdict]++;
}

/* A job's first one is told. */
void sml_daemon_tell_mismatch(const struct sml_daemon *daemon, struct sml_daemon_job *job,
			      const struct sml_mismatch *mismatch);

#endif
