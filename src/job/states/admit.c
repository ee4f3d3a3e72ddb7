/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission, from the moment when all ranks are here: the terms that all of them can keep, the
 * job's slots in the dataplane, and what each rank is told; then the start.
 *
 * The invariant: a rank is told its cookie only when the dataplane knows the job.
 */
#include "job/states/states.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/plural.h"
#include "control/envelope.h"

/* Of both headers. */
#define IPV6_UDP_BYTES 48

static uint32_t round_down_lanes(uint32_t lanes)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	uint32_t best = counts[0];

	for (unsigned i = 0; counts[i] != 0 && counts[i] <= lanes; i++)
		best = counts[i];
	return best;
}

static uint32_t least_shards(const struct sml_job *job)
{
	uint32_t shards = job->terms.most_shards;

	/* The ranks of a host send through one socket. */
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (sml_job_is_grouped(job, rank))
			return 1;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		shards = sml_least(shards, job->members.of[rank].shards);
	return shards;
}

/* 0: packets may have any number of lanes, up to the job's. */
static uint32_t fixed_lanes(const struct sml_job *job)
{
	const struct sml_jobs *jobs = job->jobs;

	return jobs->operations->fixed_lanes ? jobs->operations->fixed_lanes(jobs->dataplane) : 0;
}

static uint32_t least_lanes(const struct sml_job *job)
{
	uint32_t fixed = fixed_lanes(job);
	uint32_t most = fixed ? fixed : job->jobs->operations->max_lanes;
	uint32_t lanes = most ? most : SML_MAX_LANES;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_peer *peer = job->members.of[rank].peer;

		lanes = sml_least(lanes, job->members.of[rank].lanes);
		if (sml_peer_via(peer) != NULL && sml_remote_of(peer)->lanes < lanes)
			lanes = sml_remote_of(peer)->lanes;
	}
	for (unsigned child = 0; child < job->pool.n_children; child++)
		if (job->pool.children[child].ready && job->pool.children[child].lanes < lanes)
			lanes = job->pool.children[child].lanes;
	return round_down_lanes(lanes);
}

static int compare_hosts(const void *a, const void *b)
{
	const struct sml_member *const *one = a, *const *other = b;

	return strcmp((*one)->host, (*other)->host);
}

/* 0: there is no memory to count them. */
static uint32_t count_hosts(const struct sml_job *job)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct sml_member **members = malloc(job->n_ranks * sizeof(*members));
	uint32_t n = members != NULL;

	for (unsigned rank = 0; members != NULL && rank < job->n_ranks; rank++)
		members[rank] = &job->members.of[rank];
	if (members != NULL)
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
		qsort(members, job->n_ranks, sizeof(*members), compare_hosts);
	for (unsigned i = 1; members != NULL && i < job->n_ranks; i++)
		n += compare_hosts(&members[i - 1], &members[i]) != 0;
	free(members);
	return n;
}

static void describe_decision(struct sml_job *job, uint16_t rank, SmlControl__Decision *out,
			      SmlControl__Admitted *admitted)
{
	if (job->elastic.decision == NULL)
		return;
	sml_control__decision__init(out);
	out->job = job->name;
	out->rank = rank;
	out->world_size = job->n_ranks;
	out->after = job->elastic.decision->after;
	out->before = job->elastic.decision->before;
	out->n_before = job->elastic.decision->n;
	out->number = job->elastic.decision->number;
	admitted->decision = out;
}

/* What all ranks are told of the job's slots and packets. */
static void describe_rules(const struct sml_job *job, SmlControl__Admitted *admitted)
{
	const struct sml_pool_rules *rules = &job->pool.rules;

	admitted->job_number = rules->job;
	admitted->epoch = rules->epoch;
	admitted->report_tag = job->report_tag;
	admitted->membership = job->membership;
	admitted->changes = job->elastic.changes;
	admitted->lanes = rules->lanes;
	admitted->head_slots = rules->head_slots;
	admitted->data_slots = rules->data_slots;
	admitted->shards = rules->n_shards;
	admitted->rounds = rules->rounds;
	admitted->omits = rules->omits;
	admitted->floats = rules->floats;
	admitted->adds_parts = job->pool.adds_parts;
}

