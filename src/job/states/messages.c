/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job does with its members' messages. */
#include "job/states/states.h"

#include <stdio.h>

#include "control/envelope.h"
#include "control/text.h"

/* Of ranks that share memory, the first does; if they turn out not to, none has. */
static bool sends_packets(const struct sml_job *job, uint16_t rank, const SmlControl__Ready *ready)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks == 1 || child->branch != NULL ||
	       (ready->shares_memory && child->first_of_host == rank);
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

static void on_ready(struct sml_job *job, uint16_t rank, const SmlControl__Ready *in)
{
	struct sml_member *member = &job->members.of[rank];

	if (job->state != SML_JOB_PROBING || member->ready || !sml_job_knows_path(job, rank, in))
		return;
	member->lanes = in->lanes;
	member->shares_memory = in->shares_memory;
	member->ready = true;
	job->members.n_ready++;
	sml_job_check_ready(job);
}

static void on_abort(struct sml_job *job, uint16_t rank, const SmlControl__Abort *in)
{
	const struct sml_member *member = &job->members.of[rank];
	char text[2 * SML_SENTENCE_BYTES], reason[SML_REASON_BYTES];
	struct sml_peer *peer = member->peer;

	job->end.planned = in->planned;
	/* As if this switch had found it: every rank gets the same error from any switch. */
	if (in->told && in->error < 0) {
		sml_text_copy(text, sizeof(text), in->text);
		sml_job_fail(job, in->error, "%s", text);
		return;
	}
	sml_text_copy(reason, sizeof(reason), in->text);
	/* One rank's timeout is every rank's; for any other cause, the others get ABORTED. */
	sml_job_fail(job, in->error == SML_ERROR_TIMEOUT ? in->error : SML_ERROR_ABORTED,
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

static void on_description(struct sml_job *job, uint16_t rank, const SmlControl__Description *in)
{
	if (job->mismatch.since_ns == 0 || in->slot != job->mismatch.found.slot ||
	    in->use != job->mismatch.found.use)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (job->mismatch.found.ranks[i] == rank)
			note_call(job, i, in);
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
static void on_mismatch(struct sml_job *job, uint16_t rank, const SmlControl__Mismatch *in)
{
	struct sml_mismatch mismatch = {
		.job = job->pool.rules.job,
		.slot = (uint16_t)in->slot,
		.use = in->use,
		.chunk = in->chunk,
	};

	if (!may_report(job, rank, in))
		return;
	mismatch.ranks[0] = (uint16_t)in->ranks[0];
	mismatch.ranks[1] = (uint16_t)in->ranks[1];
	sml_job_mismatch(job, &mismatch);
}

/* ---- all of them ---- */

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	struct sml_job *job = peer->job;
	struct sml_member *member = &job->members.of[peer->rank];

	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_READY:
		on_ready(job, peer->rank, message->ready);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAVE:
		sml_job_leave(job, peer->rank);
		break;
	case SML_CONTROL__ENVELOPE__BODY_ABORT:
		on_abort(job, peer->rank, message->abort);
		break;
	case SML_CONTROL__ENVELOPE__BODY_DESCRIPTION:
		on_description(job, peer->rank, message->description);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RESULT:
		sml_job_result(job, message->result);
		break;
	case SML_CONTROL__ENVELOPE__BODY_MISMATCH:
		on_mismatch(job, peer->rank, message->mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST:
		sml_job_send_stalls(job, member);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
		if (job->jobs->operations->ranks_have_slots)
			sml_job_pass_stalls(job, peer->rank, message->stall_report);
		else
			sml_job_note_host_stalls(job, peer->rank, message->stall_report);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RENEW:
		/* A rank at a leaf gets its results there. */
		if (peer->via == NULL)
			sml_job_pool_renew(job, member->child, message->renew->shard,
					   message->renew->number);
		break;
	default:
		/* Messages that a switch does not need do no harm. */
		break;
	}
}
