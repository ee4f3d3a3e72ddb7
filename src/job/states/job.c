/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has joined, who leaves, and what is due when. The declaration of a function says if it may
 * end the job; then the job is in no list any more, but its memory lasts until the input has been
 * handled (states.h).
 */
#include "job/states/states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/plural.h"
#include "control/envelope.h"

#define PROBING_NS	 (20 * SML_SECOND_NS)
#define MISMATCH_WAIT_NS (2 * SML_SECOND_NS)
/* How long ranks that resume here wait for the others, before they all look elsewhere. */
#define RESUME_WAIT_NS (5 * SML_SECOND_NS)
/* How often ranks are told which ranks have not joined, while others join. */
#define WAITING_NS SML_TICK_NS

/* The invariants between two inputs, for any input. */
static void check(const struct sml_job *job)
{
	unsigned n_members = 0, n_ready = 0, n_leaving = 0;

	for (uint16_t rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];

		n_members += member->peer != NULL;
		n_ready += member->ready;
		n_leaving += member->leaving;
		sml_assert(member->peer == NULL ||
			   (member->peer->job == job && member->peer->rank == rank));
		/* A member without a connection has asked to leave. */
		sml_assert(job->state == SML_JOB_JOINING || member->peer != NULL ||
			   member->leaving);
		sml_assert(!job->resume.runs || member->peer == NULL || member->resume != NULL);
	}
	sml_assert(job->state != SML_JOB_JOINING || n_members == job->members.n);
	sml_assert(job->state == SML_JOB_JOINING || job->members.n == job->n_ranks);
	sml_assert(n_ready == job->members.n_ready && n_leaving == job->members.n_leaving);
	sml_assert((job->state >= SML_JOB_RUNNING) ==
		   (n_ready == job->n_ranks && job->pool.n_leaves_ready == job->pool.n_leaves));
	sml_assert((job->state == SML_JOB_LEAVING) == (n_leaving > 0));
	sml_assert(sml_job_pool_slots(job) > 0 && job->jobs->jobs[job->place] == job);
}

/* ---- the end ---- */

/*
 * The connection ends with it: what the rank said before it knew is on its way, and no stranger may
 * say that.
 */
static void let_leave(struct sml_job *job, unsigned rank, SmlControl__Left *left)
{
	struct sml_peer *peer = sml_job_release(job, rank);

	if (peer == NULL)
		return;
	(void)sml_peer_send(job->jobs, peer, sml_envelope(LEFT, left, left));
	sml_peer_end(job->jobs, peer);
}

static void all_have_left(struct sml_job *job)
{
	SmlControl__Left left = SML_CONTROL__LEFT__INIT;
	char slowest[128];

	if (job->state >= SML_JOB_RUNNING) {
		left.slowest_ms = sml_job_slowest(job, slowest, sizeof(slowest));
		if (left.slowest_ms > 0)
			left.slowest = slowest;
	}
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		let_leave(job, rank, &left);
	if (job->jobs->config.debug >= SML_LOG_TRACE)
		sml_jobs_log(job->jobs, SML_JOBS_INFO, "job \"%s\" has ended", job->name);
	sml_job_close(job);
}

static void name_rank(const struct sml_job *job, uint16_t rank, const char *why, char *text,
		      size_t bytes)
{
	snprintf(text, bytes, "rank %u (host %s, pid %u) has gone: %s", rank,
		 job->members.of[rank].host, job->members.of[rank].pid, why);
}

static void list_missing(const struct sml_job *job, char text[SML_RANKS_TEXT_BYTES])
{
	struct sml_ranks missing = {{0}};

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer == NULL)
			sml_ranks_add(&missing, rank);
	sml_ranks_text(&missing, 0, text, SML_RANKS_TEXT_BYTES);
}

