/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job does with its members' messages. */
#include "job/states/states.h"

#include <stdio.h>

#include "control/envelope.h"
#include "control/text.h"

typedef void (*reaction)(struct sml_job *job, struct sml_member *member, uint16_t rank,
			 const SmlControl__Envelope *message);

/* Of ranks that share memory, the first does; if they turn out not to, none has. */
static bool sends_packets(const struct sml_job *job, uint16_t rank, const SmlControl__Ready *ready)
{
	return !sml_job_is_in_host(job, rank) ||
	       (ready->shares_memory &&
		job->pool.children[job->members.of[rank].child].first_of_host == rank);
}

bool sml_job_knows_path(struct sml_job *job, uint16_t rank, const SmlControl__Ready *ready)
{
	const struct sml_member *member = &job->members.of[rank];
	const char *why = NULL;

	/* A rank at a leaf has its path there. */
	if (member->peer->via == NULL && sends_packets(job, rank, ready))
		why = sml_job_pool_misses_address(job, member->child);
	if (why == NULL)
		return true;
	sml_job_fail(job, SML_ERROR_PROTOCOL, "rank %u (host %s, pid %u) %s", rank, member->host,
		     member->pid, why);
	return false;
}

static void on_ready(struct sml_job *job, struct sml_member *member, uint16_t rank,
		     const SmlControl__Envelope *message)
{
	if (job->state != SML_JOB_PROBING || member->ready ||
	    !sml_job_knows_path(job, rank, message->ready))
		return;
	member->lanes = message->ready->lanes;
	member->shares_memory = message->ready->shares_memory;
	member->ready = true;
	job->members.n_ready++;
	sml_job_check_ready(job);
}

static void on_leave(struct sml_job *job, struct sml_member *member, uint16_t rank,
		     const SmlControl__Envelope *message)
{
	(void)member;
	(void)message;
	sml_job_leave(job, rank);
}

static void on_abort(struct sml_job *job, struct sml_member *member, uint16_t rank,
		     const SmlControl__Envelope *message)
{
	char text[2 * SML_SENTENCE_BYTES], reason[SML_REASON_BYTES];
	struct sml_peer *peer = member->peer;
	int error = message->abort->error;

	job->end.planned = message->abort->planned;
	/* As if this switch had found it: every rank gets the same error from any switch. */
	if (message->abort->told && error < 0) {
		sml_text_copy(text, sizeof(text), message->abort->text);
		sml_job_fail(job, error, "%s", text);
		return;
	}
	sml_text_copy(reason, sizeof(reason), message->abort->text);
	/* One rank's timeout is every rank's; for any other cause, the others get ABORTED. */
	sml_job_fail(job, error == SML_ERROR_TIMEOUT ? error : SML_ERROR_ABORTED,
		     "rank %u (host %s, pid %u) aborted the job: %s", rank, member->host,
		     member->pid, reason);
	if (job->end.planned)
		sml_survivor_goes_on(job->jobs, peer);
}

/*
 * ---- two ranks made different calls ----
 *
 * Both are asked for theirs, and then all ranks are told.
 */

void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Describe describe = SML_CONTROL__DESCRIBE__INIT;

	if (sml_jobs_is_leaf(job->jobs)) {
		sml_parent_mismatch(job, mismatch);
		return;
	}
	/* Before that, no rank has contributed, and ranks have nothing to describe. */
	if (job->mismatch.since_ns != 0 || job->state < SML_JOB_RUNNING)
		return;
	job->mismatch.found = *mismatch;
	job->mismatch.since_ns = job->jobs->now_ns;
	describe.slot = mismatch->slot;
	describe.use = mismatch->use;
	describe.chunk = mismatch->chunk;
	for (unsigned i = 0; i < 2; i++)
		if (job->members.of[mismatch->ranks[i]].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members.of[mismatch->ranks[i]].peer,
					    sml_envelope(DESCRIBE, describe, &describe));
}

static void describe(const struct sml_job *job, unsigned i, char *text, size_t bytes)
{
	const struct sml_member *member = &job->members.of[job->mismatch.found.ranks[i]];

	snprintf(text, bytes, "rank %u (host %.40s, pid %u) called %s",
		 job->mismatch.found.ranks[i], member->host, member->pid,
		 job->mismatch.calls[i].text[0] ? job->mismatch.calls[i].text : "(no answer)");
}

static void note_call(struct sml_job *job, unsigned which, const SmlControl__Description *in)
{
	struct sml_reported_call *call = &job->mismatch.calls[which];

	sml_text_copy(call->text, sizeof(call->text), in->text);
	call->call = in->call ? *in->call : (SmlControl__Call){.wire = 0};
}

