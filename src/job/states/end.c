/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of a job, and what remains of it: see states.h. */
#include "job/states/states.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/least.h"
#include "control/envelope.h"

/*
 * ---- what remains of a job: its place, for its ranks' next membership ----
 *
 * What a job holds between two memberships: a place among the switch's jobs, and the slots of a job
 * that gathers. Otherwise anybody could take both while its ranks reconnect.
 *
 *	the job fails --> kept --> its ranks' next job gathers, and holds them
 *	                   |  ^         \--- it ends before it has run ---+
 *	                   |  +------------------------------------------+
 *	                   +--> free: all of its ranks have gone, or the time is up
 *
 * The invariant: only ranks that show the job's tag get what is kept for it.
 */

static void hold(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns)
{
	job->kept_until_ns = until_ns;
	jobs->n_kept++;
	jobs->slots_in_use += job->kept_slots;
	jobs->kept_lack += job->kept_lacks;
}

static uint64_t unasked_until(const struct sml_jobs *jobs, const struct sml_failed_job *job)
{
	return jobs->now_ns + job->heartbeat_ms * (SML_SECOND_NS / 1000);
}

/* Jobs that become one have ranks of each. */
static bool follows(const struct sml_job *job, uint64_t tag)
{
	if (job->elastic.after == tag)
		return true;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].after == tag)
			return true;
	return false;
}

/* Does the job with this tag have its place still, or the next one, which has not begun? */
static bool is_held(const struct sml_jobs *jobs, uint64_t tag)
{
	if (tag == 0)
		return false;
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->state < SML_JOB_RUNNING ? follows(job, tag) : job->report_tag == tag)
			return true;
	return false;
}

/* The job ends. If ranks of it may go on, its place is kept for their next job. */
static void keep_place(const struct sml_job *job)
{
	const bool ran = job->state >= SML_JOB_RUNNING;
	struct sml_jobs *jobs = job->jobs;
	struct sml_failed_job *kept =
		sml_jobs_find_judged(jobs, ran ? job->report_tag : job->elastic.after);

	if (kept == NULL || kept->kept_until_ns != 0 || kept->is_used ||
	    sml_ranks_is_empty(&kept->awaited) || is_held(jobs, kept->tag))
		return;
	if (ran)
		kept->kept_slots = sml_job_fewest_slots(job, &kept->kept_lacks);
	if (kept->kept_slots <= jobs->config.max_slots - jobs->slots_in_use)
		hold(jobs, kept, unasked_until(jobs, kept));
}

struct sml_failed_job *sml_kept_find(const struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, tag);

	return job != NULL && job->kept_until_ns != 0 ? job : NULL;
}

void sml_kept_end(struct sml_jobs *jobs, struct sml_failed_job *job)
{
	if (job->kept_until_ns == 0)
		return;
	job->kept_until_ns = 0;
	jobs->n_kept--;
	jobs->slots_in_use -= job->kept_slots;
	jobs->kept_lack -= job->kept_lacks;
}

/* The later the job with this tag ends here, the more. 0: nothing is known of it. */
static uint32_t order_of(const struct sml_jobs *jobs, uint64_t tag)
{
	const struct sml_failed_job *ended = sml_jobs_find_judged(jobs, tag);

	if (ended != NULL)
		return 1 + ((uint32_t)(ended - jobs->failed) - jobs->n_failed) % SML_FAILED_JOBS;
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->state >= SML_JOB_RUNNING && job->report_tag == tag)
			return SML_FAILED_JOBS + 1;
	return 0;
}

void sml_kept_take(struct sml_job *job, uint64_t tag)
{
	struct sml_failed_job *kept = sml_kept_find(job->jobs, tag);

	/* The job's first rank may have been in no job, or in an older one. */
	if (job->elastic.after == 0 ||
	    order_of(job->jobs, tag) > order_of(job->jobs, job->elastic.after))
		job->elastic.after = tag;
	if (kept != NULL)
		sml_kept_end(job->jobs, kept);
}

void sml_kept_again(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns)
{
	/* That job may have given it back already, when it was closed. */
	sml_kept_end(jobs, job);
	hold(jobs, job, until_ns);
}

static void use(const struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *kept = sml_jobs_find_judged(jobs, tag);

	if (kept != NULL)
		kept->is_used = true;
}

void sml_kept_use(const struct sml_job *job)
{
	uint64_t last = job->elastic.after;

	use(job->jobs, last);
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		if (job->members.of[rank].after != last)
			use(job->jobs, job->members.of[rank].after);
		last = job->members.of[rank].after;
	}
}

