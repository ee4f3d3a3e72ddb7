/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terms of a job: what a Join must say to be accepted. Any other Join is refused with a text,
 * and affects only the newcomer, because anyone can send anything. Waiting ranks are told why the
 * last newcomer was refused.
 */
#include "job/join/join.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "control/envelope.h"
#include "control/text.h"
#include "core/names.h"
#include "job/states/states.h"

struct term {
	const char *name;
	uint32_t mine, theirs;
	const char *fix;
};

void sml_refuse(struct sml_refusal *refusal, int error, const char *format, ...)
{
	va_list arguments;

	refusal->error = error;
	va_start(arguments, format);
	vsnprintf(refusal->text, sizeof(refusal->text), format, arguments);
	va_end(arguments);
}

/* Another version of these messages: nothing else in them is reliable. */
static void check_version(const struct sml_job *job, const SmlControl__Join *join,
			  struct sml_refusal *refusal)
{
	char version[SML_VERSION_BYTES], others[64] = "the switch";

	if (join->protocol == SML_CONTROL_PROTOCOL)
		return;
	sml_text_copy(version, sizeof(version), join->library_version);
	if (job != NULL && job->state == SML_JOB_JOINING)
		snprintf(others, sizeof(others), "rank %u and the switch", job->members.first);
	sml_refuse(refusal, SML_ERROR_VERSION,
		   "rank %u speaks version %u of the control protocol (library %s), %s version %u "
		   "(%s): install the same release on all",
		   join->rank, join->protocol, version, others, (unsigned)SML_CONTROL_PROTOCOL,
		   SML_VERSION_STRING);
}

/* A rank cannot have seen more than two chunks per slot, and merging reports costs time. */
static bool is_too_long(const SmlControl__Resume *resume)
{
	for (size_t i = 0; i < resume->n_streams; i++)
		if (resume->streams[i]->n_lacking > SML_MAX_PLAN ||
		    resume->streams[i]->n_kept > SML_MAX_PLAN)
			return true;
	return false;
}

/* ---- mistakes that affect only the newcomer ---- */

/* Of which the checks before it found nothing. */
typedef void check_fn(const struct sml_jobs *jobs, const SmlControl__Join *join,
		      struct sml_refusal *refusal);

static void check_numbers(const struct sml_jobs *jobs, const SmlControl__Join *join,
			  struct sml_refusal *refusal)
{
	if (join->world_size < 1 || join->world_size > SML_MAX_WORLD)
		sml_refuse(refusal, SML_ERROR_REFUSED, "world_size %u is not between 1 and %d",
			   join->world_size, SML_MAX_WORLD);
	else if (jobs->operations->ranks_have_slots && join->world_size > SML_MAX_CHILDREN)
		sml_refuse(
			refusal, SML_ERROR_REFUSED,
			"a job without a switch has at most %d ranks, not %u: start switches, the "
			"leaves with `switchml switch --parent HOST', and set SWITCHML_SWITCH",
			SML_MAX_CHILDREN, join->world_size);
	else if (join->rank >= join->world_size)
		sml_refuse(refusal, SML_ERROR_REFUSED, "rank %u is not below world_size %u",
			   join->rank, join->world_size);
	else if (join->shards < 1 || join->shards > SML_MAX_SHARDS)
		sml_refuse(refusal, SML_ERROR_REFUSED, "%u shards are not between 1 and %d",
			   join->shards, SML_MAX_SHARDS);
}

static bool has_its_stripe(const SmlControl__Join *join)
{
	if (join->n_stripe_ports > 0)
		return join->n_stripe_ports == join->shards && join->stripes <= join->world_size;
	return join->stripe < join->stripes && join->stripes <= SML_MAX_STRIPES;
}

static void check_switch(const struct sml_jobs *jobs, const SmlControl__Join *join,
			 struct sml_refusal *refusal)
{
	if (jobs->operations->ranks_have_slots && join->n_stripe_ports == 0)
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "this is rank 0 of a job whose ranks embed the switch: unset "
			   "SWITCHML_SWITCH on rank %u, or set it on all ranks",
			   join->rank);
	else if (!jobs->operations->ranks_have_slots && join->n_stripe_ports > 0)
		sml_refuse(
			refusal, SML_ERROR_REFUSED,
			"this is a dedicated switch, but rank %u expects rank 0 here: to use the "
			"switch, set SWITCHML_SWITCH on all ranks",
			join->rank);
	else if (!has_its_stripe(join))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "stripe %u of %u does not exist: a job has at most %d stripes",
			   join->stripe, join->stripes, SML_MAX_STRIPES);
}