/* A name that one rank has wrong, or lacks, makes a second job, which waits for as many ranks. */
static void name_rival(const struct sml_job *job, char *text, size_t bytes)
{
	char came[SML_RANKS_TEXT_BYTES];

	text[0] = '\0';
	for (const struct sml_job *other = NULL;
	     (other = sml_jobs_next(job->jobs, other)) != NULL;) {
		if (other == job || other->state != SML_JOB_JOINING ||
		    other->n_ranks != job->n_ranks || other->terms.stripe != job->terms.stripe)
			continue;
		sml_ranks_text(&other->members.came, 0, came, sizeof(came));
		snprintf(text, bytes, "; job \"%s\" waits for %u ranks, too: rank%s %s came there",
			 other->name, other->n_ranks,
			 sml_plural(sml_ranks_count(&other->members.came)), came);
		return;
	}
}

/* Nobody waits any more for the ranks that have not come. */
static void log_unbegun(struct sml_job *job, uint16_t last, const char *why)
{
	char text[SML_SENTENCE_BYTES], came[SML_RANKS_TEXT_BYTES], rival[SML_SENTENCE_BYTES];
	char how[2 * SML_SENTENCE_BYTES];
	unsigned n = sml_ranks_count(&job->members.came);

	name_rank(job, last, why, text, sizeof(text));
	sml_ranks_text(&job->members.came, 0, came, sizeof(came));
	name_rival(job, rival, sizeof(rival));
	snprintf(how, sizeof(how), "%s: rank%s %s of %u came%s; %s%s",
		 job->resume.runs ? "does not continue here" : "did not begin", sml_plural(n), came,
		 job->n_ranks, n == job->n_ranks ? ", but not at the same time" : "", text, rival);
	sml_jobs_log_end(job->jobs, job->name, how, false);
}

void sml_job_forget_member(struct sml_job *job, uint16_t gone, const char *why)
{
	if (job->members.n == 1 && why != NULL)
		log_unbegun(job, gone, why);
	sml_job_free_report(job, gone);
	memset(&job->members.of[gone], 0, sizeof(job->members.of[gone]));
	job->members.n--;
	job->pool.tries_again_ns = 0;
	if (job->members.n == 0) {
		sml_job_close(job);
		return;
	}
	for (uint16_t rank = 0; job->members.first == gone && rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL)
			job->members.first = rank;
}

static void give_up_resuming_without(struct sml_job *job, uint16_t rank, const char *why)
{
	char text[2 * SML_SENTENCE_BYTES];

	name_rank(job, rank, why, text, sizeof(text));
	sml_job_give_up_resuming(job, text);
}

/* A member that a list has may come again; if not, it is missed (join/past_ranks.c). */
static void note_left(struct sml_job *job, uint16_t rank)
{
	const struct sml_member *member = &job->members.of[rank];

	if (member->before == 0)
		return;
	sml_ranks_add(&job->elastic.list.absent, member->before - 1u);
	sml_ranks_add(&job->elastic.list.left, member->before - 1u);
	job->elastic.list.misses_ns =
		job->jobs->now_ns + member->heartbeat_ms * (SML_SECOND_NS / 1000);
}

/* No rank has begun: there is no barrier to wait for, and maybe no member to tell. */
static void leave_before_start(struct sml_job *job, uint16_t rank)
{
	struct sml_member *member = &job->members.of[rank];
	SmlControl__Left left = SML_CONTROL__LEFT__INIT;

	if (sml_job_gathers(job)) {
		let_leave(job, rank, &left);
		note_left(job, rank);
		/* Ranks that resume have found each other elsewhere. */
		sml_job_forget_member(job, rank, job->resume.runs ? NULL : "it left");
		return;
	}
	/* The others may find it at another switch. */
	if (job->resume.runs) {
		let_leave(job, rank, &left);
		give_up_resuming_without(job, rank, "it left");
		return;
	}
	/* The job's failure reaches it, too: the others' next membership does not wait for it. */
	(void)sml_peer_send(job->jobs, member->peer, sml_envelope(LEFT, left, &left));
	sml_job_fail(job, SML_ERROR_ABORTED,
		     "rank %u (host %s, pid %u) left before the job had begun", rank, member->host,
		     member->pid);
}