void sml_kept_asked(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns)
{
	struct sml_failed_job *kept = sml_kept_find(jobs, tag);

	if (kept != NULL)
		kept->kept_until_ns = sml_later(kept->kept_until_ns, until_ns);
}

void sml_kept_unasked(struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *kept = sml_kept_find(jobs, tag);

	if (kept != NULL)
		kept->kept_until_ns = sml_earlier(kept->kept_until_ns, unasked_until(jobs, kept));
}

void sml_kept_without(struct sml_jobs *jobs, struct sml_failed_job *job, unsigned rank)
{
	sml_ranks_add(&job->gone, rank);
	sml_ranks_remove(&job->awaited, rank);
	if (sml_ranks_is_empty(&job->awaited))
		sml_kept_end(jobs, job);
}

void sml_kept_back(const struct sml_jobs *jobs, uint64_t tag, unsigned rank)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, tag);

	if (job == NULL)
		return;
	sml_ranks_remove(&job->gone, rank);
	sml_ranks_add(&job->awaited, rank);
}

/*
 * ---- and ranks that may go on ----
 *
 * Their connections stay, so that a process that dies before it asks to be a member is not waited
 * for (join/decide.c).
 *
 *	            Abort to the rank            Abort (planned) of it
 *	member -----------------------> survivor ---------------------> goes on, will ask
 *	                                    |  \---- its time is over --> unknown
 *	                                    \------- its end -----------> gone
 *
 * The invariant: a survivor is in no job. It is in the list as long as its connection lasts.
 */

/*
 * The job fails, and the peer, which is this rank of it, has been told: keep its connection. If the
 * rank cannot be in a next membership, returns false and does nothing; the caller then ends the
 * connection.
 */
static bool stays(const struct sml_job *job, struct sml_peer *peer, uint16_t rank)
{
	struct sml_failed_job *failed = sml_job_followed(job, &rank);
	struct sml_peer **end = &job->jobs->survivors;

	if (failed == NULL)
		return false;
	sml_ranks_add(&failed->awaited, rank);
	while (*end != NULL)
		end = &(*end)->next_survivor;
	*end = peer;
	peer->next_survivor = NULL;
	peer->survived = failed->tag;
	peer->rank = rank;
	peer->stays_until_ns =
		job->jobs->now_ns + sml_job_longest_heartbeat_ms(job) * (SML_SECOND_NS / 1000);
	job->jobs->n_members += peer->via == NULL;
	return true;
}

static void take_out(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_peer **at = &jobs->survivors;

	while (*at != peer)
		at = &(*at)->next_survivor;
	*at = peer->next_survivor;
	peer->survived = peer->missed_ns = 0;
	jobs->n_members -= peer->via == NULL;
}

static void end(struct sml_jobs *jobs, struct sml_peer *peer)
{
	take_out(jobs, peer);
	sml_peer_end(jobs, peer);
}

void sml_survivor_goes_on(struct sml_jobs *jobs, struct sml_peer *peer)
{
	if (peer->survived != 0)
		end(jobs, peer);
}

void sml_survivor_lost(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, peer->survived);

	if (job != NULL && !sml_peer_is_doubted(peer))
		sml_kept_without(jobs, job, peer->rank);
	take_out(jobs, peer);
}

void sml_survivors_await(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns)
{
	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		if (peer->survived == tag)
			peer->stays_until_ns = sml_later(peer->stays_until_ns, until_ns);
}

bool sml_survivors_make_room(struct sml_jobs *jobs)
{
	if (jobs->survivors == NULL)
		return false;
	end(jobs, jobs->survivors);
	return true;
}

void sml_survivors_doubt(struct sml_jobs *jobs, uint64_t away_ns)
{
	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		sml_peer_doubt(peer, peer->heartbeat_ms, away_ns);
}

uint64_t sml_survivors_deadline(const struct sml_jobs *jobs)
{
	uint64_t due_ns = UINT64_MAX;

	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		due_ns = sml_earlier(due_ns, peer->stays_until_ns);
	for (uint32_t i = 0; jobs->n_kept > 0 && i < SML_FAILED_JOBS; i++)
		if (jobs->failed[i].kept_until_ns != 0)
			due_ns = sml_earlier(due_ns, jobs->failed[i].kept_until_ns);
	return due_ns;
}

