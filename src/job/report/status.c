/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml status` shows. */
#include "job/report/status.h"
#include "job/join/join.h"

#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"

#define MAX_COUNTERS (SML_VERDICTS + 16)
/* Of a message of 1 MiB at most (control/stream.h), for the ranks of all jobs: 4,096 with ease. */
#define WORKERS_BYTES (768u << 10)

struct counters {
	SmlControl__Counter values[MAX_COUNTERS];
	SmlControl__Counter *list[MAX_COUNTERS];
	size_t n;
};

struct job_status {
	SmlControl__JobStatus status;
	SmlControl__WorkerStatus *workers, **list; /* of all its ranks */
	SmlControl__BranchStatus branches[SML_MAX_CHILDREN], *branch_list[SML_MAX_CHILDREN];
	struct counters counters;
	SmlControl__StripeStatus served[SML_MAX_STRIPES], *served_list[SML_MAX_STRIPES];
	char names[SML_MAX_STRIPES][96];
};

static void add_counter(struct counters *counters, const char *name, uint64_t value)
{
	SmlControl__Counter *counter = &counters->values[counters->n];

	sml_control__counter__init(counter);
	counter->name = (char *)(uintptr_t)name;
	counter->value = value;
	counters->list[counters->n++] = counter;
}

static void add_verdicts(struct counters *counters, const uint64_t *verdicts)
{
	for (unsigned i = 0; i < SML_VERDICTS; i++)
		add_counter(counters, sml_verdict_name((enum sml_verdict)i), verdicts[i]);
}

const char *sml_job_state_name(enum sml_job_state state)
{
	switch (state) {
	case SML_JOB_JOINING:
		return "joining";
	case SML_JOB_HANDING_OVER:
		return "handing-over";
	case SML_JOB_PROBING:
		return "probing";
	case SML_JOB_RUNNING:
		return "running";
	case SML_JOB_LEAVING:
		return "leaving";
	case SML_JOB_STATES:
		break;
	}
	return NULL;
}

/* False: no memory. */
static bool make_room(struct job_status *out, size_t n_ranks)
{
	out->workers = calloc(n_ranks + 1, sizeof(*out->workers));
	out->list = calloc(n_ranks + 1, sizeof(SmlControl__WorkerStatus *));
	return out->workers != NULL && out->list != NULL;
}

/* The next worker has been described. It is left out if there is no room in the message. */
static void add_worker(struct job_status *out, size_t *room)
{
	SmlControl__WorkerStatus *worker = &out->workers[out->status.n_workers];
	size_t bytes = sml_control__worker_status__get_packed_size(worker) + 4;

	if (bytes > *room || out->status.left_out > 0) {
		out->status.left_out++;
		return;
	}
	*room -= bytes;
	out->list[out->status.n_workers++] = worker;
}

/* A leaf that contributes to a job. It is left out if there is no room in the message. */
static void add_branch(struct job_status *out, const struct sml_child *leaf,
		       const struct sml_job_counters *counters, unsigned child, size_t *room)
{
	SmlControl__BranchStatus *status = &out->branches[out->status.n_branches];
	size_t bytes;

	sml_control__branch_status__init(status);
	status->leaf = (char *)(uintptr_t)leaf->branch->name;
	status->ranks = leaf->n_ranks;
	status->contributions = counters->contributions[child];
	status->resends = counters->resends[child];
	status->waited_ms = sml_job_counters_waited_ms(counters, child);
	bytes = sml_control__branch_status__get_packed_size(status) + 4;
	if (bytes > *room)
		return;
	*room -= bytes;
	out->branch_list[out->status.n_branches++] = status;
}

/* Where a peer is connected: at a leaf of this switch, or at a leaf of such a leaf. */
static void describe_connection(const struct sml_peer *peer, SmlControl__WorkerStatus *worker)
{
	const struct sml_branch *via = sml_peer_via(peer);

	if (via == NULL)
		return;
	worker->leaf = sml_remote_of(peer)->at;
	if (strcmp(via->name, worker->leaf) != 0)
		worker->via = (char *)(uintptr_t)via->name;
}

/* Ranks that share memory have contributed as often as their host. */
static void describe_contributions(const struct sml_job_pool *pool, unsigned child, unsigned rank,
				   const struct sml_job_counters *counters,
				   SmlControl__WorkerStatus *worker)
{
	worker->contributions = counters->contributions[child];
	worker->resends = counters->resends[child];
	/* For which of them the others waited is not known: it counts for the first. */
	if (pool->children[child].first_rank == rank)
		worker->waited_ms = sml_job_counters_waited_ms(counters, child);
}

static void describe_worker(const struct sml_job *job, uint16_t rank,
			    const struct sml_job_counters *counters, struct job_status *out)
{
	const struct sml_member *member = &job->members.of[rank];
	SmlControl__WorkerStatus *worker = &out->workers[out->status.n_workers];

	sml_control__worker_status__init(worker);
	worker->rank = rank;
	worker->host = (char *)(uintptr_t)member->host;
	worker->pid = member->pid;
	if (member->peer != NULL)
		worker->last_seen_ms = (job->jobs->now_ns - member->peer->heard_ns) / 1000000u;
	if (job->state >= SML_JOB_PROBING && job->pool.children[member->child].branch == NULL)
		describe_contributions(&job->pool, member->child, rank, counters, worker);
	describe_connection(member->peer, worker);
	if (job->state >= SML_JOB_PROBING)
		worker->sender = 1u + sml_job_sender(job, rank);
	if (member->traffic_told_ns != 0) {
		worker->traffic = (SmlControl__Traffic *)(uintptr_t)&member->traffic;
		worker->traffic_age_ms = (job->jobs->now_ns - member->traffic_told_ns) / 1000000u;
	}
	if (member->leaving)
		worker->state = (char *)(uintptr_t) "leaving";
	else if (member->peer == NULL)
		worker->state = (char *)(uintptr_t) "missing";
	else
		worker->state = (char *)(uintptr_t)(job->state == SML_JOB_RUNNING ? "running"
						    : member->ready		  ? "ready"
										  : "joined");
}

/* The one that is served here. */
static void describe_stripe(const struct sml_job_counters *counters, unsigned n_children,
			    uint32_t stripe, struct job_status *out)
{
	SmlControl__StripeStatus *served = &out->served[0];

	sml_control__stripe_status__init(served);
	served->stripe = stripe;
	for (unsigned child = 0; child < n_children; child++) {
		served->contributions += counters->contributions[child];
		served->resends += counters->resends[child];
	}
	served->duplicates = counters->verdicts[SML_VERDICT_DUPLICATE];
	served->completed = counters->verdicts[SML_VERDICT_COMPLETED];
	out->served_list[0] = served;
	out->status.n_served = 1;
}

/* The stripes that the ranks serve, as their last heartbeats reported. */
static void describe_ranks_stripes(const struct sml_job *job, struct job_status *out)
{
	uint32_t stripe;

	out->status.n_served = 0;
	for (uint32_t rank = 0; rank < job->terms.stripes; rank++) {
		SmlControl__StripeStatus *served = &out->served[rank];

		/* In shared memory, nobody serves anybody. */
		if (!sml_job_has_stripe(job, rank, &stripe))
			continue;
		*served = job->members.of[rank].served;
		if (served->base.descriptor == NULL)
			sml_control__stripe_status__init(served);
		served->stripe = stripe;
		sml_job_name_stripe(job, rank, out->names[rank], sizeof(out->names[rank]));
		served->where = out->names[rank];
		out->served_list[out->status.n_served++] = served;
	}
	out->status.shares_memory = job->hosts.shares_memory;
	if (job->hosts.shares_memory && out->status.n_served > 0)
		out->status.stripes = (uint32_t)out->status.n_served;
}

static void describe_leaves(const struct sml_job_pool *pool,
			    const struct sml_job_counters *counters, size_t *room,
			    struct job_status *out)
{
	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].branch != NULL && pool->children[i].has_job)
			add_branch(out, &pool->children[i], counters, i, room);
}

/* A leaf knows only of the ranks behind it. False: no memory. */
static bool describe_job(const struct sml_job *job, size_t *room, struct job_status *out)
{
	const struct sml_job_pool *pool = &job->pool;
	struct sml_job_counters counters;

	if (!make_room(out, pool->rules.is_leaf ? job->members.n : job->n_ranks))
		return false;
	sml_job_count(job, &counters);
	sml_control__job_status__init(&out->status);
	out->status.job = (char *)(uintptr_t)job->name;
	out->status.job_number = pool->rules.job;
	out->status.epoch = pool->rules.epoch;
	out->status.world_size = job->n_ranks;
	out->status.lanes = pool->rules.lanes;
	out->status.slots = sml_job_pool_slots(job);
	out->status.state = (char *)(uintptr_t)sml_job_state_name(job->state);
	out->status.follows = (char *)(uintptr_t)job->elastic.follows;
	out->status.changes = job->elastic.changes;
	sml_job_count_changes(job, &out->status.joined, &out->status.left);
	out->status.waiting = sml_applicants_count(job);
	out->status.workers = out->list;
	for (uint16_t rank = 0; rank < job->n_ranks; rank++) {
		if (pool->rules.is_leaf && job->members.of[rank].peer == NULL)
			continue;
		describe_worker(job, rank, &counters, out);
		add_worker(out, room);
	}
	/* The ranks come first in the message's room. */
	out->status.branches = out->branch_list;
	describe_leaves(pool, &counters, room, out);
	out->status.served = out->served_list;
	out->status.stripes = job->terms.stripes;
	describe_stripe(&counters, pool->n_children, job->terms.stripe, out);
	if (job->jobs->operations->ranks_have_slots)
		describe_ranks_stripes(job, out);
	add_verdicts(&out->counters, counters.verdicts);
	out->status.counters = out->counters.list;
	out->status.n_counters = out->counters.n;
	return true;
}

/* ---- in a tree ---- */

static void describe_branch(const struct sml_branch *branch, SmlControl__LeafStatus *leaf)
{
	const struct sml_jobs *jobs = branch->jobs;

	sml_control__leaf_status__init(leaf);
	leaf->name = (char *)(uintptr_t)branch->name;
	leaf->ranks = branch->link.ranks.n;
	leaf->slots = branch->slots;
	leaf->slots_in_use = branch->slots_in_use;
	leaf->last_seen_ms = (jobs->now_ns - branch->link.peer->heard_ns) / 1000000u;
}

static void describe_dataplane(struct sml_jobs *jobs, struct counters *out)
{
	struct sml_dataplane_counters counters = {.probes = 0};

	if (jobs->operations->counters)
		jobs->operations->counters(jobs->dataplane, &counters);
	add_verdicts(out, counters.verdicts);
	add_counter(out, "packets-received", counters.packets_received);
	add_counter(out, "packets-sent", counters.packets_sent);
	add_counter(out, "bytes-received", counters.bytes_received);
	add_counter(out, "bytes-sent", counters.bytes_sent);
	add_counter(out, "probes", counters.probes);
	add_counter(out, "socket-drops", counters.socket_drops);
	add_counter(out, "send-drops", counters.send_drops);
	add_counter(out, "connections-refused", jobs->n_refused);
	add_counter(out, "connections-evicted", jobs->n_evicted);
	add_counter(out, "bad-checksums", counters.bad_checksums);
}

/* Processes that wait, of those that a status names. */
#define WAITING_TOLD 64

/* A status, and the memory that it points into. */
struct whole {
	SmlControl__Status status;
	struct job_status *all;
	uint32_t n_all;
	SmlControl__JobStatus *list[SML_MAX_JOBS];
	struct counters counters;
	SmlControl__LeafStatus *leaves, **leaf_list;
	SmlControl__WaitingProcess waiting[WAITING_TOLD], *waiting_list[WAITING_TOLD];
};

static void free_whole(struct whole *whole)
{
	for (uint32_t i = 0; whole->all != NULL && i < whole->n_all; i++) {
		free(whole->all[i].workers);
		free(whole->all[i].list);
	}
	free(whole->all);
	free(whole->leaves);
	free(whole->leaf_list);
}

/* False: no memory. */
static bool describe_tree(const struct sml_jobs *jobs, struct whole *whole)
{
	SmlControl__Status *status = &whole->status;
	size_t n = 0;

	if (sml_jobs_is_leaf(jobs)) {
		status->parent = (char *)(uintptr_t)jobs->config.parent;
		status->attached = jobs->leaf.level > 0;
		status->level = jobs->leaf.level;
	}
	for (const struct sml_branch *b = jobs->branches; b != NULL; b = b->next)
		n++;
	whole->leaves = calloc(n + 1, sizeof(*whole->leaves));
	whole->leaf_list = calloc(n + 1, sizeof(SmlControl__LeafStatus *));
	if (whole->leaves == NULL || whole->leaf_list == NULL)
		return false;
	for (const struct sml_branch *b = jobs->branches; b != NULL; b = b->next) {
		whole->leaf_list[status->n_leaves] = &whole->leaves[status->n_leaves];
		describe_branch(b, whole->leaf_list[status->n_leaves++]);
	}
	status->leaves = whole->leaf_list;
	return true;
}

static void describe_waiting(const struct sml_jobs *jobs, struct whole *whole)
{
	size_t n = 0;

	for (const struct sml_applicant *a = jobs->applicants; a != NULL && n < WAITING_TOLD;
	     a = a->next) {
		SmlControl__WaitingProcess *out = whole->waiting_list[n] = &whole->waiting[n];

		sml_control__waiting_process__init(out);
		out->job = a->join->job;
		out->host = a->join->host;
		out->pid = a->join->pid;
		out->waiting_ms = (jobs->now_ns - a->came_ns) / 1000000u;
		out->joins = a->tag == 0;
		out->rank = a->rank;
		n++;
	}
	whole->status.waiting = whole->waiting_list;
	whole->status.n_waiting = n;
}

/* False: no memory. */
static bool describe_all(struct sml_jobs *jobs, struct whole *whole)
{
	SmlControl__Status *status = &whole->status;
	size_t room = WORKERS_BYTES;

	sml_control__status__init(status);
	whole->counters.n = 0;
	whole->leaves = NULL;
	whole->leaf_list = NULL;
	whole->n_all = jobs->n_jobs + 1;
	whole->all = calloc(whole->n_all, sizeof(*whole->all));
	if (whole->all == NULL || !describe_tree(jobs, whole))
		return false;
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (!describe_job(job, &room, &whole->all[status->n_jobs]))
			return false;
		whole->list[status->n_jobs] = &whole->all[status->n_jobs].status;
		status->n_jobs++;
	}
	describe_waiting(jobs, whole);
	describe_dataplane(jobs, &whole->counters);
	status->version = (char *)(uintptr_t)SML_VERSION_STRING;
	status->protocol = SML_CONTROL_PROTOCOL;
	status->dataplane = (char *)(uintptr_t)jobs->operations->name;
	status->slots = jobs->config.max_slots;
	status->slots_in_use = jobs->slots_in_use;
	status->max_jobs = jobs->config.max_jobs;
	status->kept_jobs = jobs->n_kept;
	status->data_port = jobs->config.data_port;
	status->uptime_ms = (jobs->now_ns - jobs->begun_ns) / 1000000u;
	status->jobs = whole->list;
	status->counters = whole->counters.list;
	status->n_counters = whole->counters.n;
	return true;
}

void sml_status_send(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct whole whole;

	if (!describe_all(jobs, &whole))
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, "the switch has no memory");
	else if (sml_peer_send(jobs, peer, sml_envelope(STATUS, status, &whole.status)) < 0)
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED,
				"the status is too long for one message, or there is no memory");
	free_whole(&whole);
}

uint8_t *sml_status_pack(struct sml_jobs *jobs, size_t *n)
{
	uint8_t *bytes = NULL;
	struct whole whole;

	if (describe_all(jobs, &whole)) {
		*n = sml_control__status__get_packed_size(&whole.status);
		bytes = malloc(*n + 1);
	}
	if (bytes != NULL)
		sml_control__status__pack(&whole.status, bytes);
	free_whole(&whole);
	return bytes;
}
