/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's life after joining: see job.h. */
#include "switch/control/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "switch/control/text.h"

#define SECOND_NS	 1000000000ull
#define PROBING_NS	 (20 * SECOND_NS)
#define MISMATCH_WAIT_NS (2 * SECOND_NS)
/* Ranks that come to go on here wait so long for the others, then look elsewhere together. */
#define RESUME_WAIT_NS (5 * SECOND_NS)

typedef void (*message_handler)(struct sml_job *job, struct sml_member *member, uint8_t rank,
				const SmlControl__Envelope *message);

uint64_t sml_random_u64(void)
{
	uint64_t value;

	/* Up to 256 bytes cannot fail once the system is up, nor be interrupted. */
	while (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
		;
	return value;
}

static void send_all(struct sml_job *job, SmlControl__Envelope *message)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].connection != NULL)
			sml_connection_send(job->members[rank].connection, message);
}

/* ---- the end ---- */

static void close_job(struct sml_job *job)
{
	struct sml_server *server = job->server;

	if (job->state >= SML_JOB_PROBING)
		server->operations->remove_job(server->dataplane, job->rules.job);
	if (job->has_pool)
		server->slots_in_use -= (uint32_t)(job->rules.head_slots + job->rules.data_slots);
	server->jobs[job->place] = NULL;
	server->n_jobs--;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		sml_control__join__free_unpacked(job->members[rank].resume, NULL);
	sml_job_free_plans(job);
	free(job->secrets);
	free(job);
}

void sml_job_fail(struct sml_job *job, int error, const char *text)
{
	if (job->server->config.debug >= 1)
		fprintf(stderr, "switchml switch: job \"%s\" failed: %s\n", job->name, text);
	if (job->state >= SML_JOB_PROBING)
		job->server->failed_tags[job->server->n_failed++ % SML_FAILED_TAGS] =
			job->rules.tag;
	sml_job_abort_all(job, error, text);
	close_job(job);
}

/*
 * Not all ranks have come here to go on: the connections end without a word of
 * failure, and they try the next address together.
 */
static void give_up_resuming(struct sml_job *job)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_connection *connection = job->members[rank].connection;

		if (connection == NULL)
			continue;
		connection->job = NULL;
		sml_connection_end(connection);
	}
	close_job(job);
}

static void send_left(struct sml_connection *connection)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Left left = SML_CONTROL__LEFT__INIT;

	message.body_case = SML_CONTROL__ENVELOPE__BODY_LEFT;
	message.left = &left;
	sml_connection_send(connection, &message);
}

static void all_have_left(struct sml_job *job)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_connection *connection = job->members[rank].connection;

		if (connection == NULL)
			continue;
		send_left(connection);
		connection->job = NULL;
	}
	close_job(job);
}

/* Before all ranks are here. It may come again: launchers restart what fails early. */
static void forget_member(struct sml_job *job, uint8_t gone)
{
	sml_control__join__free_unpacked(job->members[gone].resume, NULL);
	memset(&job->members[gone], 0, sizeof(job->members[gone]));
	job->n_members--;
	if (job->n_members == 0) {
		close_job(job);
		return;
	}
	for (uint8_t rank = 0; job->first_rank == gone && rank < job->n_ranks; rank++)
		if (job->members[rank].connection != NULL)
			job->first_rank = rank;
}

void sml_job_lost(struct sml_connection *connection, const char *why)
{
	struct sml_job *job = connection->job;
	struct sml_member *member = &job->members[connection->rank];
	char text[SML_TEXT_BYTES];

	connection->job = NULL;
	member->connection = NULL;
	member->heard_ns = connection->heard_ns;
	if (member->leaving)
		return; /* it had asked: the others' barrier goes on without it */
	if (job->state == SML_JOB_JOINING) {
		forget_member(job, connection->rank);
		return;
	}
	if (job->state == SML_JOB_HANDING_OVER) {
		give_up_resuming(job);
		return;
	}
	if (sml_server_is_rendezvous(job->server) && connection->rank < job->stripes)
		snprintf(text, sizeof(text),
			 "rank %u (host %s, pid %u) died, and stripe %u of the job with it: %s",
			 connection->rank, member->host, member->pid, connection->rank, why);
	else
		snprintf(text, sizeof(text), "rank %u (host %s, pid %u) died: %s", connection->rank,
			 member->host, member->pid, why);
	sml_job_fail(job, SML_ERROR_RANK_DIED, text);
}

