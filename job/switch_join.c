/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining: are the terms the same as the others', is there room, is the rank
 * free. What only the newcomer got wrong is refused to it alone; where two
 * ranks cannot both be right, the job fails for all of them in words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"
#include "control/text.h"
#include "job/switch_job.h"

struct term {
	const char *name;
	uint32_t mine, theirs;
};

/*
 * The job that a Join means. A switch can come to have several stripes of one job,
 * by taking over from others that have died. A job that begins is one stripe here:
 * where ranks name the same switches in another order, they meet and are told.
 */
static struct sml_job *find_job(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *other = NULL;

	for (uint32_t i = 0; i < SML_MAX_JOBS; i++) {
		struct sml_job *job = jobs->jobs[i];

		if (job == NULL || strcmp(job->name, join->job) != 0)
			continue;
		if (job->stripe == join->stripe)
			return job;
		other = job;
	}
	return join->resume == NULL ? other : NULL;
}

/*
 * Another version of these very messages: nothing else in them can be relied on.
 * Ranks that wait for this one would wait in vain.
 */
static void refuse_version(struct sml_jobs *jobs, struct sml_job *job, struct sml_peer *peer,
			   const SmlControl__Join *join)
{
	char text[SML_SENTENCE_BYTES], version[SML_VERSION_BYTES], others[64] = "the switch";

	sml_text_copy(version, sizeof(version), join->library_version);
	if (job != NULL && job->state == SML_JOB_JOINING)
		snprintf(others, sizeof(others), "rank %u and the switch", job->first_rank);
	snprintf(text, sizeof(text),
		 "rank %u speaks version %u of the control protocol (library %s), %s version %u "
		 "(%s): install the same release on all",
		 join->rank, join->protocol, version, others, (unsigned)SML_CONTROL_PROTOCOL,
		 SML_VERSION_STRING);
	sml_peer_refuse(jobs, peer, SML_ERROR_VERSION, text);
	if (job != NULL && job->state == SML_JOB_JOINING)
		sml_job_fail(job, SML_ERROR_VERSION, text);
}

/* Refused to the newcomer alone: NULL, or the sentence. */
static const char *own_mistake(const struct sml_jobs *jobs, const SmlControl__Join *join,
			       char *text, size_t bytes)
{
	if (join->world_size < 1 || join->world_size > SML_MAX_RANKS)
		snprintf(text, bytes, "world_size %u is not between 1 and %d", join->world_size,
			 SML_MAX_RANKS);
	else if (join->rank >= join->world_size)
		snprintf(text, bytes, "rank %u is not below world_size %u", join->rank,
			 join->world_size);
	else if (join->shards < 1 || join->shards > SML_MAX_SHARDS)
		snprintf(text, bytes, "%u shards are not between 1 and %d", join->shards,
			 SML_MAX_SHARDS);
	else if (jobs->operations->ranks_have_slots && join->n_stripe_ports == 0)
		snprintf(text, bytes,
			 "rank 0 runs no switch here: its job's ranks embed it; leave "
			 "SWITCHML_SWITCH unset on rank %u, too, or set it on all",
			 join->rank);
	else if (!jobs->operations->ranks_have_slots && join->n_stripe_ports > 0)
		snprintf(
			text, bytes,
			"this is a switch, and rank %u takes it for rank 0: set SWITCHML_SWITCH to "
			"use it, on all ranks",
			join->rank);
	else if (join->n_stripe_ports > 0
			 ? join->n_stripe_ports != join->shards || join->stripes > join->world_size
			 : join->stripe >= join->stripes || join->stripes > SML_MAX_STRIPES)
		snprintf(text, bytes, "stripe %u of %u is none: a job has at most %d", join->stripe,
			 join->stripes, SML_MAX_STRIPES);
	else if (join->resume != NULL && join->resume->n_streams != SML_STREAMS)
		snprintf(text, bytes, "a report has %d streams", SML_STREAMS);
	else if (strlen(join->job) == 0 || strlen(join->job) >= SML_NAME_BYTES ||
		 !sml_text_is_clean(join->job))
		snprintf(text, bytes,
			 "a job's name has 1 to %d bytes of printable UTF-8 (SWITCHML_JOB)",
			 SML_NAME_BYTES - 1);
	else if (join->base.n_unknown_fields > 0)
		snprintf(text, bytes,
			 "rank %u says more than this switch (%s) knows of its version of the "
			 "control protocol: install the same release on all",
			 join->rank, SML_VERSION_STRING);
	else if (strlen(join->library_version) >= SML_VERSION_BYTES ||
		 !sml_text_is_clean(join->library_version))
		snprintf(text, bytes, "a library's version has at most %d printable bytes",
			 SML_VERSION_BYTES - 1);
	else
		return NULL;
	return text;
}

