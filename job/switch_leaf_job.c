/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf: its slots, and the children that contribute to them. The root has said how many
 * slots of how many lanes there are, and which ranks come; this switch draws the tag and the
 * cookies of its own children, and nobody else knows them.
 *
 *	LeafJob --> probes to the parent --all answered, all leaves of this one ready--> LeafReady
 *	        --LeafStart--> runs --LeafEnd--> gone
 *
 * The invariant: a job here has slots in the dataplane, or waits for those of ended jobs, and a new
 * epoch is a new job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"
#include "control/text.h"
#include "job/switch_branches.h"

#define FIRST_PROBE_NS (50 * 1000000ull)
#define PROBE_NS       (250 * 1000000ull)
/* After the parent has answered to some width, so many rounds for a wider one. */
#define ROUNDS 6

struct sml_leaf_job *sml_leaf_job_find(const struct sml_jobs *jobs, uint32_t number)
{
	struct sml_leaf_job *job = jobs->leaf.jobs[number % SML_MAX_JOBS];

	return job != NULL && job->rules.job == number ? job : NULL;
}

bool sml_leaf_job_runs(const struct sml_leaf_job *job)
{
	return job->started;
}

static uint32_t held(const struct sml_leaf_job *job)
{
	return (uint32_t)job->rules.head_slots + job->rules.data_slots;
}

/* ---- the end ---- */

/* Its leaves end it, too. */
static void end_below(const struct sml_leaf_job *job)
{
	SmlControl__LeafEnd end = SML_CONTROL__LEAF_END__INIT;

	end.job_number = job->rules.job;
	for (unsigned i = 0; i < job->n_children; i++) {
		struct sml_branch *branch = job->children[i].branch;

		if (branch == NULL)
			continue;
		if (job->children[i].has_job)
			branch->slots_in_use -= held(job);
		(void)sml_branch_tell(branch, sml_envelope(LEAF_END, leaf_end, &end));
	}
}

static void let_passages_go(struct sml_leaf_job *job)
{
	const struct sml_table *passages = &job->jobs->leaf.passages;

	for (uint32_t i = 0; i < passages->room; i++) {
		struct sml_passage *passage = (struct sml_passage *)sml_table_at(passages, i);

		if (passage != NULL && passage->job == job)
			passage->job = NULL;
	}
}

void sml_leaf_job_end(struct sml_leaf_job *job)
{
	struct sml_jobs *jobs = job->jobs;

	end_below(job);
	let_passages_go(job);
	if (job->has_slots)
		jobs->operations->remove_job(jobs->dataplane, job->rules.job);
	jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] = NULL;
	jobs->slots_in_use -= held(job);
	jobs->n_jobs--;
	for (unsigned i = 0; i < job->n_children; i++)
		sml_waits_fini(&job->children[i].waits);
	free(job);
}

static void tell_failure(struct sml_jobs *jobs, uint32_t number, int error, const char *text,
			 bool again)
{
	SmlControl__LeafFailed message = SML_CONTROL__LEAF_FAILED__INIT;

	message.job_number = number;
	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.again = again;
	(void)sml_leaf_tell(jobs, sml_envelope(LEAF_FAILED, leaf_failed, &message));
}

void sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again)
{
	tell_failure(job->jobs, job->rules.job, error, text, again);
	sml_leaf_job_end(job);
}

void sml_leaf_job_forget(struct sml_passage *passage)
{
	passage->job = NULL;
}

void sml_leaf_job_forget_branch(struct sml_leaf_job *job, const struct sml_branch *branch)
{
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch == branch)
			job->children[i].branch = NULL;
}

/* ---- the beginning ---- */

/* Ranks behind one leaf contribute as one, and those of one host that are connected here. */
static bool is_behind(const struct sml_leaf_job *job, unsigned child,
		      const struct sml_passage *passage)
{
	return job->children[child].branch == passage->peer->via &&
	       (passage->peer->via != NULL ||
		job->children[child].first_of_host == passage->first_of_host);
}