void sml_job_leave(struct sml_job *job, uint16_t rank)
{
	struct sml_member *member = &job->members.of[rank];

	if (member->leaving)
		return;
	if (job->state < SML_JOB_RUNNING) {
		leave_before_start(job, rank);
		return;
	}
	member->leaving = true;
	job->members.n_leaving++;
	job->state = SML_JOB_LEAVING;
	if (job->members.n_leaving == job->n_ranks)
		all_have_left(job);
}

static void report_death(struct sml_job *job, uint16_t rank, const char *why)
{
	const struct sml_member *member = &job->members.of[rank];
	const char *as_it_left = member->leaving ? " as it left" : "";
	uint32_t stripe;

	if (sml_job_has_stripe(job, rank, &stripe))
		sml_job_fail_without(
			job, rank,
			"rank %u (host %s, pid %u) died%s, and stripe %u of the job with it: %s",
			rank, member->host, member->pid, as_it_left, stripe, why);
	else
		sml_job_fail_without(job, rank, "rank %u (host %s, pid %u) died%s: %s", rank,
				     member->host, member->pid, as_it_left, why);
}

void sml_job_lost(struct sml_peer *peer, const char *why, bool may_live)
{
	struct sml_job *job = peer->job;
	uint16_t rank = peer->rank;
	uint64_t missed_ns = peer->missed_ns;

	(void)sml_job_release(job, rank);
	/* Of those of a list, an end of the rank's own connection counts as a death, as later. */
	if (sml_job_gathers(job) &&
	    (job->members.of[rank].before == 0 || missed_ns != 0 || may_live))
		sml_job_forget_member(job, rank, why);
	/* No rank has begun here: this one may have no path for packets, and look elsewhere. */
	else if (job->resume.runs && job->state <= SML_JOB_PROBING)
		give_up_resuming_without(job, rank, why);
	else if (missed_ns != 0)
		sml_job_given_up(job, rank, missed_ns, why);
	else if (job->members.of[rank].leaving && !job->jobs->operations->ranks_have_slots)
		/* It has made all its calls, and its contributions are in the slots. */
		sml_job_note_departed(job, rank, why);
	else
		report_death(job, rank, why);
}

/* Hosts that a text names; it only counts the ranks of others. */
#define HOSTS_NAMED 8

/* "gpu1 (4), gpu2 (3) and elsewhere (2)": where the ranks are that have joined, and how many. */
static void write_hosts(const struct sml_job *job, char *text, size_t bytes)
{
	struct {
		const char *name;
		unsigned n;
	} hosts[HOSTS_NAMED];
	unsigned n_hosts = 0, elsewhere = 0, i;
	size_t length = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];

		if (member->peer == NULL)
			continue;
		for (i = 0; i < n_hosts && strcmp(hosts[i].name, member->host) != 0; i++)
			;
		if (i == HOSTS_NAMED) {
			elsewhere++;
			continue;
		}
		if (i == n_hosts) {
			hosts[n_hosts].name = member->host;
			hosts[n_hosts++].n = 0;
		}
		hosts[i].n++;
	}
	text[0] = '\0';
	for (i = 0; i < n_hosts && length < bytes; i++)
		length += (size_t)snprintf(text + length, bytes - length, "%s%.64s (%u)",
					   i > 0 ? ", " : "", hosts[i].name, hosts[i].n);
	if (elsewhere > 0 && length < bytes)
		snprintf(text + length, bytes - length, " and elsewhere (%u)", elsewhere);
}

/*
 * Tell the ranks which ranks are missing, for their texts: the newcomer at once, and all but
 * WAITING_NS after they were told last, because each of n newcomers would cost n messages. The
 * hosts are looked up for all together.
 */