static void check_wire(const struct sml_jobs *jobs, const SmlControl__Join *join,
		       struct sml_refusal *refusal)
{
	if (join->wire == SML_WIRE_INT16 && sml_jobs_only_int32(jobs))
		sml_refuse(
			refusal, SML_ERROR_REFUSED,
			"floats of rank %u travel as int16, but this switch's program adds only "
			"int32 lanes: set SWITCHML_WIRE=int32 on all ranks, or use another switch "
			"program",
			join->rank);
	else if (join->wire == SML_WIRE_INT8 && !sml_jobs_round(jobs))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "floats of rank %u travel as int8, but this switch (%s) does not round "
			   "sums: set SWITCHML_WIRE=%s on all ranks, or use a switch with "
			   "--dataplane udp or xdp",
			   join->rank, jobs->operations->name,
			   sml_jobs_only_int32(jobs) ? "int32" : "int16");
}

/* Without them, the numbers of a past rank may be anything: its job may be unknown here. */
static bool has_members(const SmlControl__Join *join)
{
	struct sml_ranks members;

	for (size_t i = 0; i < join->n_left; i++) {
		const SmlControl__PastRank *past = join->left[i];

		if (past->members.len > 0 &&
		    (past->world_size > SML_MAX_WORLD || past->rank >= past->world_size ||
		     !sml_ranks_unpack(&members, past->members.data, past->members.len,
				       past->world_size) ||
		     !sml_ranks_has(&members, past->rank)))
			return false;
	}
	return true;
}

static void check_report(const struct sml_jobs *jobs, const SmlControl__Join *join,
			 struct sml_refusal *refusal)
{
	const SmlControl__Resume *resume = join->resume;

	(void)jobs;
	if (resume != NULL && resume->n_streams != SML_STREAMS)
		sml_refuse(refusal, SML_ERROR_REFUSED, "a report must have %d streams",
			   SML_STREAMS);
	else if (resume != NULL && is_too_long(resume))
		sml_refuse(refusal, SML_ERROR_REFUSED, "a report has at most %d chunks of a kind",
			   SML_MAX_PLAN);
	else if (resume != NULL && resume->membership == 0)
		sml_refuse(refusal, SML_ERROR_REFUSED, "a report must have its job's membership");
	else if (join->ask != NULL && (join->process == 0 || resume != NULL ||
				       join->ask->n_past_ranks > 2 || join->n_left > 0))
		sml_refuse(
			refusal, SML_ERROR_REFUSED,
			"who asks to be a member has a number, no report, and at most two places");
	else if (join->n_left > 2)
		sml_refuse(refusal, SML_ERROR_REFUSED, "a rank has left at most two jobs");
	else if (!has_members(join))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "a job's members are ranks of the job that they left");
}

static void check_names(const struct sml_jobs *jobs, const SmlControl__Join *join,
			struct sml_refusal *refusal)
{
	(void)jobs;
	if (strlen(join->job) == 0 || strlen(join->job) >= SML_NAME_BYTES ||
	    !sml_text_is_clean(join->job))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "a job's name must have 1 to %d bytes of printable UTF-8 (SWITCHML_JOB)",
			   SML_NAME_BYTES - 1);
	else if (strlen(join->follows) >= SML_NAME_BYTES || !sml_text_is_clean(join->follows))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "the job before has a name of at most %d bytes of printable UTF-8",
			   SML_NAME_BYTES - 1);
	else if (!sml_job_is_machine(join))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "a machine must have at most %d bytes, and a host token %d",
			   SML_MACHINE_BYTES, SML_HOST_TOKEN);
}

static void check_release(const struct sml_jobs *jobs, const SmlControl__Join *join,
			  struct sml_refusal *refusal)
{
	(void)jobs;
	if (join->base.n_unknown_fields > 0)
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "rank %u sent fields that this switch (%s) does not know: install the "
			   "same release on all hosts",
			   join->rank, SML_VERSION_STRING);
	else if (strlen(join->library_version) >= SML_VERSION_BYTES ||
		 !sml_text_is_clean(join->library_version))
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "a library's version must have at most %d printable bytes",
			   SML_VERSION_BYTES - 1);
}

/* Rank 0's own port is only for its job. */
static void check_port(const struct sml_jobs *jobs, const SmlControl__Join *join,
		       struct sml_refusal *refusal)
{
	const struct sml_jobs_config *config = &jobs->config;