/* What this switch can do, and what it wants of the ranks. */
static void describe_switch(const struct sml_job *job, SmlControl__Admitted *admitted)
{
	const struct sml_dataplane_operations *operations = job->jobs->operations;
	struct sml_jobs *jobs = job->jobs;

	admitted->data_port = jobs->config.data_port;
	admitted->dataplane = (char *)(uintptr_t)operations->name;
	admitted->stall_reports = true;
	admitted->full_packets = fixed_lanes(job) != 0;
	admitted->only_int32 = sml_jobs_only_int32(jobs);
	admitted->single_packets = operations->wants_single_packets != NULL &&
				   operations->wants_single_packets(jobs->dataplane);
}

void sml_job_describe_rank(const struct sml_job *job, uint16_t rank, SmlControl__Admitted *admitted)
{
	const struct sml_jobs *jobs = job->jobs;

	if (jobs->operations->window)
		admitted->window_packets = sml_least(
			admitted->window_packets ? admitted->window_packets : UINT32_MAX,
			jobs->operations->window(jobs->dataplane,
						 SML_HEADER_BYTES + 4u * job->pool.rules.lanes,
						 sml_job_pools_children(jobs)));
	admitted->number = job->members.of[rank].child;
	if (job->members.of[rank].peer->via != NULL)
		return;
	admitted->cookie = job->pool.rules.cookies[admitted->number];
	admitted->tag = job->pool.rules.tag;
}

struct map_list {
	SmlControl__TicketMap maps[SML_STREAMS], *list[SML_STREAMS];
};

static void describe_maps(const struct sml_job *job, struct map_list *out,
			  SmlControl__Admitted *admitted)
{
	if (!job->resume.runs)
		return;
	for (unsigned stream = 0; stream < SML_STREAMS; stream++) {
		SmlControl__TicketMap *map = out->list[stream] = &out->maps[stream];

		sml_control__ticket_map__init(map);
		map->table = job->resume.plans[stream].table;
		map->n_table = job->resume.plans[stream].n_table;
		map->after = job->resume.plans[stream].after;
	}
	admitted->maps = out->list;
	admitted->n_maps = SML_STREAMS;
}

static void send_admitted(struct sml_job *job, uint16_t rank, uint32_t n_hosts,
			  uint32_t heartbeat_ms)
{
	struct sml_jobs *jobs = job->jobs;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	struct map_list maps;
	struct sml_host_list hosts;
	SmlControl__Decision decision;
	struct sml_peer_list *peers = NULL;

	admitted.hosts = n_hosts;
	admitted.heartbeat_ms = heartbeat_ms;
	describe_rules(job, &admitted);
	describe_switch(job, &admitted);
	sml_job_describe_rank(job, rank, &admitted);
	if (jobs->operations->ranks_have_slots)
		peers = sml_job_describe_peers(job, rank, &admitted);
	sml_job_describe_hosts(job, rank, &hosts, &admitted);
	describe_decision(job, rank, &decision, &admitted);
	describe_maps(job, &maps, &admitted);
	(void)sml_peer_send(jobs, job->members.of[rank].peer,
			    sml_envelope(ADMITTED, admitted, &admitted));
	free(peers);
}

/* Hardware has a program for one lane count, and the paths of some ranks can be too narrow for it.
 */
static bool is_too_narrow(struct sml_job *job)
{
	uint32_t fixed = fixed_lanes(job), lanes = least_lanes(job);

	if (fixed == 0 || lanes == fixed)
		return false;
	return sml_job_fail(
		job, SML_ERROR_REFUSED,
		"the switch processes only packets of %u lanes, but the path of a rank carries "
		"only %u: raise that path's MTU to %u bytes, or use a switch program for fewer "
		"lanes",
		fixed, lanes, SML_HEADER_BYTES + 4 * fixed + IPV6_UDP_BYTES);
}