static unsigned child_for(struct sml_leaf_job *job, const struct sml_passage *passage)
{
	unsigned i = 0;

	while (i < job->n_children && !is_behind(job, i, passage))
		i++;
	if (i == job->n_children && i < SML_MAX_CHILDREN) {
		job->children[i].branch = passage->peer->via;
		job->children[i].first_rank = passage->rank;
		job->children[i].first_of_host = passage->first_of_host;
		job->n_children++;
	}
	/* They come in any order. */
	if (i < SML_MAX_CHILDREN && passage->rank < job->children[i].first_rank)
		job->children[i].first_rank = passage->rank;
	return i;
}

/* False: there are too many. */
static bool form_children(struct sml_leaf_job *job, const SmlControl__LeafJob *in)
{
	const struct sml_table *passages = &job->jobs->leaf.passages;

	for (size_t i = 0; i < in->n_peers; i++) {
		struct sml_passage *passage =
			(struct sml_passage *)sml_table_find(passages, in->peers[i]);
		unsigned child;

		/* It has ended in the meantime, and the root hears of that next. */
		if (passage == NULL || passage->job != NULL)
			continue;
		passage->rank = (uint16_t)in->ranks[i];
		passage->first_of_host = (uint16_t)in->hosts[i];
		child = child_for(job, passage);
		if (child == SML_MAX_CHILDREN)
			return false;
		passage->job = job;
		passage->child = (uint8_t)child;
		job->children[child].n_ranks++;
		sml_ranks_add(&job->children[child].ranks, in->ranks[i]);
	}
	return job->n_children > 0;
}

static void draw_secrets(struct sml_leaf_job *job)
{
	job->rules.tag = sml_jobs_random(job->jobs);
	job->rules.n_ranks = job->n_children;
	for (unsigned i = 0; i < job->n_children; i++)
		job->rules.cookies[i] = sml_jobs_random(job->jobs);
}

/* lists: of in->n_peers each. */
static void list_peers(const struct sml_leaf_job *job, const struct sml_branch *branch,
		       uint32_t *lists, size_t n, SmlControl__LeafJob *out)
{
	const struct sml_table *passages = &job->jobs->leaf.passages;

	out->n_peers = out->n_ranks = out->n_hosts = 0;
	out->peers = lists;
	out->ranks = lists + n;
	out->hosts = lists + 2 * n;
	for (uint32_t i = 0; i < passages->room; i++) {
		const struct sml_passage *passage =
			(const struct sml_passage *)sml_table_at(passages, i);

		if (passage == NULL || passage->job != job || passage->peer->via != branch)
			continue;
		out->peers[out->n_peers++] = sml_relayed_of(passage->peer)->key.number;
		out->ranks[out->n_ranks++] = passage->rank;
		out->hosts[out->n_hosts++] = passage->first_of_host;
	}
}

/* The leaves of this leaf get the job, as this leaf got it. False: no memory. */
static bool spread(struct sml_leaf_job *job, const SmlControl__LeafJob *in)
{
	uint32_t *lists = calloc(3 * in->n_peers, sizeof(*lists));

	for (unsigned i = 0; lists != NULL && i < job->n_children; i++) {
		SmlControl__LeafJob out = *in;

		if (job->children[i].branch == NULL)
			continue;
		if (!sml_waits_init(&job->children[i].waits, held(job), job->world_size))
			break;
		job->children[i].has_job = true;
		job->children[i].branch->slots_in_use += held(job);
		list_peers(job, job->children[i].branch, lists, in->n_peers, &out);
		out.number = i;
		out.cookie = job->rules.cookies[i];
		out.tag = job->rules.tag;
		out.data_port = job->jobs->config.data_port;
		(void)sml_branch_tell(job->children[i].branch,
				      sml_envelope(LEAF_JOB, leaf_job, &out));
	}
	free(lists);
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL && job->children[i].waits.slots == NULL)
			return false;
	return lists != NULL;
}