void sml_survivors_tick(struct sml_jobs *jobs)
{
	struct sml_peer *next;

	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = next) {
		next = peer->next_survivor;
		if (jobs->now_ns >= peer->stays_until_ns)
			end(jobs, peer);
	}
	for (uint32_t i = 0; jobs->n_kept > 0 && i < SML_FAILED_JOBS; i++)
		if (jobs->now_ns >= jobs->failed[i].kept_until_ns)
			sml_kept_end(jobs, &jobs->failed[i]);
}

/* ---- the ends ---- */

static void note_successors(struct sml_failed_job *before, const struct sml_decision *decision)
{
	struct sml_ranks successors = {{0}};

	for (uint32_t i = 0; i < decision->n; i++)
		if (decision->before[i] != 0 &&
		    (!before->has_successors ||
		     sml_ranks_has(&before->successors, decision->before[i] - 1)))
			sml_ranks_add(&successors, decision->before[i] - 1);
	before->has_successors = true;
	before->successors = successors;
}

/* It has never run, so the ranks of the job that it should have followed may form another. */
static void reopen(const struct sml_job *job)
{
	struct sml_failed_job *before;

	if (job->elastic.decision == NULL || job->state >= SML_JOB_RUNNING)
		return;
	before = sml_jobs_find_judged(job->jobs, job->elastic.decision->after);
	if (before == NULL)
		return;
	before->decided = false;
	if (job->state >= SML_JOB_PROBING)
		note_successors(before, job->elastic.decision);
}

bool sml_job_close(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;

	/* A job ends once. */
	sml_assert(jobs->jobs[job->place] == job);
	sml_job_pool_end(job, job->end.how, job->end.planned);
	/* What is kept is of the slots that it has had. */
	sml_job_give_back_slots(job);
	reopen(job);
	jobs->jobs[job->place] = NULL;
	jobs->n_jobs--;
	keep_place(job);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		sml_job_free_report(job, rank);
	sml_job_free_plans(job);
	job->next_over = jobs->over;
	jobs->over = job;
	return true;
}

/* For the logs of this switch and of its leaves, which hear of it when the job is closed. */
static void note(struct sml_job *job, const char *what, const char *why)
{
	snprintf(job->end.how, sizeof(job->end.how), "%s: %.*s",
		 job->end.planned ? "has ended" : what, SML_SENTENCE_BYTES - 1, why);
	sml_jobs_log_end(job->jobs, job->name, job->end.how, job->end.planned);
}

/* Of a job that gathers to go on here: what its ranks show of it. 0: of any other. */
static uint64_t resumed_tag(const struct sml_job *job)
{
	for (unsigned rank = 0; job->resume.runs && rank < job->n_ranks; rank++)
		if (job->members.of[rank].resume != NULL)
			return job->members.of[rank].resume->resume->tag;
	return 0;
}

/* For ranks that resume, or ask to be members of the next job. */
static void remember(const struct sml_job *job, struct sml_failed_job *why)
{
	struct sml_jobs *jobs = job->jobs;

	why->tag = job->state >= SML_JOB_PROBING ? job->report_tag : resumed_tag(job);
	if (why->tag == 0)
		return;
	why->n_ranks = job->n_ranks;
	why->heartbeat_ms = sml_job_longest_heartbeat_ms(job);
	why->ran = job->state >= SML_JOB_RUNNING;
	why->was_elsewhere = job->resume.runs && !why->ran;
	why->gone = job->departed.ranks;
	if (why->has_lost)
		sml_ranks_add(&why->gone, why->lost);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].leaving)
			sml_ranks_add(&why->gone, rank);
	sml_kept_end(jobs, &jobs->failed[jobs->n_failed % SML_FAILED_JOBS]);
	jobs->failed[jobs->n_failed++ % SML_FAILED_JOBS] = *why;
}

bool sml_job_end_at_leaf(struct sml_job *job, const char *how, bool planned)
{
	snprintf(job->end.how, sizeof(job->end.how), "%s", how);
	job->end.planned = planned;
	if (how[0] != '\0')
		sml_jobs_log_end(job->jobs, job->name, how, planned);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		(void)sml_job_release(job, rank);
	return sml_job_close(job);
}

/* The root fails it, and tells the ranks. */
static bool fail_at_leaf(struct sml_job *job, const struct sml_failed_job *why)
{
	char how[2 * SML_SENTENCE_BYTES];

	sml_leaf_send_failure(job->jobs, job->pool.rules.job, why->error, why->text,
			      job->end.lacks_room);
	snprintf(how, sizeof(how), "failed at the leaf %s: %s", job->jobs->config.name, why->text);
	return sml_job_end_at_leaf(job, how, false);
}