/* ---- the beginning ---- */

static uint32_t round_down_lanes(uint32_t lanes)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	uint32_t best = counts[0];

	for (unsigned i = 0; counts[i] != 0 && counts[i] <= lanes; i++)
		best = counts[i];
	return best;
}

static uint32_t least_lanes(const struct sml_job *job)
{
	uint32_t most = job->server->operations->max_lanes;
	uint32_t lanes = most ? most : SML_MAX_LANES;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].lanes < lanes)
			lanes = job->members[rank].lanes;
	return round_down_lanes(lanes);
}

/* Ranks of all jobs, who share the dataplane's buffers. */
static uint32_t count_ranks(const struct sml_server *server)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (server->jobs[i] != NULL)
			n += server->jobs[i]->n_ranks;
	return n;
}

static void send_admitted(struct sml_job *job, uint8_t rank)
{
	struct sml_server *server = job->server;
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	SmlControl__TicketMap maps[SML_STREAMS], *list[SML_STREAMS];
	SmlControl__Group group_message = SML_CONTROL__GROUP__INIT;
	struct sml_group group;
	struct sml_meeting *meeting = NULL;

	admitted.job_number = job->rules.job;
	admitted.epoch = job->rules.epoch;
	admitted.cookie = job->rules.cookies[rank];
	admitted.tag = job->rules.tag;
	admitted.lanes = job->rules.lanes;
	admitted.head_slots = job->rules.head_slots;
	admitted.data_slots = job->rules.data_slots;
	admitted.shards = job->rules.n_shards;
	admitted.data_port = server->data_port;
	admitted.window_packets = server->operations->window(
		server->dataplane, SML_HEADER_BYTES + 4u * job->rules.lanes, count_ranks(server));
	admitted.dataplane = (char *)(uintptr_t)server->operations->name;
	admitted.stall_reports = true;
	if (sml_server_is_rendezvous(server))
		meeting = sml_job_describe_peers(job, rank, &admitted);
	sml_job_describe_group(job, &group, &group_message, &admitted);
	admitted.single_packets = server->operations->wants_single_packets != NULL &&
				  server->operations->wants_single_packets(server->dataplane);
	if (job->resumes) {
		for (unsigned stream = 0; stream < SML_STREAMS; stream++) {
			sml_control__ticket_map__init(&maps[stream]);
			maps[stream].table = job->plans[stream].table;
			maps[stream].n_table = job->plans[stream].n_table;
			maps[stream].after = job->plans[stream].after;
			list[stream] = &maps[stream];
		}
		admitted.maps = list;
		admitted.n_maps = SML_STREAMS;
	}
	message.body_case = SML_CONTROL__ENVELOPE__BODY_ADMITTED;
	message.admitted = &admitted;
	sml_connection_send(job->members[rank].connection, &message);
	free(meeting);
}