/*
 * This switch, and the leaves of all ranks; and no rank has given floats up, where others may not
 * have been told to start.
 */
static bool all_add_floats(const struct sml_job *job)
{
	bool floats = job->jobs->operations->floats && !sml_jobs_only_int32(job->jobs);

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_peer *peer = job->members.of[rank].peer;
		const SmlControl__Join *resume = job->members.of[rank].resume;

		if (sml_peer_via(peer) != NULL)
			floats &= !sml_remote_of(peer)->only_integers;
		if (resume != NULL)
			floats &= !resume->resume->only_integers;
	}
	return floats;
}

/* Here; or at another switch, where a rank was told to start, and others may not have been. */
static bool adds_parts(const struct sml_job *job)
{
	bool adds = job->pool.adds_parts;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const SmlControl__Join *resume = job->members.of[rank].resume;

		adds |= resume != NULL && resume->resume->adds_parts;
	}
	return adds;
}

/* 0, or a negative errno; then the job is unchanged. */
static int add_to_dataplane(struct sml_job *job)
{
	int rc;

	if (!sml_job_take_slots(job))
		return -EDQUOT;
	do
		rc = sml_job_pool_add(job);
	while (rc == -ENOSPC && sml_job_take_fewer_slots(job));
	return rc;
}

/* The rules of the job's slots, and the secrets that its packets carry. False: it has failed. */
static bool set_rules(struct sml_job *job, uint32_t epoch)
{
	struct sml_jobs *jobs = job->jobs;
	struct sml_pool_rules *rules = &job->pool.rules;
	char text[SML_SENTENCE_BYTES];

	/* Never 0. */
	rules->job = ((uint32_t)sml_jobs_random(jobs) & ~(uint32_t)(SML_MAX_JOBS - 1)) |
		     job->place | UINT32_C(1) << 31;
	rules->tag = sml_jobs_random(jobs);
	job->report_tag = sml_jobs_random(jobs);
	rules->epoch = epoch;
	rules->lanes = (uint16_t)least_lanes(job);
	rules->rounds = sml_jobs_round(jobs);
	rules->omits = jobs->operations->omits;
	rules->floats = all_add_floats(job);
	if (!sml_job_form_children(job, text, sizeof(text))) {
		sml_job_fail(job, SML_ERROR_REFUSED, "%s", text);
		return false;
	}
	job->terms.shards = least_shards(job);
	rules->n_shards = (uint8_t)job->terms.shards;
	if (jobs->operations->ranks_have_slots && sml_job_meet(job) < 0) {
		sml_job_fail_for_now(job, "rank 0 has no memory for the job");
		return false;
	}
	sml_job_pool_draw(job, job->n_ranks);
	job->pool.adds_parts = adds_parts(job);
	return true;
}

static const char *why_no_room(int error)
{
	switch (error) {
	case -ENOSPC:
		return "the switch's pool has room for the job, but in pieces: wait for a job to "
		       "end, or start the switch with more --slots";
	case -EDQUOT:
		return "the pool of one of the job's leaves is full: wait for a job to end, or "
		       "start that leaf with more --slots";
	default:
		return "the switch has no memory for the job";
	}
}