static void send_waiting(struct sml_job *job, const struct sml_peer *newcomer)
{
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	bool sends_to_all = job->jobs->now_ns >= job->waiting.sent_ns + WAITING_NS;
	uint32_t missing[SML_MAX_CHILDREN];
	char hosts[HOSTS_NAMED * 80 + 32];

	if (sends_to_all) {
		write_hosts(job, hosts, sizeof(hosts));
		waiting.hosts = hosts;
	}
	waiting.missing = missing;
	waiting.refused = job->members.refused;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		if (job->members.of[rank].peer != NULL)
			continue;
		if (waiting.n_missing < SML_MAX_CHILDREN)
			missing[waiting.n_missing++] = rank;
		else
			waiting.more++;
	}
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = job->members.of[rank].peer;

		if (peer != NULL && (sends_to_all || peer == newcomer))
			(void)sml_peer_send(job->jobs, peer,
					    sml_envelope(WAITING, waiting, &waiting));
	}
	job->waiting.changed = !sends_to_all;
	if (sends_to_all)
		job->waiting.sent_ns = job->jobs->now_ns;
}

static uint64_t waiting_due(const struct sml_job *job)
{
	return job->waiting.sent_ns + (job->waiting.changed ? WAITING_NS : SML_SECOND_NS);
}

/* ---- time ---- */

/*
 * After this long silence, a member counts as dead. But a silent leaf is heard out first: it may be
 * the one that has died.
 */
static uint64_t silence_ends(const struct sml_member *member)
{
	const struct sml_branch *via = sml_peer_via(member->peer);
	uint64_t heartbeat_ns = member->heartbeat_ms * 1000000ull;
	/* The next check would come too late. */
	uint64_t ends_ns = member->peer->heard_ns + heartbeat_ns - SML_TICK_NS;

	if (via == NULL || via->link.peer == NULL ||
	    via->jobs->now_ns < via->link.peer->heard_ns + heartbeat_ns / 4)
		return ends_ns;
	return sml_later(ends_ns, via->link.peer->heard_ns + heartbeat_ns);
}

static uint64_t member_ends(const struct sml_job *job, const struct sml_member *member)
{
	return job->state == SML_JOB_JOINING
		       ? sml_earlier(silence_ends(member), member->waits_until_ns)
		       : silence_ends(member);
}

/*
 * Finds a rank that has waited for the others for as long as it said; the rank has a moment to
 * report that itself. True: one is found.
 */
static bool find_tired(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;

	for (unsigned rank = 0; job->state == SML_JOB_JOINING && rank < job->n_ranks; rank++) {
		struct sml_peer *peer = job->members.of[rank].peer;

		if (peer == NULL || jobs->now_ns < job->members.of[rank].waits_until_ns)
			continue;
		if (sml_job_gathers(job))
			note_left(job, (uint16_t)rank);
		sml_job_lost(peer, "it did not wait any longer for the others", true);
		sml_peer_refuse(jobs, peer, SML_ERROR_TIMEOUT,
				"the other ranks did not join within this rank's timeout");
		return true;
	}
	return false;
}

/* True: one is found; then its job may be over. */
static bool find_silent(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	char why[SML_SENTENCE_BYTES];
	bool doubted;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = job->members.of[rank].peer;

		if (peer == NULL || jobs->now_ns < silence_ends(&job->members.of[rank]))
			continue;
		snprintf(why, sizeof(why), "it was silent for %.1f s (frozen, or its link is down)",
			 (double)(jobs->now_ns - peer->heard_ns) / 1e9);
		doubted = sml_peer_is_doubted(peer);
		sml_job_lost(peer, why, false);
		sml_peer_end_silent(jobs, peer, doubted,
				    "the switch heard nothing from this rank for its heartbeat");
		return true;
	}
	return false;
}

/*
 * Their switch died between two of its last messages: each missing rank has either been told that
 * all have asked to leave, or will not find these ranks before its deadline.
 */
static bool all_wish_to_leave(const struct sml_job *job)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL &&
		    (job->members.of[rank].resume == NULL ||
		     !job->members.of[rank].resume->resume->leaving))
			return false;
	return job->state == SML_JOB_JOINING;
}

