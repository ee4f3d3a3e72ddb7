/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signs of life on the data path. The control thread of a switch or of a rank may be busy while
 * results still flow; a rank whose contributions arrive is not dead.
 *
 *	heard -------- half a heartbeat ------------- heartbeat
 *	               look at the counters  look …   dead, unless one has moved
 *
 * The counters cost a system call with XDP, so only members that have been quiet for half their
 * heartbeat are checked.
 */
#include "job/states/states.h"

#include <stdio.h>

#include "base/least.h"
#include "control/text.h"

static uint64_t quiet_ns(const struct sml_member *member)
{
	return member->peer->heard_ns + member->heartbeat_ms * 500000ull;
}

static bool shows_liveness(const struct sml_job *job)
{
	return job->state >= SML_JOB_RUNNING && !job->jobs->operations->ranks_have_slots;
}

uint64_t sml_job_liveness_due(const struct sml_job *job)
{
	uint64_t first_ns = UINT64_MAX;

	if (!shows_liveness(job))
		return UINT64_MAX;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL)
			first_ns = sml_earlier(first_ns, quiet_ns(&job->members.of[rank]));
	/* A member that stays quiet is checked in every tick. */
	return sml_later(first_ns, job->liveness_ns + SML_TICK_NS);
}

/* Only since it has been quiet: contributions before its last message prove nothing more. */
static void look_at(struct sml_member *member, uint64_t contributions, uint64_t now_ns)
{
	bool moved = member->counted_at_ns == member->peer->heard_ns &&
		     contributions != member->contributions;

	member->contributions = contributions;
	if (moved)
		member->peer->heard_ns = now_ns;
	member->counted_at_ns = member->peer->heard_ns;
}

void sml_job_check_liveness(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	struct sml_job_counters counters = {0};

	if (jobs->now_ns < sml_job_liveness_due(job) || !shows_liveness(job))
		return;
	job->liveness_ns = jobs->now_ns;
	sml_job_pool_count(job, &counters);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL && sml_job_is_child(job, rank) &&
		    jobs->now_ns >= quiet_ns(&job->members.of[rank]))
			look_at(&job->members.of[rank],
				counters.contributions[job->members.of[rank].child] +
					counters.resends[job->members.of[rank].child],
				jobs->now_ns);
}

/*
 * ---- for which rank the others waited longest ----
 *
 * At the end of a job, its ranks are told, for the line that rank 0 logs. Slots know only how long
 * they waited for a host whose ranks share memory; its ranks report how long they waited for each
 * other there.
 */

/* A rank, the ranks of one host that contribute as one, or those behind a leaf. */
static void name_child(const struct sml_job *job, const struct sml_child *child, char *text,
		       size_t bytes)
{
	const struct sml_member *first = &job->members.of[child->first_rank];

	if (child->branch != NULL)
		snprintf(text, bytes, "the leaf %.80s", child->branch->name);
	else if (child->n_ranks > 1 || (job->hosts.shares_memory && first->n_of_host > 1))
		snprintf(text, bytes, "one of the %u ranks on %.64s", first->n_of_host,
			 first->host);
	else
		snprintf(text, bytes, "rank %u (%.64s)", child->first_rank, first->host);
}

uint64_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes)
{
	uint64_t most = 0, inside[SML_MAX_CHILDREN] = {0};
	struct sml_job_counters counters;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];
		uint64_t ms = member->traffic.waited_ms;

		inside[job->members.of[sml_job_sender(job, rank)].child] += ms;
		if (ms > most) {
			most = ms;
			snprintf(text, bytes, "rank %u (%.64s)", rank, member->host);
		}
	}
	sml_job_count(job, &counters);
	for (unsigned child = 0; child < job->pool.n_children; child++) {
		uint64_t ms = sml_job_counters_waited_ms(&counters, child);

		/* While others waited for it, its own ranks waited for one of them. */
		ms -= ms < inside[child] ? ms : inside[child];
		if (ms > most) {
			most = ms;
			name_child(job, &job->pool.children[child], text, bytes);
		}
	}
	return most;
}

/*
 * ---- ranks that died after they had asked to leave ----
 *
 * Such a rank had all its results, so the others can finish without it, unless they make a call
 * that it did not make. Then a slot would wait for it forever, so the slots are checked now and
 * then.
 *
 * The slot may be elsewhere: at a leaf, or in memory that ranks of a host share, and then nothing
 * comes to this switch before it is full. So leaves and hosts are asked, and their answers count at
 * the next look.
 *
 * The invariant: a rank is missed only if two looks in a row find it, because what hosts say may be
 * older than the rank's last contribution, but not older than the look before. What a leaf said
 * may be older, but a look also reads this switch's slots, and takes nothing from the leaf for
 * uses that they have reached.
 */