	if (config->only_job == NULL)
		return;
	if (strcmp(join->job, config->only_job) != 0) {
		/* It may be of the job after this one, and rank 0 about to close: it tries again.
		 */
		sml_refuse(refusal, SML_ERROR_UNREACHABLE,
			   "rank 0 serves job \"%s\" here, not job \"%s\": give all ranks of a job "
			   "the same name (SWITCHML_JOB), and each job its own port "
			   "(SWITCHML_MASTER_PORT)",
			   config->only_job, join->job);
	} else if (config->only_elsewhere) {
		sml_refuse(refusal, SML_ERROR_MISMATCH, SML_TERMS_APART, join->job, 0u, join->rank);
	} else if (join->world_size != config->only_world_size) {
		sml_refuse(refusal, SML_ERROR_MISMATCH,
			   "ranks of job \"%s\" disagree about world_size: rank %u says %u, rank 0 "
			   "says %u",
			   config->only_job, join->rank, join->world_size, config->only_world_size);
	}
}

/*
 * This switch is alive, and has told the other ranks why their job failed: this one must not
 * resume, and learns the same. To the rank that counted as dead, that would be wrong.
 */
static void check_death(const struct sml_jobs *jobs, const SmlControl__Join *join,
			struct sml_refusal *refusal)
{
	const struct sml_failed_job *failed =
		join->resume != NULL ? sml_jobs_find_failed(jobs, join->resume->tag) : NULL;

	if (failed == NULL)
		return;
	if (failed->has_lost && failed->lost == join->rank)
		sml_refuse(refusal, failed->error,
			   "the switch lost the connection of rank %u and has ended job \"%s\" for "
			   "all ranks: start the job again",
			   join->rank, join->job);
	else
		sml_refuse(refusal, failed->error, "%s", failed->text);
}

/*
 * If a rank's thread count was set, all ranks must have it; otherwise, the smallest count is used.
 */
static bool agree_about_shards(const struct sml_job *job, const struct sml_member *member,
			       const SmlControl__Join *join)
{
	if (join->shards_set && join->shards > job->terms.most_shards)
		return false;
	if (member->peer == NULL)
		return true;
	if (join->shards_set && member->shards < join->shards)
		return false;
	return !member->shards_set || join->shards == member->shards ||
	       (!join->shards_set && join->shards > member->shards);
}

static void check_shards(const struct sml_job *job, const SmlControl__Join *join,
			 struct sml_refusal *refusal)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];

		if (agree_about_shards(job, member, join))
			continue;
		sml_refuse(
			refusal, SML_ERROR_MISMATCH,
			"ranks of job \"%s\" disagree about threads (shards): rank %u says %u%s, "
			"rank %u says %u%s: set SWITCHML_THREADS to the same value on all ranks, "
			"or on none",
			job->name, join->rank, join->shards, join->shards_set ? " (set)" : "",
			member->peer ? rank : job->members.first,
			member->peer ? member->shards : job->terms.most_shards,
			member->shards_set ? " (set)" : "");
		return;
	}
}

/* One rank's list has one switch for two stripes. */
static bool comes_twice(const struct sml_job *job, const SmlControl__Join *join)
{
	const struct sml_member *member =
		&job->members.of[join->rank < job->n_ranks ? join->rank : 0];

	return join->stripe != job->terms.stripe && member->peer != NULL &&
	       member->pid == join->pid && strcmp(member->host, join->host) == 0;
}

static void report_difference(const struct sml_job *job, const SmlControl__Join *join,
			      const struct term *term, struct sml_refusal *refusal)
{
	if (comes_twice(job, join))
		sml_refuse(
			refusal, SML_ERROR_MISMATCH,
			"rank %u of job \"%s\" names one switch for stripe %u and for stripe %u: "
			"each stripe needs a switch of its own (SWITCHML_SWITCH)",
			join->rank, job->name, job->terms.stripe, join->stripe);
	else
		sml_refuse(refusal, SML_ERROR_MISMATCH,
			   "ranks of job \"%s\" disagree about %s: rank %u says %u, rank %u says "
			   "%u: %s",
			   job->name, term->name, join->rank, term->mine, job->members.first,
			   term->theirs, term->fix);
}

void sml_terms_compare(const struct sml_job *job, const SmlControl__Join *join,
		       struct sml_refusal *refusal)
{
	static const char switches[] =
		"give all ranks the same switches in the same order (SWITCHML_SWITCH)";
	static const char slots[] = "give all ranks the same SWITCHML_SLOTS";
	const struct term terms[] = {
		{"world_size", join->world_size, job->n_ranks,
		 "are they of one run (SWITCHML_WORLD_SIZE or the launcher's, SWITCHML_JOB)?"},
		{"slots for exponents", join->head_slots, job->terms.head_slots, slots},
		{"data slots", join->data_slots, job->terms.data_slots, slots},
		{"tickets off", join->no_tickets != 0, job->terms.no_tickets,
		 "give all ranks the same SWITCHML_FAULTS"},
		{"stripe", join->stripe, job->terms.stripe, switches},
		{"stripes", join->stripes, job->terms.stripes, switches},
	};