void sml_job_joined(struct sml_job *job, const struct sml_peer *newcomer)
{
	check(job);
	if (job->members.n < job->n_ranks)
		send_waiting(job, newcomer);
	else if (all_wish_to_leave(job))
		all_have_left(job);
	else if (job->resume.runs)
		sml_job_resume(job);
	else
		sml_job_admit(job, 1);
}

/* When the job's current state times out; UINT64_MAX: never. */
static uint64_t state_ends(const struct sml_job *job)
{
	if (job->state == SML_JOB_PROBING)
		return job->begun_ns + PROBING_NS;
	if (job->resume.runs && job->state <= SML_JOB_HANDING_OVER)
		return job->begun_ns + RESUME_WAIT_NS;
	return UINT64_MAX;
}

uint64_t sml_job_deadline(const struct sml_job *job)
{
	uint64_t due_ns = state_ends(job);

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL)
			due_ns = sml_earlier(due_ns, member_ends(job, &job->members.of[rank]));
	if (job->mismatch.since_ns != 0)
		due_ns = sml_earlier(due_ns, job->mismatch.since_ns + MISMATCH_WAIT_NS);
	if (job->elastic.list.misses_ns != 0)
		due_ns = sml_earlier(due_ns, job->elastic.list.misses_ns);
	if (job->state == SML_JOB_JOINING)
		due_ns = sml_earlier(due_ns, waiting_due(job));
	if (job->pool.tries_again_ns != 0)
		due_ns = sml_earlier(due_ns, job->pool.tries_again_ns);
	due_ns = sml_earlier(due_ns, sml_job_departed_due(job));
	due_ns = sml_earlier(due_ns, sml_job_pool_answers_due(job));
	return sml_earlier(due_ns, sml_job_liveness_due(job));
}

static void give_up_late_resuming(struct sml_job *job)
{
	char text[SML_SENTENCE_BYTES], missing[SML_RANKS_TEXT_BYTES];

	list_missing(job, missing);
	if (missing[0] != '\0')
		snprintf(text, sizeof(text), "rank%s %s did not come within %u s",
			 sml_plural((unsigned)(job->n_ranks - job->members.n)), missing,
			 (unsigned)(RESUME_WAIT_NS / SML_SECOND_NS));
	else if (job->state == SML_JOB_PROBING)
		snprintf(text, sizeof(text), "the UDP packets of a rank do not reach this switch");
	else
		snprintf(text, sizeof(text),
			 "a rank did not hand over the results that others lack");
	sml_job_give_up_resuming(job, text);
}

static void give_up_state(struct sml_job *job)
{
	if (all_wish_to_leave(job))
		all_have_left(job);
	/* A job that resumes looks elsewhere, whichever of its ranks has no path here. */
	else if (job->state == SML_JOB_PROBING && !job->resume.runs)
		sml_job_fail(job, SML_ERROR_TIMEOUT,
			     "a rank's UDP packets do not reach the switch: see the other ranks' "
			     "errors, and let firewalls pass the data port");
	else
		give_up_late_resuming(job);
}

void sml_job_tick(struct sml_job *job)
{
	uint64_t now_ns = job->jobs->now_ns;

	check(job);
	sml_job_check_liveness(job);
	if (find_silent(job) || find_tired(job) || sml_job_misses_departed(job))
		return;
	sml_job_look_for_answers(job);
	if (job->mismatch.since_ns != 0 && now_ns >= job->mismatch.since_ns + MISMATCH_WAIT_NS) {
		sml_job_report_mismatch(job);
		return;
	}
	if (now_ns >= state_ends(job)) {
		give_up_state(job);
		return;
	}
	if (job->pool.tries_again_ns != 0 && now_ns >= job->pool.tries_again_ns) {
		sml_job_admit(job, job->pool.rules.epoch);
		return;
	}
	if (job->state == SML_JOB_JOINING && now_ns >= waiting_due(job))
		send_waiting(job, NULL);
}
