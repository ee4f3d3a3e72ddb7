/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs without a switch: see jobs.h. */
#include "support/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"
#include "support/test.h"

struct jobs_world world;

/* ---- settings of the jobs ---- */

static struct jobs_peer *peer_of(const struct sml_peer *peer)
{
	return (struct jobs_peer *)((uintptr_t)peer - offsetof(struct jobs_peer, peer));
}

static int send_copy(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	struct jobs_peer *to = peer_of(peer);
	size_t n = sml_control__envelope__get_packed_size(message);
	uint8_t *bytes = malloc(n + 1);

	if (bytes == NULL)
		abort();
	if (to->ended) {
		free(bytes);
		return 0;
	}
	if (to->n_said == JOBS_SAID) {
		sml_control__envelope__free_unpacked(to->said[0], NULL);
		memmove(to->said, to->said + 1, (JOBS_SAID - 1) * sizeof(struct jobs_peer *));
		to->n_said--;
	}
	sml_control__envelope__pack(message, bytes);
	to->said[to->n_said++] = sml_control__envelope__unpack(NULL, n, bytes);
	free(bytes);
	return 0;
}

static void end(struct sml_peer *peer)
{
	peer_of(peer)->ended = true;
}

static bool listens(const struct sml_peer *peer)
{
	return !peer_of(peer)->deaf;
}

static uint64_t next_random(void *context)
{
	(void)context;
	world.random += 0x9e3779b97f4a7c15u;
	return world.random;
}

static void keep_line(void *context, enum sml_jobs_level level, const char *line)
{
	(void)context;
	if (level != SML_JOBS_WARNING) {
		snprintf(world.info, sizeof(world.info), "%s", line);
		return;
	}
	world.n_warnings++;
	snprintf(world.warning, sizeof(world.warning), "%s", line);
}

static const struct sml_jobs_output output = {
	.send = send_copy,
	.end = end,
	.listens = listens,
	.random_u64 = next_random,
	.log = keep_line,
};

void jobs_open(uint32_t max_slots, uint32_t max_jobs, bool ranks_have_slots)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = 1000 * SML_SECOND_NS;
	world.operations = ranks_have_slots ? sml_dataplane_ranks : dataplane_counting;
	world.jobs.config = (struct sml_jobs_config){
		.max_slots = max_slots,
		.max_jobs = max_jobs,
		.heartbeat_ms = 60000,
	};
	world.jobs.output = &output;
	world.jobs.operations = &world.operations;
	world.jobs.dataplane = &world.plane;
	sml_jobs_init(&world.jobs, world.now_ns);
	for (unsigned i = 0; i < JOBS_PEERS; i++) {
		world.peers[i].peer.heard_ns = world.now_ns;
	}
}

static void forget_said(struct jobs_peer *peer)
{
	for (unsigned i = 0; i < peer->n_said; i++)
		sml_control__envelope__free_unpacked(peer->said[i], NULL);
	peer->n_said = 0;
}

void jobs_open_usual(void)
{
	jobs_open(4096, 64, false);
}

void jobs_close(void)
{
	sml_jobs_stop(&world.jobs, world.now_ns);
	if (world.plane.wrong)
		fail_msg("%s", world.plane.wrong);
	for (unsigned i = 0; i < JOBS_PEERS; i++)
		forget_said(&world.peers[i]);
}

/* ---- actions of peers ---- */

SmlControl__Join jobs_join_message(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = honest_join(job, rank, world_size);

	join.heartbeat_ms = 10000;
	return join;
}

SmlControl__Join jobs_embedded_join(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = jobs_join_message(job, rank, world_size);
	static uint32_t data_port = 9;

	join.n_stripe_ports = 1;
	join.stripe_ports = &data_port;
	join.stripes = 0;
	return join;
}

void jobs_say(unsigned peer, const SmlControl__Envelope *message)
{
	if (!world.peers[peer].ended)
		sml_jobs_message(&world.jobs, &world.peers[peer].peer, message, world.now_ns);
}

void jobs_say_empty(unsigned peer, SmlControl__Envelope__BodyCase body)
{
	jobs_say(peer, message_without_fields(body, 0));
}

void jobs_join(unsigned peer, SmlControl__Join join)
{
	jobs_say(peer, sml_envelope(JOIN, join, &join));
}

void jobs_resume_with(unsigned peer, SmlControl__Join join, SmlControl__Resume report)
{
	SmlControl__StreamReport streams[SML_STREAMS],
		*list[SML_STREAMS] = {&streams[0], &streams[1]};

	for (unsigned i = 0; i < SML_STREAMS; i++)
		sml_control__stream_report__init(&streams[i]);
	report.epoch = 1;
	report.streams = list;
	report.n_streams = SML_STREAMS;
	join.resume = &report;
	jobs_join(peer, join);
}

void jobs_resume(unsigned peer, SmlControl__Join join, uint64_t membership, uint64_t tag,
		 bool leaving)
{
	SmlControl__Resume report = SML_CONTROL__RESUME__INIT;

	report.membership = membership;
	report.tag = tag;
	report.leaving = leaving;
	jobs_resume_with(peer, join, report);
}

void jobs_begin_again(unsigned peer, SmlControl__Join join, uint64_t membership)
{
	SmlControl__Resume report = SML_CONTROL__RESUME__INIT;

	report.membership = membership;
	report.begins = true;
	jobs_resume_with(peer, join, report);
}