void sml_job_admit(struct sml_job *job, uint32_t epoch)
{
	struct sml_server *server = job->server;
	struct sml_pool_rules *rules = &job->rules;
	int rc;

	rules->job = ((uint32_t)sml_random_u64() & ~(uint32_t)(SML_MAX_JOBS - 1)) | job->place;
	rules->tag = sml_random_u64();
	rules->epoch = epoch;
	rules->lanes = (uint16_t)least_lanes(job);
	rules->n_ranks = job->n_ranks;
	rules->n_shards = (uint8_t)job->shards;
	if (sml_server_is_rendezvous(server) && sml_job_meet(job) < 0) {
		sml_job_fail(job, SML_ERROR_REFUSED, "rank 0 has no memory for the job");
		return;
	}
	sml_job_give_back_slots(job);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		rules->cookies[rank] = sml_random_u64();
	rc = server->operations->add_job(server->dataplane, rules);
	if (rc < 0) {
		sml_job_fail(job, SML_ERROR_REFUSED,
			     rc == -ENOSPC
				     ? "the switch's pool has room for the job, but in pieces: "
				       "wait for a job to end, or start the switch with more "
				       "--slots"
				     : "the switch has no memory for the job");
		return;
	}
	job->state = SML_JOB_PROBING;
	job->begun_ns = sml_now_ns();
	for (uint8_t rank = 0; rank < job->n_ranks; rank++)
		send_admitted(job, rank);
}

/* Who is missing, so that a rank whose deadline passes can say so. */
static void tell_waiting(struct sml_job *job)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	uint32_t missing[SML_MAX_RANKS];

	waiting.missing = missing;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].connection == NULL)
			missing[waiting.n_missing++] = rank;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_WAITING;
	message.waiting = &waiting;
	/* Said again and again, so only to those who read it. */
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].connection != NULL &&
		    sml_connection_listens(job->members[rank].connection))
			sml_connection_send(job->members[rank].connection, &message);
}

/* ---- messages ---- */

static void on_ready(struct sml_job *job, struct sml_member *member, uint8_t rank,
		     const SmlControl__Envelope *message)
{
	struct sml_server *server = job->server;
	SmlControl__Envelope reply = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Start start = SML_CONTROL__START__INIT;
	const char *why;
	char text[SML_TEXT_BYTES];
	int rc;

	if (job->state != SML_JOB_PROBING || member->ready)
		return;
	why = server->operations->misses_address(server->dataplane, job->rules.job, rank);
	if (why != NULL) {
		snprintf(text, sizeof(text), "rank %u (host %s, pid %u) %s", rank, member->host,
			 member->pid, why);
		sml_job_fail(job, SML_ERROR_PROTOCOL, text);
		return;
	}
	member->lanes = message->ready->lanes;
	member->ready = true;
	sml_job_note_group(job, rank, message->ready->group);
	if (++job->n_ready < job->n_ranks)
		return;
	rc = server->operations->start_job(server->dataplane, job->rules.job);
	if (rc < 0) {
		snprintf(text, sizeof(text), "the switch's kernel refuses the job's addresses: %s",
			 strerror(-rc));
		sml_job_fail(job, SML_ERROR_REFUSED, text);
		return;
	}
	job->state = SML_JOB_RUNNING;
	sml_job_watch_group(job);
	start.lanes = least_lanes(job);
	if (start.lanes > job->rules.lanes)
		start.lanes = job->rules.lanes;
	job->rules.lanes = (uint16_t)start.lanes;
	reply.body_case = SML_CONTROL__ENVELOPE__BODY_START;
	reply.start = &start;
	send_all(job, &reply);
}

/* Nobody has begun: there is no barrier to wait for, and maybe nobody to tell. */
static void leave_before_start(struct sml_job *job, struct sml_member *member, uint8_t rank)
{
	struct sml_connection *connection = member->connection;
	char text[SML_TEXT_BYTES];

	send_left(connection);
	if (job->state == SML_JOB_JOINING) {
		connection->job = NULL;
		forget_member(job, rank);
		return;
	}
	snprintf(text, sizeof(text), "rank %u (host %s, pid %u) left before the job had begun",
		 rank, member->host, member->pid);
	sml_job_fail(job, SML_ERROR_ABORTED, text);
}

