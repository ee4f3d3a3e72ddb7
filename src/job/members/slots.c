/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the switch's slots are divided. A job that gathers holds the minimum. When all its ranks have
 * joined, it gets what it wants, or its share of the rest: jobs that still gather, and those whose
 * members change (states/end.c), have equal rights, and a little is kept for jobs that may
 * still come. Slots come back when a job ends; a job never gets more while it runs.
 *
 * The invariant: slots_in_use is the sum of what all jobs hold, and never above max_slots.
 */
#include "base/least.h"
#include "job/members/members.h"

#include <stdio.h>

#define MIN_HEAD_SLOTS 2
#define MIN_DATA_SLOTS 8
/*
 * What a job gets if it leaves the choice to the switch: enough slots to keep a fast path full
 * (10 Gbit/s at a round trip of 300 us), but no more, because all of them pass through the ranks'
 * and the switch's caches; narrow lanes that are added in 32 bits take twice the memory. But with
 * many stripes, each has at least two full super-packets: one arrives while the other leaves.
 */
#define CHOSEN_BYTES	  (384u << 10)
#define CHOSEN_DATA_SLOTS 256
#define CHOSEN_LEAST	  64
#define CHOSEN_HEAD_SLOTS 64
/* One of this many slots stays free for jobs that may still come. */
#define KEPT_PART 8

/* ---- how many a job needs, and wants ---- */

/* A shard without slots would have nothing to do. */
static struct sml_slot_counts fewest_for(uint32_t shards)
{
	return (struct sml_slot_counts){sml_most(MIN_HEAD_SLOTS, shards),
					sml_most(MIN_DATA_SLOTS, shards)};
}

static struct sml_slot_counts fewest(const struct sml_job *job)
{
	return fewest_for(job->terms.shards);
}

static uint32_t chosen_least(uint32_t packet_bytes)
{
	uint32_t packets =
		sml_least(SML_SUPER_PACKET_BYTES / packet_bytes, SML_SUPER_PACKET_PACKETS);

	return sml_most(2 * packets, CHOSEN_LEAST);
}

/* Before all ranks have joined, the lane count is unknown: assume the maximum. */
static uint32_t choose_data(uint32_t lanes, uint32_t stripes)
{
	uint32_t packet = SML_HEADER_BYTES + 4u * lanes;

	if (lanes == 0)
		return CHOSEN_DATA_SLOTS;
	return sml_least(
		sml_most(CHOSEN_BYTES / packet / (stripes ? stripes : 1), chosen_least(packet)),
		CHOSEN_DATA_SLOTS);
}

struct sml_slot_counts sml_slots_most(uint32_t lanes)
{
	return (struct sml_slot_counts){CHOSEN_HEAD_SLOTS, choose_data(lanes, 1)};
}

/* A job has no more than its packets can name and its ranks can keep. */
static struct sml_slot_counts wanted(const struct sml_job *job)
{
	struct sml_slot_counts least = fewest(job),
			       want = {CHOSEN_HEAD_SLOTS,
				       choose_data(job->pool.rules.lanes, job->terms.stripes)};

	if (job->terms.data_slots)
		want = (struct sml_slot_counts){job->terms.head_slots, job->terms.data_slots};
	want.head = sml_most(sml_least(want.head, SML_MAX_SLOTS / 4), least.head);
	want.data = sml_most(sml_least(want.data, SML_MAX_SLOTS - want.head), least.data);
	return want;
}

static uint32_t held(const struct sml_job *job)
{
	return sml_job_pool_slots(job);
}

static uint32_t lacked(const struct sml_job *job)
{
	struct sml_slot_counts want = wanted(job);

	return want.head + want.data > held(job) ? want.head + want.data - held(job) : 0;
}

/* ---- how many there are ---- */

static void describe_use(const struct sml_jobs *jobs, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (held(job) == 0 || used >= bytes)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, "%s\"%s\" %u", used ? ", " : "",
					 job->name, held(job));
	}
}

/* The slots that may be given out, after keeping the minimum for jobs that may still come. */
static uint32_t left(const struct sml_jobs *jobs)
{
	uint32_t unused = jobs->config.max_slots - jobs->slots_in_use;
	uint32_t to_come =
		sml_least(jobs->config.max_jobs, SML_MAX_JOBS) - jobs->n_jobs - jobs->n_kept;
	uint32_t part = jobs->config.max_slots / KEPT_PART;
	uint32_t kept = sml_least(to_come * (MIN_HEAD_SLOTS + MIN_DATA_SLOTS), part);

	/* Too few for any job. */
	if (kept < MIN_HEAD_SLOTS + MIN_DATA_SLOTS)
		kept = 0;
	return unused > kept ? unused - kept : 0;
}