static bool are_ranks(const SmlControl__LeafJob *in)
{
	if (in->world_size < 1 || in->world_size > SML_MAX_WORLD || in->n_peers != in->n_ranks ||
	    in->n_hosts != in->n_ranks || in->n_ranks < 1 || in->n_ranks > in->world_size)
		return false;
	for (size_t i = 0; i < in->n_ranks; i++)
		if (in->ranks[i] >= in->world_size || in->hosts[i] > in->ranks[i])
			return false;
	return true;
}

static bool is_possible(const SmlControl__LeafJob *in)
{
	return in->lanes > 0 && in->lanes <= SML_MAX_LANES && in->shards > 0 &&
	       in->shards <= SML_MAX_SHARDS && in->head_slots >= in->shards &&
	       in->data_slots >= in->shards && in->head_slots <= SML_MAX_SLOTS &&
	       in->data_slots <= SML_MAX_SLOTS - in->head_slots && in->number < SML_MAX_CHILDREN &&
	       in->data_port > 0 && in->data_port <= 65535 && are_ranks(in);
}

/* NULL: yes. */
static const char *lacks_room(const struct sml_jobs *jobs, const SmlControl__LeafJob *in,
			      char *text, size_t bytes)
{
	if (jobs->n_jobs >= jobs->config.max_jobs || jobs->n_jobs >= SML_MAX_JOBS)
		snprintf(text, bytes,
			 "it is at its limit of %u jobs: wait for one to end, or start it with "
			 "more --jobs",
			 jobs->n_jobs);
	else if (jobs->config.max_slots - jobs->slots_in_use < in->head_slots + in->data_slots)
		snprintf(text, bytes,
			 "its pool is full: the job needs %u slots, %u of %u are free; wait for a "
			 "job to end, or start it with more --slots",
			 in->head_slots + in->data_slots,
			 jobs->config.max_slots - jobs->slots_in_use, jobs->config.max_slots);
	else
		return NULL;
	return text;
}

static struct sml_leaf_job *new_job(struct sml_jobs *jobs, const SmlControl__LeafJob *in)
{
	struct sml_leaf_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	job->jobs = jobs;
	sml_text_copy(job->name, sizeof(job->name), in->job);
	job->world_size = in->world_size;
	job->data_port = (uint16_t)in->data_port;
	/* The number is the root's: all switches of the tree know the job by it. */
	job->rules = (struct sml_pool_rules){
		.job = in->job_number,
		.epoch = in->epoch,
		.head_slots = (uint16_t)in->head_slots,
		.data_slots = (uint16_t)in->data_slots,
		.lanes = (uint16_t)in->lanes,
		.n_shards = (uint8_t)in->shards,
		.is_leaf = true,
		.parent = {.cookie = in->cookie,
			   .tag = in->tag,
			   .job = in->job_number,
			   .rank = (uint8_t)in->number},
	};
	return job;
}

/*
 * 0, or a negative errno. The slots of ended jobs may be free only in a moment: then the job waits
 * for them, and everything else goes on.
 */
static int add_slots(struct sml_leaf_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	int rc = jobs->operations->add_job(jobs->dataplane, &job->rules);

	job->has_slots = rc == 0;
	job->tries_again_ns = jobs->now_ns + SML_TICK_NS;
	return rc == -EAGAIN ? 0 : rc;
}

static const char *no_slots(int rc)
{
	return rc == -ENOSPC ? "its pool has room for the job, but in pieces: wait for a job to "
			       "end, or start it with more --slots"
			     : "it has no memory for the job's slots";
}