static void on_leave(struct sml_job *job, struct sml_member *member, uint8_t rank,
		     const SmlControl__Envelope *message)
{
	(void)message;
	if (member->leaving)
		return;
	if (job->state < SML_JOB_RUNNING) {
		leave_before_start(job, member, rank);
		return;
	}
	member->leaving = true;
	job->n_leaving++;
	job->state = SML_JOB_LEAVING;
	if (job->n_leaving == job->n_ranks)
		all_have_left(job);
}

static void on_abort(struct sml_job *job, struct sml_member *member, uint8_t rank,
		     const SmlControl__Envelope *message)
{
	char text[SML_TEXT_BYTES], reason[SML_REASON_BYTES];
	int error = message->abort->error;

	sml_text_copy(reason, sizeof(reason), message->abort->text);
	snprintf(text, sizeof(text), "rank %u (host %s, pid %u) aborted the job: %s", rank,
		 member->host, member->pid, reason);
	/* One rank's deadline is everybody's; any other cause is that rank's own affair. */
	sml_job_fail(job, error == SML_ERROR_TIMEOUT ? error : SML_ERROR_ABORTED, text);
}

static void tell_mismatch(struct sml_job *job)
{
	const struct sml_mismatch *mismatch = &job->mismatch;
	char text[2 * SML_TEXT_BYTES];

	snprintf(text, sizeof(text),
		 "ranks of job \"%s\" made different calls: rank %u called %s; rank %u called "
		 "%s. All ranks must make the same calls in the same order",
		 job->name, mismatch->ranks[0],
		 job->beliefs[0][0] ? job->beliefs[0] : "(no answer)", mismatch->ranks[1],
		 job->beliefs[1][0] ? job->beliefs[1] : "(no answer)");
	sml_job_fail(job, SML_ERROR_MISMATCH, text);
}

static void on_description(struct sml_job *job, struct sml_member *member, uint8_t rank,
			   const SmlControl__Envelope *message)
{
	(void)member;
	if (job->mismatch_ns == 0 || message->description->slot != job->mismatch.slot ||
	    message->description->use != job->mismatch.use)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (job->mismatch.ranks[i] == rank)
			sml_text_copy(job->beliefs[i], sizeof(job->beliefs[i]),
				      message->description->text);
	if (job->beliefs[0][0] && job->beliefs[1][0])
		tell_mismatch(job);
}

void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Describe describe = SML_CONTROL__DESCRIBE__INIT;

	if (job->mismatch_ns != 0)
		return;
	job->mismatch = *mismatch;
	job->mismatch_ns = sml_now_ns();
	describe.slot = mismatch->slot;
	describe.use = mismatch->use;
	describe.chunk = mismatch->chunk;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_DESCRIBE;
	message.describe = &describe;
	for (unsigned i = 0; i < 2; i++)
		if (job->members[mismatch->ranks[i]].connection != NULL)
			sml_connection_send(job->members[mismatch->ranks[i]].connection, &message);
}

/* Of a rank that has slots: it can end the job in other ways, too. */
static void on_mismatch(struct sml_job *job, struct sml_member *member, uint8_t rank,
			const SmlControl__Envelope *message)
{
	const SmlControl__Mismatch *in = message->mismatch;
	struct sml_mismatch mismatch = {
		.job = job->rules.job,
		.slot = (uint16_t)in->slot,
		.use = in->use,
		.chunk = in->chunk,
	};

	(void)member;
	(void)rank;
	if (!sml_server_is_rendezvous(job->server) || in->n_ranks != 2 ||
	    in->ranks[0] >= job->n_ranks || in->ranks[1] >= job->n_ranks)
		return;
	mismatch.ranks[0] = (uint8_t)in->ranks[0];
	mismatch.ranks[1] = (uint8_t)in->ranks[1];
	sml_job_mismatch(job, &mismatch);
}

static void on_result(struct sml_job *job, struct sml_member *member, uint8_t rank,
		      const SmlControl__Envelope *message)
{
	(void)member;
	(void)rank;
	sml_job_result(job, message->result);
}