	if (strcmp(join->library_version, job->terms.version) != 0) {
		sml_refuse(refusal, SML_ERROR_MISMATCH,
			   "ranks of job \"%s\" have different libraries: rank %u has %s, rank %u "
			   "has %s",
			   job->name, join->rank, join->library_version, job->members.first,
			   job->terms.version);
		return;
	}
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		if (terms[i].mine != terms[i].theirs) {
			report_difference(job, join, &terms[i], refusal);
			return;
		}
	}
	if (join->wire != job->terms.wire) {
		sml_refuse(refusal, SML_ERROR_MISMATCH,
			   "ranks of job \"%s\" disagree about the wire: rank %u says %s, rank %u "
			   "says %s: give all ranks the same SWITCHML_WIRE",
			   job->name, join->rank, sml_wire_name(join->wire), job->members.first,
			   sml_wire_name(job->terms.wire));
		return;
	}
	check_shards(job, join, refusal);
}

static void check_rank(const struct sml_job *job, uint32_t rank, struct sml_refusal *refusal)
{
	const struct sml_member *member = &job->members.of[rank < job->n_ranks ? rank : 0];

	if (job->state == SML_JOB_JOINING && member->peer == NULL)
		return;
	if (member->peer != NULL || member->leaving)
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "rank %u of job \"%s\" is taken by host %s (pid %u): is the job already "
			   "running? Give this one another name (SWITCHML_JOB) or rank",
			   rank, job->name, member->host, member->pid);
	else
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "job \"%s\" is already running and has no place for rank %u: give this "
			   "job another name (SWITCHML_JOB)",
			   job->name, rank);
}

static check_fn *const checks[] = {check_numbers, check_switch,	 check_wire, check_report,
				   check_names,	  check_release, check_port, check_death};

void sml_terms_check(const struct sml_jobs *jobs, const struct sml_job *job,
		     const SmlControl__Join *join, struct sml_refusal *refusal)
{
	*refusal = (struct sml_refusal){.error = 0};
	check_version(job, join, refusal);
	for (size_t i = 0; !refusal->error && i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](jobs, join, refusal);
	if (!refusal->error && job != NULL && job->state == SML_JOB_JOINING)
		sml_terms_compare(job, join, refusal);
	if (!refusal->error && job != NULL)
		check_rank(job, join->rank, refusal);
}

/* ---- ranks that disagree about their job ---- */

void sml_disagreement_note(struct sml_jobs *jobs, const struct sml_job *job,
			   const SmlControl__Join *newcomer, const struct sml_refusal *refusal)
{
	const char *name = "";

	if (newcomer != NULL)
		name = newcomer->job;
	else if (job != NULL)
		name = job->name;
	memset(&jobs->disagreement, 0, sizeof(jobs->disagreement));
	snprintf(jobs->disagreement.job, sizeof(jobs->disagreement.job), "%s", name);
	snprintf(jobs->disagreement.text, sizeof(jobs->disagreement.text), "%s", refusal->text);
	jobs->disagreement.error = refusal->error;
	jobs->disagreement.at_ns = jobs->now_ns;
	for (unsigned rank = 0; rank < SML_MAX_WORLD; rank++)
		if ((newcomer != NULL && rank == newcomer->rank) ||
		    (job != NULL && rank < job->n_ranks && job->members.of[rank].peer != NULL))
			sml_ranks_add(&jobs->disagreement.has_it, rank);
}

bool sml_disagreement_recall(struct sml_jobs *jobs, const SmlControl__Join *join,
			     struct sml_refusal *refusal)
{
	if (sml_join_resumes(join) || strcmp(jobs->disagreement.job, join->job) != 0)
		return false;
	if (sml_ranks_has(&jobs->disagreement.has_it, join->rank) ||
	    jobs->now_ns - jobs->disagreement.at_ns > SML_TURNED_AWAY_NS) {
		jobs->disagreement.job[0] = '\0';
		return false;
	}
	sml_ranks_add(&jobs->disagreement.has_it, join->rank);
	sml_refuse(refusal, jobs->disagreement.error, "%s", jobs->disagreement.text);
	return true;
}