/* Its slots, then its place. 0, or a negative errno. */
static int add_job(struct sml_leaf_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	int rc = add_slots(job);

	if (rc < 0)
		return rc;
	jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] = job;
	jobs->slots_in_use += held(job);
	jobs->n_jobs++;
	return 0;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__LeafJob *in)
{
	struct sml_leaf_job *job = jobs->leaf.jobs[in->job_number % SML_MAX_JOBS];
	char text[SML_SENTENCE_BYTES];
	int rc;

	/* Its place is free: the parent has ended the job before. */
	if (job != NULL)
		sml_leaf_job_end(job);
	if (!is_possible(in)) {
		tell_failure(jobs, in->job_number, SML_ERROR_PROTOCOL,
			     "the parent sends a job with impossible numbers", false);
		return;
	}
	if (lacks_room(jobs, in, text, sizeof(text)) != NULL) {
		tell_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, true);
		return;
	}
	job = new_job(jobs, in);
	if (job == NULL) {
		tell_failure(jobs, in->job_number, SML_ERROR_REFUSED, "it has no memory", true);
		return;
	}
	if (!form_children(job, in)) {
		let_passages_go(job);
		free(job);
		snprintf(text, sizeof(text),
			 "a switch takes at most %d ranks and leaves of a job, and needs one: the "
			 "leaf %s has more; start leaves of it with `switchml switch --parent %s', "
			 "and set SWITCHML_SWITCH to one of them for at most %d ranks each",
			 SML_MAX_CHILDREN, jobs->config.name, jobs->config.name, SML_MAX_CHILDREN);
		tell_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, false);
		return;
	}
	draw_secrets(job);
	rc = add_job(job);
	if (rc < 0) {
		let_passages_go(job);
		free(job);
		tell_failure(jobs, in->job_number, SML_ERROR_REFUSED, no_slots(rc), true);
		return;
	}
	job->begun_ns = jobs->now_ns;
	if (!spread(job, in))
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, "it has no memory", true);
	else
		sml_leaf_job_tick(job);
}

/* ---- what its ranks are told ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t count_children(const struct sml_jobs *jobs)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->leaf.jobs[i] != NULL)
			n += jobs->leaf.jobs[i]->n_children;
	return n;
}

void sml_leaf_job_admit(const struct sml_passage *passage, SmlControl__Admitted *admitted)
{
	const struct sml_leaf_job *job = passage->job;
	struct sml_jobs *jobs = job->jobs;
	const struct sml_pool_rules *rules = &job->rules;
	uint32_t packet = SML_HEADER_BYTES + 4u * rules->lanes;

	if (jobs->operations->window)
		admitted->window_packets = least(
			admitted->window_packets ? admitted->window_packets : UINT32_MAX,
			jobs->operations->window(jobs->dataplane, packet, count_children(jobs)));
	/* Nothing of the parent's reaches the leaves' ranks by multicast. */
	sml_control__group__free_unpacked(admitted->group, NULL);
	admitted->group = NULL;
	if (passage->peer->via != NULL)
		return;
	admitted->number = passage->child;
	admitted->cookie = rules->cookies[passage->child];
	admitted->tag = rules->tag;
	admitted->data_port = jobs->config.data_port;
	admitted->single_packets |= jobs->operations->wants_single_packets != NULL &&
				    jobs->operations->wants_single_packets(jobs->dataplane);
}

/* Of ranks that share memory, only the first sends packets; without memory, the job comes again. */
static bool sends_packets(const struct sml_passage *passage, const SmlControl__Ready *ready)
{
	return passage->job->children[passage->child].n_ranks == 1 ||
	       (ready->shares_memory && passage->rank == passage->first_of_host);
}

static const char *misses_address(const struct sml_leaf_job *job, uint8_t child)
{
	const struct sml_jobs *jobs = job->jobs;

	if (!job->has_slots)
		return "said that it was ready before its switch had slots for the job";
	return jobs->operations->misses_address
		       ? jobs->operations->misses_address(jobs->dataplane, job->rules.job, child)
		       : NULL;
}

bool sml_leaf_job_is_ready(struct sml_passage *passage, const SmlControl__Ready *ready)
{
	struct sml_leaf_job *job = passage->job;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (passage->peer->via == NULL && sends_packets(passage, ready))
		why = misses_address(job, passage->child);
	if (why == NULL)
		return true;
	snprintf(text, sizeof(text), "rank %u (host %s, pid %u) %s", passage->rank, passage->host,
		 passage->pid, why);
	sml_leaf_job_fail(job, SML_ERROR_PROTOCOL, text, false);
	return false;
}