/* Where only the wire differs, the program may be right, and a setting differs. */
static const char *advice(const struct sml_job *job)
{
	const SmlControl__Call *one = &job->mismatch.calls[0].call;
	const SmlControl__Call *other = &job->mismatch.calls[1].call;

	if (one->wire == 0 || other->wire == 0 || one->wire == other->wire ||
	    one->collective != other->collective || one->number != other->number ||
	    one->count != other->count || one->type != other->type || one->op != other->op ||
	    one->root != other->root)
		return "";
	return one->residual == other->residual ? ", on the same wire (SWITCHML_WIRE)"
						: ", on the same wire (SWITCHML_WIRE), all "
						  "with a residual or all without one";
}

void sml_job_report_mismatch(struct sml_job *job)
{
	char calls[2][SML_SENTENCE_BYTES];

	for (unsigned i = 0; i < 2; i++)
		describe(job, i, calls[i], sizeof(calls[i]));
	sml_job_fail(
		job, SML_ERROR_MISMATCH,
		"ranks of job \"%s\" made different calls: %.360s; %.360s. All ranks must make the "
		"same calls in the same order%s",
		job->name, calls[0], calls[1], advice(job));
}

static void on_description(struct sml_job *job, struct sml_member *member, uint16_t rank,
			   const SmlControl__Envelope *message)
{
	(void)member;
	if (job->mismatch.since_ns == 0 || message->description->slot != job->mismatch.found.slot ||
	    message->description->use != job->mismatch.found.use)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (job->mismatch.found.ranks[i] == rank)
			note_call(job, i, message->description);
	if (job->mismatch.calls[0].text[0] && job->mismatch.calls[1].text[0])
		sml_job_report_mismatch(job);
}

/* Can the rank know that these two disagree? It can end the job in other ways, too. */
static bool may_report(const struct sml_job *job, uint16_t rank, const SmlControl__Mismatch *in)
{
	if (in->n_ranks != 2 || in->ranks[0] >= job->n_ranks || in->ranks[1] >= job->n_ranks)
		return false;
	return job->jobs->operations->ranks_have_slots ||
	       (sml_job_is_one_host(job, rank, in->ranks[0]) &&
		sml_job_is_one_host(job, rank, in->ranks[1]));
}

/* From a rank that has slots, or whose memory others share. */
static void on_mismatch(struct sml_job *job, struct sml_member *member, uint16_t rank,
			const SmlControl__Envelope *message)
{
	const SmlControl__Mismatch *in = message->mismatch;
	struct sml_mismatch mismatch = {
		.job = job->pool.rules.job,
		.slot = (uint16_t)in->slot,
		.use = in->use,
		.chunk = in->chunk,
	};

	(void)member;
	if (!may_report(job, rank, in))
		return;
	mismatch.ranks[0] = (uint16_t)in->ranks[0];
	mismatch.ranks[1] = (uint16_t)in->ranks[1];
	sml_job_mismatch(job, &mismatch);
}

/* ---- what is answered elsewhere ---- */

static void on_result(struct sml_job *job, struct sml_member *member, uint16_t rank,
		      const SmlControl__Envelope *message)
{
	(void)member;
	(void)rank;
	sml_job_result(job, message->result);
}

static void on_stall_request(struct sml_job *job, struct sml_member *member, uint16_t rank,
			     const SmlControl__Envelope *message)
{
	(void)rank;
	(void)message;
	sml_job_send_stalls(job, member);
}

static void on_stall_report(struct sml_job *job, struct sml_member *member, uint16_t rank,
			    const SmlControl__Envelope *message)
{
	(void)member;
	if (job->jobs->operations->ranks_have_slots)
		sml_job_pass_stalls(job, rank, message->stall_report);
	else
		sml_job_note_host_stalls(job, rank, message->stall_report);
}

/* A rank at a leaf gets its results there. */
static void on_renew(struct sml_job *job, struct sml_member *member, uint16_t rank,
		     const SmlControl__Envelope *message)
{
	if (member->peer->via == NULL)
		sml_job_pool_renew(job, job->members.of[rank].child, message->renew->shard,
				   message->renew->number);
}

static const reaction reactions[] = {
	[SML_CONTROL__ENVELOPE__BODY_READY] = on_ready,
	[SML_CONTROL__ENVELOPE__BODY_LEAVE] = on_leave,
	[SML_CONTROL__ENVELOPE__BODY_ABORT] = on_abort,
	[SML_CONTROL__ENVELOPE__BODY_DESCRIPTION] = on_description,
	[SML_CONTROL__ENVELOPE__BODY_RESULT] = on_result,
	[SML_CONTROL__ENVELOPE__BODY_MISMATCH] = on_mismatch,
	[SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST] = on_stall_request,
	[SML_CONTROL__ENVELOPE__BODY_STALL_REPORT] = on_stall_report,
	[SML_CONTROL__ENVELOPE__BODY_RENEW] = on_renew,
};

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	struct sml_job *job = peer->job;
	size_t body = message->body_case;

	/* Messages that a switch does not need do no harm. */
	if (body < sizeof(reactions) / sizeof(reactions[0]) && reactions[body] != NULL)
		reactions[body](job, &job->members.of[peer->rank], peer->rank, message);
}
