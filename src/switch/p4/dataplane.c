/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 dataplane: slots are in a switch that runs our P4 program, jobs are entries of its tables
 * (jobs.c), and one thread serves the socket (thread.c). This file has the operations for the
 * control plane.
 *
 * The calls of the control thread wait for the target, which answers within a millisecond. If it
 * does not answer for seconds, it is lost, and so is this process (sml_p4_lost()).
 */
#include "switch/dataplane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "net/listen_address.h"
#include "switch/p4/internal.h"

#define MIN_WINDOW 4u

/* ---- opening ---- */

static void free_all(struct sml_dataplane *dataplane)
{
	if (dataplane->target != NULL)
		dataplane->operations->close(dataplane->target);
	sml_daemon_fini(&dataplane->daemon);
	pthread_mutex_destroy(&dataplane->target_mutex);
	free(dataplane);
}

static int check_limits(const struct sml_dataplane *dataplane)
{
	const struct sml_p4_limits *limits = &dataplane->limits;

	/* Ranks are told that all that add narrow lanes round their sums. */
	if (!limits->staged && !limits->rounds)
		return sml_error_set(-ENOENT,
				     "the P4 switch's program does not round sums: compile "
				     "the one of this version of SwitchML");
	if (dataplane->daemon.config.max_slots <= limits->slots)
		return 0;
	return sml_error_set(-EINVAL,
			     "the P4 switch's program has %u slots: give --slots %u, or compile it "
			     "with -DSML_SLOTS=%u",
			     limits->slots, limits->slots, dataplane->daemon.config.max_slots);
}

static int open_target(struct sml_dataplane *dataplane)
{
	int rc = dataplane->operations->open(&dataplane->target, &dataplane->target_address,
					     &sml_p4_services);

	if (rc == 0)
		rc = dataplane->operations->limits(dataplane->target, &dataplane->limits);
	if (rc == 0)
		rc = check_limits(dataplane);
	return rc == 0 ? sml_p4_hosts_set(dataplane) : rc;
}

/* Results come from this address, which the P4 switch must know. */
static int find_own_address(struct sml_dataplane *dataplane)
{
	if (dataplane->daemon.config.address == NULL ||
	    sml_listen_address_parse(dataplane->daemon.config.address,
				     dataplane->daemon.config.port, &dataplane->own) < 0 ||
	    dataplane->own.all)
		return sml_error_set(-EINVAL, "--dataplane p4 needs --listen ADDR: the P4 switch "
					      "sends results with this address");
	return 0;
}

static int open_parts(struct sml_dataplane *dataplane)
{
	int rc;

	pthread_mutex_init(&dataplane->target_mutex, NULL);
	rc = find_own_address(dataplane);
	if (rc == 0)
		rc = sml_p4_load(dataplane->daemon.config.target, &dataplane->target_address,
				 &dataplane->operations);
	/* Before the target forgets what it had. */
	if (rc == 0)
		rc = sml_p4_hosts_parse(&dataplane->hosts, dataplane->daemon.config.hosts);
	if (rc == 0)
		rc = sml_daemon_listen(&dataplane->daemon, SML_P4_INBOX_BYTES, false);
	if (rc < 0)
		return rc;
	/* Before the target's client library starts threads. */
	if (dataplane->daemon.config.seal != NULL)
		dataplane->daemon.config.seal(false);
	rc = open_target(dataplane);
	return rc < 0 ? rc : sml_daemon_start(&dataplane->daemon, &sml_p4_thread_service);
}

static int p4_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	return sml_daemon_open(opened, config, sizeof(**opened), open_parts, free_all);
}

static void p4_close(struct sml_dataplane *dataplane)
{
	sml_daemon_stop(&dataplane->daemon);
	free_all(dataplane);
}

/* Stateful ALUs of hardware's stages cannot add halves of a lane. */
static bool p4_only_int32(struct sml_dataplane *dataplane)
{
	return dataplane->limits.staged;
}

static void p4_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	char where[300];

	sml_host_port_text(where, sizeof(where), dataplane->target_address.host,
			   dataplane->target_address.port);
	snprintf(text, bytes, "p4 (%s at %s, %u lanes%s%s)", dataplane->operations->name, where,
		 dataplane->limits.lanes, p4_only_int32(dataplane) ? ", only int32" : "",
		 dataplane->operations->read_registers != NULL ? "" : ", slots cannot be read");
}

static uint32_t p4_fixed_lanes(struct sml_dataplane *dataplane)
{
	return dataplane->limits.lanes;
}

/* ---- jobs ---- */