/* ---- probes, and ready ---- */

static uint16_t proved(const struct sml_leaf_job *job)
{
	if (!job->has_slots)
		return 0;
	return job->jobs->operations->parent_lanes(job->jobs->dataplane, job->rules.job);
}

static void send_probes(struct sml_leaf_job *job)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	const struct sml_jobs *jobs = job->jobs;

	job->probed_ns = jobs->now_ns;
	jobs->operations->probe_parent(jobs->dataplane, job->rules.job, job->data_port,
				       job->rules.lanes);
	/* The first round asks only for the full width, which is enough for a healthy path. */
	for (unsigned i = 0; job->rounds > 0 && counts[i] != 0; i++)
		if (counts[i] < job->rules.lanes && counts[i] > proved(job))
			jobs->operations->probe_parent(jobs->dataplane, job->rules.job,
						       job->data_port, counts[i]);
	job->rounds++;
}

/* The lanes that all of its paths carry; 0: not known yet. */
static uint32_t agreed_lanes(const struct sml_leaf_job *job)
{
	uint32_t lanes = proved(job);

	if (lanes == 0 || (lanes < job->rules.lanes && job->answered_ns == 0) ||
	    (lanes < job->rules.lanes && job->jobs->now_ns < job->answered_ns + ROUNDS * PROBE_NS))
		return 0;
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL)
			continue;
		if (!job->children[i].ready)
			return 0;
		lanes = least(lanes, job->children[i].lanes);
	}
	return lanes;
}

/* False: the job has failed, and the parent knows why. */
static bool knows_parent(struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->jobs;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (jobs->operations->misses_parent)
		why = jobs->operations->misses_parent(jobs->dataplane, job->rules.job);
	if (why == NULL)
		return true;
	snprintf(text, sizeof(text), "its parent %s %s", jobs->config.parent, why);
	sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
	return false;
}

/* The job may fail. */
static void check_ready(struct sml_leaf_job *job)
{
	SmlControl__LeafReady message = SML_CONTROL__LEAF_READY__INIT;

	if (job->ready)
		return;
	if (job->answered_ns == 0 && proved(job) > 0)
		job->answered_ns = job->jobs->now_ns;
	message.lanes = agreed_lanes(job);
	if (message.lanes == 0 || !knows_parent(job))
		return;
	job->ready = true;
	message.job_number = job->rules.job;
	(void)sml_leaf_tell(job->jobs, sml_envelope(LEAF_READY, leaf_ready, &message));
}

static uint64_t next_probe(const struct sml_leaf_job *job)
{
	return job->rounds == 0	  ? 0
	       : job->rounds == 1 ? job->probed_ns + FIRST_PROBE_NS
				  : job->probed_ns + PROBE_NS;
}

static bool probes(const struct sml_leaf_job *job)
{
	return !job->ready && proved(job) < job->rules.lanes;
}

void sml_leaf_job_start(struct sml_jobs *jobs, uint32_t number)
{
	SmlControl__LeafStart start = SML_CONTROL__LEAF_START__INIT;
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, number);
	char text[SML_SENTENCE_BYTES];
	int rc;

	if (job == NULL || job->started || !job->has_slots)
		return;
	rc = jobs->operations->start_job(jobs->dataplane, number);
	if (rc < 0) {
		snprintf(text, sizeof(text), "its kernel refuses the job's addresses: %s",
			 strerror(-rc));
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
		return;
	}
	job->started = true;
	start.job_number = number;
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL)
			(void)sml_branch_tell(job->children[i].branch,
					      sml_envelope(LEAF_START, leaf_start, &start));
	if (jobs->config.debug >= 2)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "job \"%s\" runs: %u children of this leaf, epoch %u, %u slots",
			     job->name, job->n_children, job->rules.epoch, held(job));
}

/* ---- mismatches ---- */