/* What all ranks must say alike. Returns the first that differs, as a sentence. */
static const char *disagreement(const struct sml_job *job, const SmlControl__Join *join, char *text,
				size_t bytes)
{
	const struct term terms[] = {
		{"world_size", join->world_size, job->n_ranks},
		{"threads (shards)", join->shards, job->shards},
		{"head slots", join->head_slots, job->head_slots_wanted},
		{"data slots", join->data_slots, job->data_slots_wanted},
		{"tickets off", join->no_tickets != 0, job->no_tickets},
		{"stripe", join->stripe, job->stripe},
		{"stripes", join->stripes, job->stripes},
		{"going on after a switch's death", join->resume != NULL, job->resumes},
	};

	if (strcmp(join->library_version, job->library_version) != 0) {
		snprintf(text, bytes,
			 "ranks of job \"%s\" have different libraries: rank %u has %s, rank %u "
			 "has %s",
			 job->name, join->rank, join->library_version, job->first_rank,
			 job->library_version);
		return text;
	}
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		if (terms[i].mine == terms[i].theirs)
			continue;
		snprintf(text, bytes,
			 "ranks of job \"%s\" disagree about %s: rank %u says %u, rank %u says %u",
			 job->name, terms[i].name, join->rank, terms[i].mine, job->first_rank,
			 terms[i].theirs);
		return text;
	}
	return NULL;
}

static struct sml_job *new_job(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *job = calloc(1, sizeof(*job));
	uint32_t place = 0;

	if (job == NULL)
		return NULL;
	while (jobs->jobs[place] != NULL)
		place++;
	job->jobs = jobs;
	job->place = place;
	job->n_ranks = (uint8_t)join->world_size;
	job->first_rank = (uint8_t)join->rank;
	job->begun_ns = job->waiting_told_ns = jobs->now_ns;
	job->shards = join->shards;
	job->head_slots_wanted = join->head_slots;
	job->data_slots_wanted = join->data_slots;
	job->no_tickets = join->no_tickets;
	job->stripe = join->stripe;
	job->stripes = join->stripes;
	job->resumes = join->resume != NULL;
	snprintf(job->name, sizeof(job->name), "%s", join->job);
	snprintf(job->library_version, sizeof(job->library_version), "%s", join->library_version);
	jobs->jobs[place] = job;
	jobs->n_jobs++;
	return job;
}

/* The message that it came in is freed by its reader. */
static SmlControl__Join *copy_join(const SmlControl__Join *join)
{
	size_t bytes = sml_control__join__get_packed_size(join);
	uint8_t *packed = malloc(bytes);
	SmlControl__Join *copy = NULL;

	if (packed != NULL) {
		sml_control__join__pack(join, packed);
		copy = sml_control__join__unpack(NULL, bytes, packed);
		free(packed);
	}
	return copy;
}

/* False: no memory for what it reports. */
static bool add_member(struct sml_job *job, struct sml_peer *peer, const SmlControl__Join *join)
{
	struct sml_member *member = &job->members[join->rank];

	member->peer = peer;
	member->pid = join->pid;
	member->lanes = join->lanes;
	member->heartbeat_ms = join->heartbeat_ms;
	if (member->heartbeat_ms > job->jobs->config.heartbeat_ms)
		member->heartbeat_ms = job->jobs->config.heartbeat_ms;
	if (member->heartbeat_ms < 500)
		member->heartbeat_ms = 500;
	sml_text_copy(member->host, sizeof(member->host), join->host);
	peer->job = job;
	peer->rank = (uint8_t)join->rank;
	job->n_members++;
	if (join->n_stripe_ports > 0)
		sml_job_note_peer(member, join);
	if (join->resume == NULL)
		return true;
	member->resume = copy_join(join);
	return member->resume != NULL;
}