static void on_stall_request(struct sml_job *job, struct sml_member *member, uint8_t rank,
			     const SmlControl__Envelope *message)
{
	(void)rank;
	(void)message;
	sml_job_tell_stalls(job, member);
}

static void on_stall_report(struct sml_job *job, struct sml_member *member, uint8_t rank,
			    const SmlControl__Envelope *message)
{
	(void)member;
	if (sml_server_is_rendezvous(job->server))
		sml_job_pass_stalls(job, rank, message->stall_report);
}

void sml_job_message(struct sml_connection *connection, const SmlControl__Envelope *message)
{
	struct sml_job *job = connection->job;
	struct sml_member *member = &job->members[connection->rank];
	message_handler handler = NULL;

	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_READY:
		handler = on_ready;
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAVE:
		handler = on_leave;
		break;
	case SML_CONTROL__ENVELOPE__BODY_ABORT:
		handler = on_abort;
		break;
	case SML_CONTROL__ENVELOPE__BODY_DESCRIPTION:
		handler = on_description;
		break;
	case SML_CONTROL__ENVELOPE__BODY_RESULT:
		handler = on_result;
		break;
	case SML_CONTROL__ENVELOPE__BODY_MISMATCH:
		handler = on_mismatch;
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST:
		handler = on_stall_request;
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
		handler = on_stall_report;
		break;
	default:
		break; /* what a switch has no use for */
	}
	if (handler != NULL)
		handler(job, member, connection->rank, message);
}

/* ---- time ---- */

static bool find_silent(struct sml_job *job, uint64_t now_ns)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_connection *connection = job->members[rank].connection;
		uint64_t silent_ns;
		char why[SML_TEXT_BYTES];

		if (connection == NULL || now_ns < connection->heard_ns)
			continue;
		silent_ns = now_ns - connection->heard_ns;
		/* The next look would come too late. */
		if (silent_ns + SML_TICK_NS < job->members[rank].heartbeat_ms * 1000000ull)
			continue;
		snprintf(why, sizeof(why),
			 "nothing was heard of it for %.1f s (frozen, or its link is down)",
			 (double)silent_ns / 1e9);
		sml_job_lost(connection, why);
		sml_connection_refuse(connection, SML_ERROR_TIMEOUT,
				      "the switch heard nothing of this rank for its heartbeat");
		return true;
	}
	return false;
}

void sml_job_joined(struct sml_job *job)
{
	if (job->n_members < job->n_ranks)
		tell_waiting(job);
	else if (job->resumes)
		sml_job_resume(job);
	else
		sml_job_admit(job, 1);
}

void sml_job_forgive(struct sml_job *job, uint64_t away_ns)
{
	job->begun_ns += away_ns;
	if (job->mismatch_ns != 0)
		job->mismatch_ns += away_ns;
}

void sml_job_tick(struct sml_job *job, uint64_t now_ns)
{
	if (find_silent(job, now_ns))
		return;
	sml_job_watch_group(job);
	if (job->mismatch_ns != 0 && now_ns > job->mismatch_ns + MISMATCH_WAIT_NS) {
		tell_mismatch(job);
		return;
	}
	if (job->resumes && job->state <= SML_JOB_HANDING_OVER &&
	    now_ns > job->begun_ns + RESUME_WAIT_NS) {
		give_up_resuming(job);
		return;
	}
	if (job->state == SML_JOB_PROBING && now_ns > job->begun_ns + PROBING_NS) {
		sml_job_fail(job, SML_ERROR_TIMEOUT,
			     "a rank's UDP packets do not reach the switch: see the other ranks' "
			     "errors, and allow the data port in firewalls");
		return;
	}
	if (job->state == SML_JOB_JOINING && now_ns - job->waiting_told_ns >= SECOND_NS) {
		job->waiting_told_ns = now_ns;
		tell_waiting(job);
	}
}