static void tell_mismatch(struct sml_jobs *jobs, SmlControl__LeafMismatch *message)
{
	(void)sml_leaf_tell(jobs, sml_envelope(LEAF_MISMATCH, leaf_mismatch, message));
}

void sml_leaf_job_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch)
{
	const struct sml_leaf_job *job = sml_leaf_job_find(jobs, mismatch->job);
	SmlControl__LeafMismatch message = SML_CONTROL__LEAF_MISMATCH__INIT;
	uint32_t ranks[2];

	if (job == NULL || mismatch->ranks[0] >= job->n_children ||
	    mismatch->ranks[1] >= job->n_children)
		return;
	for (unsigned i = 0; i < 2; i++)
		ranks[i] = job->children[mismatch->ranks[i]].first_rank;
	message.job_number = mismatch->job;
	message.slot = mismatch->slot;
	message.use = mismatch->use;
	message.chunk = mismatch->chunk;
	message.ranks = ranks;
	message.n_ranks = 2;
	tell_mismatch(jobs, &message);
}

/* ---- what slots wait for ---- */

/* False: a leaf knows it, and has not had room to say it. */
static bool find_missing(const struct sml_leaf_job *job, const struct sml_slot_progress *slot,
			 struct sml_ranks *ranks)
{
	*ranks = (struct sml_ranks){{0}};
	for (unsigned i = 0; i < job->n_children; i++) {
		const struct sml_waits *waits = &job->children[i].waits;
		struct sml_ranks found = job->children[i].ranks;

		if (!(slot->missing >> i & 1))
			continue;
		if (!sml_waits_knows(waits, slot->slot) && waits->is_partial)
			return false;
		if (sml_waits_knows(waits, slot->slot) && waits->slots[slot->slot].use == slot->use)
			sml_waits_get(waits, slot->slot, &found);
		sml_ranks_unite(ranks, &found);
	}
	return true;
}

/* False: no memory. */
static bool look_at_slots(const struct sml_leaf_job *job, struct sml_waits *waits)
{
	const struct sml_jobs *jobs = job->jobs;
	struct sml_slot_progress *states = calloc(held(job), sizeof(*states));
	struct sml_ranks ranks;
	uint32_t n = 0;

	if (states == NULL || !sml_waits_init(waits, held(job), job->world_size)) {
		free(states);
		return false;
	}
	if (jobs->operations->slot_states && job->has_slots)
		n = jobs->operations->slot_states(jobs->dataplane, job->rules.job, states,
						  held(job));
	for (uint32_t i = 0; i < n; i++) {
		if (find_missing(job, &states[i], &ranks))
			sml_waits_note(waits, states[i].slot, states[i].use, &ranks);
		else
			waits->is_partial = true;
	}
	free(states);
	return true;
}

static void send_slots(struct sml_leaf_job *job)
{
	SmlControl__LeafSlots message = SML_CONTROL__LEAF_SLOTS__INIT;
	struct sml_waits_message packed = {.is_partial = true};
	struct sml_waits waits;

	job->slots_asked = false;
	message.job_number = job->rules.job;
	if (look_at_slots(job, &waits)) {
		if (!sml_waits_pack(&waits, SML_WAITS_ROOM, &packed))
			packed.is_partial = true;
		sml_waits_fini(&waits);
	}
	message.slots = packed.slots;
	message.n_slots = packed.n_slots;
	message.sets = packed.sets;
	message.n_sets = packed.n_sets;
	message.partial = packed.is_partial;
	(void)sml_leaf_tell(job->jobs, sml_envelope(LEAF_SLOTS, leaf_slots, &message));
	sml_waits_free(&packed);
}

/* What the others said long ago would blame the wrong ranks. */
static void send_without_silent(struct sml_leaf_job *job)
{
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL || job->children[i].answered)
			continue;
		sml_waits_clear(&job->children[i].waits);
		job->children[i].waits.is_partial = true;
	}
	send_slots(job);
}