/* A job that nobody has joined yet: is there room for it? */
static struct sml_job *admit(struct sml_jobs *jobs, struct sml_peer *peer,
			     const SmlControl__Join *join)
{
	char text[SML_SENTENCE_BYTES];
	struct sml_job *job;

	if (jobs->n_jobs >= jobs->config.max_jobs || jobs->n_jobs >= SML_MAX_JOBS) {
		snprintf(text, sizeof(text),
			 "the switch has all the jobs it takes (%u): wait for one to end, or start "
			 "the switch with more --jobs",
			 jobs->n_jobs);
		sml_peer_refuse_for_now(jobs, peer, text);
		return NULL;
	}
	job = new_job(jobs, join);
	if (job == NULL) {
		sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
		return NULL;
	}
	if (!sml_job_reserve_slots(job, text, sizeof(text))) {
		sml_peer_refuse_for_now(jobs, peer, text);
		sml_job_fail(job, SML_ERROR_REFUSED, text);
		return NULL;
	}
	return job;
}

static bool rank_is_free(struct sml_jobs *jobs, struct sml_job *job, struct sml_peer *peer,
			 uint32_t rank)
{
	const struct sml_member *member = &job->members[rank];
	char text[SML_SENTENCE_BYTES];

	if (job->state == SML_JOB_JOINING && member->peer == NULL)
		return true;
	if (member->peer != NULL || member->leaving)
		snprintf(text, sizeof(text),
			 "rank %u of job \"%s\" is taken by host %s (pid %u): is the job running "
			 "already? Give this one another name (SWITCHML_JOB) or rank",
			 rank, job->name, member->host, member->pid);
	else
		snprintf(text, sizeof(text),
			 "job \"%s\" is running already, without a place for rank %u: give this "
			 "one another name (SWITCHML_JOB)",
			 job->name, rank);
	sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, text);
	return false;
}

/* This switch lives, and has told the others that this rank is dead: it must not go on. */
static bool has_failed_here(const struct sml_jobs *jobs, const SmlControl__Join *join)
{
	for (uint32_t i = 0; join->resume != NULL && i < SML_FAILED_TAGS; i++)
		if (i < jobs->n_failed && jobs->failed_tags[i] == join->resume->tag)
			return true;
	return false;
}

void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	struct sml_job *job = find_job(jobs, join);
	char text[SML_SENTENCE_BYTES];

	if (join->protocol != SML_CONTROL_PROTOCOL) {
		refuse_version(jobs, job, peer, join);
		return;
	}
	if (own_mistake(jobs, join, text, sizeof(text)) != NULL) {
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, text);
		return;
	}
	if (has_failed_here(jobs, join)) {
		snprintf(text, sizeof(text),
			 "the switch lost the connection of rank %u and has ended job \"%s\" for "
			 "all ranks: start the job again",
			 join->rank, join->job);
		sml_peer_refuse(jobs, peer, SML_ERROR_RANK_DIED, text);
		return;
	}
	if (job == NULL)
		job = admit(jobs, peer, join);
	if (job == NULL)
		return;
	if (job->state == SML_JOB_JOINING && disagreement(job, join, text, sizeof(text)) != NULL) {
		sml_peer_refuse(jobs, peer, SML_ERROR_MISMATCH, text);
		sml_job_fail(job, SML_ERROR_MISMATCH, text);
		return;
	}
	if (!rank_is_free(jobs, job, peer, join->rank))
		return;
	if (!add_member(job, peer, join))
		sml_job_fail(job, SML_ERROR_REFUSED, "the switch has no memory for a report");
	else
		sml_job_joined(job);
}