static int p4_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct sml_p4_job *job = calloc(1, sizeof(*job));
	int rc;

	if (job == NULL)
		return -ENOMEM;
	job->common.rules = *rules;
	/* Never 0, which buffers have before their first use. */
	if (++dataplane->incarnation == 0)
		++dataplane->incarnation;
	job->incarnation = dataplane->incarnation;
	if (getrandom(&job->common.daemon_key, sizeof(job->common.daemon_key), 0) !=
	    sizeof(job->common.daemon_key)) {
		free(job);
		return -ENOMEM;
	}
	rc = sml_p4_job_add(dataplane, job);
	if (rc < 0) {
		free(job);
		return rc;
	}
	sml_daemon_set_job(&dataplane->daemon, rules->job, &job->common);
	return 0;
}

static int p4_start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_p4_job *job = sml_p4_job_of(dataplane, number);

	/* From here on, probes alone change no address. */
	pthread_mutex_lock(&dataplane->daemon.mutex);
	job->common.started = true;
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	sml_p4_job_start(dataplane, job);
	return 0;
}

static void add_counters(struct sml_dataplane_counters *to,
			 const struct sml_dataplane_counters *from)
{
	uint64_t *sums = (uint64_t *)to;
	const uint64_t *each = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sums); i++)
		sums[i] += each[i];
}

static void p4_remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_p4_job *job = sml_p4_job_of(dataplane, number);
	struct sml_dataplane_counters ended = {0};

	sml_p4_job_remove(dataplane, job);
	sml_p4_job_traffic(dataplane, job, &ended);
	pthread_mutex_lock(&dataplane->daemon.mutex);
	add_counters(&dataplane->daemon.counters, &ended);
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	sml_daemon_set_job(&dataplane->daemon, number, NULL);
	free(job);
}

static const char *peer_misses(const struct sml_p4_job *job, uint8_t rank, uint8_t shard)
{
	const struct sml_p4_peer *peer = &job->peers[rank][shard];

	if (!peer->known)
		return "said that it was ready, but not every one of its sockets has sent a probe";
	if (!peer->stamped)
		return "sends packets that do not pass through the P4 switch";
	if (peer->port != job->peers[rank][0].port)
		return "has sockets at more than one port of the P4 switch";
	return NULL;
}

/* Its slots are in one pipe's registers. Ranks get ready in any order. */
static bool spans_pipes(const struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			uint8_t rank)
{
	unsigned pipe = sml_p4_pipe(dataplane, job->peers[rank][0].port);

	for (uint8_t other = 0; other < job->common.rules.n_ranks; other++)
		if (job->peers[other][0].known &&
		    sml_p4_pipe(dataplane, job->peers[other][0].port) != pipe)
			return true;
	return false;
}

static const char *p4_misses_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t rank)
{
	const struct sml_p4_job *job = sml_p4_job_of(dataplane, number);
	const char *misses = NULL;

	pthread_mutex_lock(&dataplane->daemon.mutex);
	for (uint8_t shard = 0; misses == NULL && shard < job->common.rules.n_shards; shard++)
		misses = peer_misses(job, rank, shard);
	if (misses == NULL && spans_pipes(dataplane, job, rank))
		misses = "is at a port of another pipe of the P4 switch than the others: use ports "
			 "of one pipe";
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	return misses;
}

/* Synchronized ranks send at the same time, into one queue. */
static uint32_t p4_window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	uint32_t packets = dataplane->operations->window / n_ranks;

	(void)packet_bytes;
	return packets > MIN_WINDOW ? packets : MIN_WINDOW;
}

/* A P4 switch sees a super-packet of a virtual interface whole. */
static bool p4_wants_single_packets(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return true;
}

/* ---- counters ---- */

static void p4_job_counters(struct sml_dataplane *dataplane, uint32_t number,
			    struct sml_job_counters *counters)
{
	sml_p4_job_count(dataplane, sml_p4_job_of(dataplane, number), counters);
}

static uint32_t p4_slot_states(struct sml_dataplane *dataplane, uint32_t number,
			       struct sml_slot_progress *states, uint32_t n)
{
	return sml_p4_job_slots(dataplane, sml_p4_job_of(dataplane, number), states, n);
}

/* Of the packets for jobs; what the P4 switch only forwards is not counted. */
static void p4_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	sml_daemon_counters(&dataplane->daemon, counters);
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (sml_p4_job_of(dataplane, i) != NULL)
			sml_p4_job_traffic(dataplane, sml_p4_job_of(dataplane, i), counters);
}

const struct sml_dataplane_operations sml_dataplane_p4 = {
	.name = "p4",
	.open = p4_open,
	.close = p4_close,
	.describe = p4_describe,
	.fixed_lanes = p4_fixed_lanes,
	.only_int32 = p4_only_int32,
	.rounds = true,
	.add_job = p4_add_job,
	.start_job = p4_start_job,
	.remove_job = p4_remove_job,
	.misses_address = p4_misses_address,
	.renew_address = sml_daemon_renew_address,
	.window = p4_window,
	.wants_single_packets = p4_wants_single_packets,
	.job_counters = p4_job_counters,
	.slot_states = p4_slot_states,
	.counters = p4_counters,
};