/* For each check, every thread of the dataplane walks its slots. */
#define LOOK_NS (SML_SECOND_NS / 2)

void sml_job_note_departed(struct sml_job *job, uint16_t rank, const char *why)
{
	sml_assert(job->members.of[rank].peer == NULL && job->members.of[rank].leaving);
	sml_assert(!sml_ranks_has(&job->departed.ranks, rank) && job->departed.n < job->n_ranks);
	sml_ranks_add(&job->departed.ranks, rank);
	job->departed.n++;
	sml_text_copy(job->departed.why, sizeof(job->departed.why), why);
	job->departed.looked_ns = job->jobs->now_ns;
}

uint64_t sml_job_departed_due(const struct sml_job *job)
{
	return job->departed.n ? job->departed.looked_ns + LOOK_NS : UINT64_MAX;
}

/* ---- slots here and at leaves: all ranks of a call may be behind one ---- */

static void look_at_slots(const struct sml_job *job, struct sml_ranks *missing)
{
	uint32_t n_missing[SML_MAX_WORLD] = {0};
	struct sml_waits waits;

	if (!sml_job_pool_look(job, &waits))
		return; /* the next look may find memory */
	sml_waits_count(&waits, n_missing);
	sml_waits_fini(&waits);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (n_missing[rank] > 0)
			sml_ranks_add(missing, rank);
}

/* ---- slots in shared memory ---- */

/* Of the ranks that share the memory, the first that is still here. */
static struct sml_member *find_witness(const struct sml_job *job, unsigned gone)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL && sml_job_is_one_host(job, gone, rank))
			return &job->members.of[rank];
	return NULL;
}

static void query_hosts(const struct sml_job *job)
{
	for (unsigned rank = sml_ranks_next(&job->departed.ranks, 0); rank < SML_MAX_WORLD;
	     rank = sml_ranks_next(&job->departed.ranks, rank + 1)) {
		struct sml_member *witness = find_witness(job, rank);

		if (witness != NULL)
			sml_job_query_member(job, witness);
	}
}

/* It can tell of its host only. */
static void add_host_set(struct sml_job *job, uint16_t from, const ProtobufCBinaryData *set)
{
	struct sml_ranks ranks = {{0}};

	if (!sml_ranks_unpack(&ranks, set->data, set->len, job->n_ranks))
		return;
	for (unsigned rank = sml_ranks_next(&ranks, 0); rank < job->n_ranks;
	     rank = sml_ranks_next(&ranks, rank + 1))
		if (sml_job_is_one_host(job, from, rank))
			sml_ranks_add(&job->departed.host_misses, rank);
}

void sml_job_note_host_stalls(struct sml_job *job, uint16_t from, const SmlControl__StallReport *in)
{
	if (!job->members.of[from].stalls_requested || in->n_sets > 2 * sml_job_pool_slots(job))
		return;
	job->members.of[from].stalls_requested = false;
	for (size_t i = 0; i < in->n_sets; i++)
		add_host_set(job, from, &in->sets[i]);
}

/* ---- all of them ---- */

/* The ranks that have died, and that a slot waits for now, as it did at the last look. */
static void find_missed(struct sml_job *job, struct sml_ranks *missed)
{
	struct sml_ranks now = job->departed.host_misses;

	look_at_slots(job, &now);
	sml_ranks_intersect(&now, &job->departed.ranks);
	*missed = now;
	sml_ranks_intersect(missed, &job->departed.missed);
	job->departed.missed = now;
	job->departed.host_misses = (struct sml_ranks){{0}};
}

bool sml_job_misses_departed(struct sml_job *job)
{
	struct sml_ranks missed;
	unsigned rank;

	if (job->jobs->now_ns < sml_job_departed_due(job))
		return false;
	job->departed.looked_ns = job->jobs->now_ns;
	find_missed(job, &missed);
	/* For the next look. */
	sml_job_pool_ask(job);
	query_hosts(job);
	rank = sml_ranks_next(&missed, 0);
	if (rank == SML_MAX_WORLD)
		return false;
	return sml_job_fail_without(
		job, (uint16_t)rank,
		"rank %u (host %s, pid %u) died after it had asked to leave, but other ranks are "
		"waiting for it in a call that it did not make: %s",
		rank, job->members.of[rank].host, job->members.of[rank].pid, job->departed.why);
}