void sml_job_admit(struct sml_job *job, uint32_t epoch)
{
	const uint32_t n_hosts = count_hosts(job), heartbeat_ms = sml_job_longest_heartbeat_ms(job);
	int rc;

	sml_assert(job->state <= SML_JOB_HANDING_OVER && job->resume.n_missing == 0);
	sml_assert(job->members.n == job->n_ranks && job->members.n_ready == 0);
	if (is_too_narrow(job) || !set_rules(job, epoch))
		return;
	rc = add_to_dataplane(job);
	if (rc == -EAGAIN)
		sml_job_keep_reserve(job);
	else if (rc < 0)
		sml_job_fail_for_now(job, why_no_room(rc));
	if (rc < 0)
		return;
	job->state = SML_JOB_PROBING;
	job->begun_ns = job->jobs->now_ns;
	if (!sml_job_give(job)) {
		sml_job_fail_for_now(job, "the switch has no memory for the job");
		return;
	}
	for (uint16_t rank = 0; rank < job->n_ranks; rank++)
		send_admitted(job, rank, n_hosts, heartbeat_ms);
}

/* With everything new, so that no packet of the first admission is taken for one of this. */
static void admit_apart(struct sml_job *job)
{
	sml_job_pool_end(job, job->end.how, job->end.planned);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		job->members.of[rank].ready = job->members.of[rank].shares_memory = false;
	job->members.n_ready = 0;
	job->hosts.apart = true;
	job->state = SML_JOB_JOINING;
	sml_job_keep_reserve(job);
	sml_job_admit(job, job->pool.rules.epoch + 1);
}

static void log_change(const struct sml_job *job)
{
	uint32_t joined, left;

	sml_job_count_changes(job, &joined, &left);
	sml_jobs_log(
		job->jobs, SML_JOBS_INFO,
		"job \"%s\" follows job \"%s\" (change %u of the members): %u rank%s, of which "
		"%u joined; %u left",
		job->name, job->elastic.follows, job->elastic.changes, job->n_ranks,
		sml_plural(job->n_ranks), joined, left);
}

bool sml_job_start(struct sml_job *job)
{
	SmlControl__Start message = SML_CONTROL__START__INIT;
	struct sml_jobs *jobs = job->jobs;
	int rc = jobs->operations->start_job
			 ? jobs->operations->start_job(jobs->dataplane, job->pool.rules.job)
			 : 0;

	if (rc < 0) {
		sml_job_fail(job, SML_ERROR_REFUSED, "%s kernel refuses the job's addresses: %s",
			     sml_jobs_is_leaf(jobs) ? "its" : "the switch's", strerror(-rc));
		return false;
	}
	job->state = SML_JOB_RUNNING;
	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].branch != NULL)
			(void)sml_link_send(
				jobs, &job->pool.children[i].branch->link,
				sml_envelope_of(job->pool.rules.job, START, start, &message));
	return true;
}

static void start(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	SmlControl__Start message = SML_CONTROL__START__INIT;

	if (sml_job_lacks_memory(job)) {
		admit_apart(job);
		return;
	}
	if (is_too_narrow(job))
		return;
	if (!sml_job_start(job))
		return;
	sml_kept_use(job);
	message.lanes = sml_least(least_lanes(job), job->pool.rules.lanes);
	job->pool.rules.lanes = (uint16_t)message.lanes;
	job->hosts.shares_memory = sml_job_shares_memory(job);
	message.share_memory = job->hosts.shares_memory;
	sml_job_send_all(job, sml_envelope(START, start, &message));
	if (jobs->config.debug >= SML_LOG_INFO && job->elastic.changes > 0 &&
	    job->pool.rules.epoch == 1)
		log_change(job);
	if (jobs->config.debug >= SML_LOG_TRACE)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "job \"%s\" runs: %u rank%s, epoch %u, %u slots of %u lanes",
			     job->name, job->n_ranks, sml_plural(job->n_ranks),
			     job->pool.rules.epoch,
			     (unsigned)(job->pool.rules.head_slots + job->pool.rules.data_slots),
			     job->pool.rules.lanes);
}

void sml_job_check_ready(struct sml_job *job)
{
	if (sml_jobs_is_leaf(job->jobs))
		sml_parent_check_ready(job);
	else if (job->state == SML_JOB_PROBING && job->members.n_ready == job->n_ranks &&
		 job->pool.n_leaves_ready == job->pool.n_leaves)
		start(job);
}