/* The connection ends with it, unless the rank may go on in a next membership. */
static void abort_peer(const struct sml_job *job, struct sml_peer *peer, uint16_t rank,
		       SmlControl__Abort *abort_message)
{
	if (sml_peer_send(job->jobs, peer, sml_envelope(ABORT, abort, abort_message)) != 0)
		/* For lack of memory: there may still be room for the text alone. */
		sml_peer_refuse(job->jobs, peer, abort_message->error, abort_message->text);
	else if (!stays(job, peer, rank))
		sml_peer_end(job->jobs, peer);
}

/*
 * Send every member the error with what slots are waiting for, and end the connections.
 */
static void abort_all(struct sml_job *job, int error, const char *text)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;
	struct sml_stalls *stalls = sml_stalls_open(job);

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.stalls = stalls ? &stalls->message.report : NULL;
	message.again = job->end.lacks_room;
	message.planned = job->end.planned;
	for (uint16_t rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = sml_job_release(job, rank);

		if (peer != NULL)
			abort_peer(job, peer, rank, &message);
	}
	sml_stalls_close(stalls);
}

static bool fail(struct sml_job *job, struct sml_failed_job *why)
{
	if (sml_jobs_is_leaf(job->jobs))
		return fail_at_leaf(job, why);
	note(job, "failed", why->text);
	remember(job, why);
	abort_all(job, why->error, why->text);
	return sml_job_close(job);
}

bool sml_job_fail(struct sml_job *job, int error, const char *format, ...)
{
	struct sml_failed_job why = {.error = error};
	va_list arguments;

	/* What does not fit is cut off. */
	va_start(arguments, format);
	vsnprintf(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	return fail(job, &why);
}

bool sml_job_fail_for_now(struct sml_job *job, const char *text)
{
	job->end.lacks_room = true;
	return sml_job_fail(job, SML_ERROR_REFUSED, "%s", text);
}

/* A member of what has never run dies: it need not be waited for when the others ask again. */
static void note_gone_before(const struct sml_job *job, uint16_t rank)
{
	struct sml_failed_job *before =
		job->state < SML_JOB_RUNNING ? sml_job_followed(job, &rank) : NULL;

	if (before != NULL)
		sml_kept_without(job->jobs, before, rank);
}

bool sml_job_fail_without(struct sml_job *job, uint16_t rank, const char *format, ...)
{
	struct sml_failed_job why = {.error = SML_ERROR_RANK_DIED, .has_lost = true, .lost = rank};
	va_list arguments;

	note_gone_before(job, rank);
	va_start(arguments, format);
	vsnprintf(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	return fail(job, &why);
}

/*
 * Not all ranks have come here to resume, or a leaf has died: the connections end without an error,
 * and the ranks try their next addresses together.
 */
static bool let_go(struct sml_job *job, const char *what, const char *why)
{
	struct sml_failed_job failed = {.error = SML_ERROR_SWITCH_DIED};

	note(job, what, why);
	snprintf(failed.text, sizeof(failed.text), "%.*s", (int)sizeof(failed.text) - 1,
		 job->end.how);
	/* No rank can resume what has not run, and its members ask again. */
	if (job->elastic.decision != NULL && job->state < SML_JOB_RUNNING)
		remember(job, &failed);
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = sml_job_release(job, rank);

		if (peer != NULL)
			sml_peer_end(job->jobs, peer);
	}
	return sml_job_close(job);
}

bool sml_job_give_up_resuming(struct sml_job *job, const char *why)
{
	return let_go(job, "does not continue here", why);
}

bool sml_job_disband(struct sml_job *job, const char *why)
{
	return let_go(job, "looks for its switches again", why);
}

/* ---- a doubted rank has gone ---- */

bool sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why)
{
	const struct sml_member *member = &job->members.of[rank];
	const bool embedded = job->jobs->operations->ranks_have_slots;
	char text[2 * SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "%s did not run for %.1f s (it was stopped, or its machine was paused), and rank "
		 "%u (host %s, pid %u) has given it up: %s",
		 embedded ? "rank 0, whose process has the job's control port," : "this switch",
		 (double)missed_ns / 1e9, rank, member->host, member->pid, why);
	/* No other process can take over rank 0's port. */
	if (embedded)
		return sml_job_fail(job, SML_ERROR_RANK_DIED, "%s", text);
	return sml_job_disband(job, text);
}