/* How many more it may have: slots that others do not want, or an equal part. */
static uint32_t share(const struct sml_job *job)
{
	const struct sml_jobs *jobs = job->jobs;
	uint32_t n_waiting = 1 + jobs->n_kept, all = left(jobs);
	uint64_t others = jobs->kept_lack;

	for (const struct sml_job *other = NULL; (other = sml_jobs_next(jobs, other)) != NULL;) {
		if (other == job || other->state >= SML_JOB_PROBING)
			continue;
		n_waiting++;
		others += lacked(other);
	}
	return sml_most(all / n_waiting, all > others ? (uint32_t)(all - others) : 0);
}

/* ---- taking and giving ---- */

static void hold(struct sml_job *job, struct sml_slot_counts slots)
{
	job->jobs->slots_in_use -= held(job);
	job->pool.rules.head_slots = (uint16_t)slots.head;
	job->pool.rules.data_slots = (uint16_t)slots.data;
	job->jobs->slots_in_use += held(job);
	sml_assert(job->jobs->slots_in_use <= job->jobs->config.max_slots);
}

/* Take this many. If that is not all that it wants, at most a quarter is for the head stream. */
static struct sml_slot_counts divide(const struct sml_job *job, uint32_t n)
{
	struct sml_slot_counts least = fewest(job), want = wanted(job), got;

	if (n >= want.head + want.data)
		return want;
	got.head = sml_least(want.head, sml_most(n / 4, least.head));
	got.data = sml_most(sml_least(want.data, n - got.head), least.data);
	return got;
}

bool sml_job_reserve_slots(struct sml_job *job, char *text, size_t bytes)
{
	const struct sml_jobs *jobs = job->jobs;
	uint32_t unused = jobs->config.max_slots - jobs->slots_in_use;
	struct sml_slot_counts least = fewest(job);
	char use[SML_SENTENCE_BYTES / 2];

	if (unused < least.head + least.data) {
		describe_use(jobs, use, sizeof(use));
		snprintf(text, bytes,
			 "the switch's pool is full: job \"%s\" needs at least %u slots, %u of %u "
			 "are free (in use: %s); wait for a job to end, or start the switch with "
			 "more --slots",
			 job->name, least.head + least.data, unused, jobs->config.max_slots, use);
		return false;
	}
	hold(job, least);
	return true;
}

/* What the switches on the way to every rank have left; UINT32_MAX: there are none. */
static uint32_t room_at_leaves(const struct sml_job *job)
{
	uint32_t least = UINT32_MAX;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (sml_peer_via(job->members.of[rank].peer) != NULL)
			least = sml_least(
				least, sml_remote_slots(sml_remote_of(job->members.of[rank].peer)));
	return least;
}

bool sml_job_take_slots(struct sml_job *job)
{
	uint32_t n = held(job) + sml_least(lacked(job), share(job));
	uint32_t room = room_at_leaves(job);
	struct sml_slot_counts least = fewest(job);

	/* All switches of a tree have the same slots. */
	if (room < least.head + least.data)
		return false;
	hold(job, divide(job, sml_least(n, room)));
	return true;
}

bool sml_job_take_fewer_slots(struct sml_job *job)
{
	struct sml_slot_counts least = fewest(job);
	uint32_t n = held(job);

	if (n <= least.head + least.data)
		return false;
	hold(job, divide(job, sml_most(n / 2, least.head + least.data)));
	return true;
}

void sml_job_keep_reserve(struct sml_job *job)
{
	job->terms.shards = job->terms.most_shards;
	hold(job, fewest(job));
}

uint32_t sml_job_fewest_slots(const struct sml_job *job, uint32_t *more)
{
	struct sml_slot_counts least = fewest_for(job->terms.most_shards), want = wanted(job);
	uint32_t n = least.head + least.data;

	*more = want.head + want.data > n ? want.head + want.data - n : 0;
	return n;
}

void sml_job_give_back_slots(struct sml_job *job)
{
	hold(job, (struct sml_slot_counts){0, 0});
}