void jobs_join_all(unsigned first, const char *job, uint32_t world_size)
{
	for (uint32_t rank = 0; rank < world_size; rank++)
		jobs_join(first + rank, jobs_join_message(job, rank, world_size));
}

void jobs_ready_sharing(unsigned peer, bool shares_memory)
{
	jobs_say(peer, message_ready(352, shares_memory, 0));
}

void jobs_ready(unsigned peer)
{
	jobs_ready_sharing(peer, false);
}

void jobs_start(unsigned first, const char *job, uint32_t world_size)
{
	jobs_join_all(first, job, world_size);
	for (uint32_t rank = 0; rank < world_size; rank++)
		jobs_ready(first + rank);
	sml_assert(sml_peer_runs(&world.peers[first].peer));
}

void jobs_join_from(const char *machines, bool embedded)
{
	uint32_t n = (uint32_t)strlen(machines);

	jobs_open(4096, 64, embedded);
	for (uint32_t rank = 0; rank < n; rank++) {
		SmlControl__Join join = embedded ? jobs_embedded_join("a", rank, n)
						 : jobs_join_message("a", rank, n);
		uint8_t token[SML_HOST_TOKEN], machine = (uint8_t)machines[rank];

		memset(token, (int)(rank + 1), sizeof(token));
		if (machine != '-') {
			join.machine = (ProtobufCBinaryData){1, &machine};
			join.host_token = (ProtobufCBinaryData){sizeof(token), token};
		}
		jobs_join(rank, join);
	}
}

void jobs_start_embedded(void)
{
	jobs_join_from("--", true);
	jobs_ready(0);
	jobs_ready(1);
	sml_assert(sml_peer_runs(&world.peers[0].peer));
}

bool jobs_start_host(uint32_t n, uint32_t individual)
{
	const SmlControl__Envelope *start;

	for (uint32_t rank = 0; rank < n; rank++)
		jobs_ready_sharing(rank, rank != individual);
	start = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START);
	sml_assert(start != NULL);
	return start->start->share_memory;
}

void jobs_leave(unsigned peer)
{
	jobs_say_empty(peer, SML_CONTROL__ENVELOPE__BODY_LEAVE);
}

void jobs_hang_up(unsigned peer)
{
	struct jobs_peer *gone = &world.peers[peer];

	sml_jobs_lost(&world.jobs, &gone->peer, "its connection ended", world.now_ns);
	forget_said(gone);
	gone->peer = (struct sml_peer){.heard_ns = world.now_ns};
	gone->ended = gone->deaf = false;
}

/* From deadline to deadline, so that nothing happens late. */
static void wait_until(uint64_t end_ns)
{
	uint64_t due_ns;

	while ((due_ns = sml_jobs_deadline(&world.jobs)) <= end_ns) {
		if (due_ns > world.now_ns)
			world.now_ns = due_ns;
		sml_jobs_tick(&world.jobs, world.now_ns);
	}
	world.now_ns = end_ns;
}

void jobs_wait_silently(uint64_t ns)
{
	wait_until(world.now_ns + ns);
}

void jobs_pause(uint64_t ns)
{
	world.now_ns += ns;
}

void jobs_wait(uint64_t ns)
{
	uint64_t end_ns = world.now_ns + ns;

	while (world.now_ns < end_ns) {
		for (unsigned i = 0; i < JOBS_PEERS; i++)
			if (sml_peer_is_member(&world.peers[i].peer) ||
			    world.peers[i].peer.applicant != NULL)
				jobs_say_empty(i, SML_CONTROL__ENVELOPE__BODY_PING);
		wait_until(end_ns - world.now_ns > SML_TICK_NS ? world.now_ns + SML_TICK_NS
							       : end_ns);
	}
}

/* ---- messages to peers ---- */

unsigned jobs_count(unsigned peer, SmlControl__Envelope__BodyCase body)
{
	unsigned n = 0;

	for (unsigned i = 0; i < world.peers[peer].n_said; i++)
		n += world.peers[peer].said[i]->body_case == body;
	return n;
}

const SmlControl__Envelope *jobs_received(unsigned peer, SmlControl__Envelope__BodyCase body)
{
	const struct jobs_peer *to = &world.peers[peer];

	for (unsigned i = to->n_said; i > 0; i--)
		if (to->said[i - 1]->body_case == body)
			return to->said[i - 1];
	return NULL;
}

const char *jobs_refusal(unsigned peer)
{
	const SmlControl__Envelope *told = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT);

	return told ? told->abort->text : "";
}

void jobs_assert_refused(unsigned peer, const char *part)
{
	if (strstr(jobs_refusal(peer), part) == NULL)
		fail_msg("peer %u was told \"%s\"", peer, jobs_refusal(peer));
}

void jobs_assert_ended(unsigned peer, int error, const char *part)
{
	const SmlControl__Envelope *told = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT);

	jobs_assert_refused(peer, part);
	assert_non_null(told);
	assert_int_equal(told->abort->error, error);
	assert_true(world.peers[peer].ended);
}

const SmlControl__Admitted *jobs_admitted(unsigned peer)
{
	const SmlControl__Envelope *told =
		jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ADMITTED);

	return told ? told->admitted : NULL;
}

SmlControl__Status *jobs_status(void)
{
	static SmlControl__Status *status;
	size_t n;
	uint8_t *bytes = sml_jobs_pack_status(&world.jobs, world.now_ns, &n);

	sml_control__status__free_unpacked(status, NULL);
	status = sml_control__status__unpack(NULL, n, bytes);
	sml_assert(status != NULL);
	free(bytes);
	return status;
}