/* The leaves of this leaf first. */
void sml_leaf_job_tell_slots(struct sml_jobs *jobs, uint32_t number)
{
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, number);
	SmlControl__LeafStalls request = SML_CONTROL__LEAF_STALLS__INIT;
	bool waits = false;

	if (job == NULL)
		return;
	request.job_number = number;
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL)
			continue;
		waits = true;
		job->children[i].answered = false;
		(void)sml_branch_tell(job->children[i].branch,
				      sml_envelope(LEAF_STALLS, leaf_stalls, &request));
	}
	job->slots_asked = waits;
	job->slots_asked_ns = jobs->now_ns;
	if (!waits)
		send_slots(job);
}

static void take_slots(struct sml_leaf_job *job, unsigned child, const SmlControl__LeafSlots *in)
{
	if (!job->slots_asked || in->n_slots > held(job))
		return;
	job->children[child].answered = true;
	sml_waits_unpack(&job->children[child].waits, in->slots, in->n_slots, in->sets, in->n_sets,
			 &job->children[child].ranks);
	job->children[child].waits.is_partial |= in->partial;
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL && !job->children[i].answered)
			return;
	send_slots(job);
}

/* ---- time ---- */

static uint64_t answers_due(const struct sml_leaf_job *job)
{
	return job->slots_asked ? job->slots_asked_ns + sml_answer_ns(job->jobs) : UINT64_MAX;
}

uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job)
{
	uint64_t due_ns = !job->has_slots ? job->tries_again_ns
			  : probes(job)	  ? next_probe(job)
					  : UINT64_MAX;

	return answers_due(job) < due_ns ? answers_due(job) : due_ns;
}

void sml_leaf_job_tick(struct sml_leaf_job *job)
{
	int rc = 0;

	if (job->jobs->now_ns >= answers_due(job))
		send_without_silent(job);
	if (!job->has_slots && job->jobs->now_ns >= job->tries_again_ns)
		rc = add_slots(job);
	if (rc < 0) {
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, no_slots(rc), true);
		return;
	}
	if (!job->has_slots)
		return;
	if (probes(job) && job->jobs->now_ns >= next_probe(job))
		send_probes(job);
	check_ready(job);
}

/* ---- what the leaves of this leaf say ---- */

/* It speaks only for its own ranks. */
static void pass_mismatch(struct sml_leaf_job *job, unsigned child, SmlControl__LeafMismatch *in)
{
	const struct sml_ranks *ranks = &job->children[child].ranks;

	if (in->n_ranks == 2 && in->ranks[0] < job->world_size && in->ranks[1] < job->world_size &&
	    sml_ranks_has(ranks, in->ranks[0]) && sml_ranks_has(ranks, in->ranks[1]))
		tell_mismatch(job->jobs, in);
}

static void take_failure(struct sml_leaf_job *job, const struct sml_branch *branch,
			 const SmlControl__LeafFailed *in)
{
	char reason[SML_REASON_BYTES], text[SML_SENTENCE_BYTES];

	sml_text_copy(reason, sizeof(reason), in->text);
	snprintf(text, sizeof(text), "its leaf %s: %s", branch->name, reason);
	sml_leaf_job_fail(job, in->error, text, in->again);
}

void sml_leaf_job_branch_message(struct sml_jobs *jobs, struct sml_branch *branch,
				 const SmlControl__Envelope *message)
{
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, message->leaf_ready->job_number);
	unsigned child = 0;

	while (job != NULL && child < job->n_children && job->children[child].branch != branch)
		child++;
	if (job == NULL || child == job->n_children)
		return;
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_LEAF_READY:
		job->children[child].lanes = least(message->leaf_ready->lanes, job->rules.lanes);
		job->children[child].ready = job->children[child].lanes > 0;
		check_ready(job);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED:
		take_failure(job, branch, message->leaf_failed);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_MISMATCH:
		pass_mismatch(job, child, message->leaf_mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS:
		take_slots(job, child, message->leaf_slots);
		break;
	default:
		break;
	}
}
