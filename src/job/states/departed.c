/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that died after they had asked to leave. Such a rank had all its results, so the others can
 * finish without it, unless they make a call that it did not make. Then a slot would wait for it
 * forever, so the slots are checked now and then.
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
#include "job/states/states.h"

#include <stdio.h>

#include "control/text.h"
#include "job/members/hosts.h"
#include "job/members/members.h"
#include "job/states/end.h"
#include "job/states/stall.h"

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

	if (!sml_job_pool_look(&job->pool, &waits))
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
	if (!job->members.of[from].stalls_requested ||
	    in->n_sets > 2 * sml_job_pool_slots(&job->pool))
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
	char text[2 * SML_SENTENCE_BYTES];
	struct sml_ranks missed;
	unsigned rank;

	if (job->jobs->now_ns < sml_job_departed_due(job))
		return false;
	job->departed.looked_ns = job->jobs->now_ns;
	find_missed(job, &missed);
	/* For the next look. */
	sml_job_pool_ask(&job->pool);
	query_hosts(job);
	rank = sml_ranks_next(&missed, 0);
	if (rank == SML_MAX_WORLD)
		return false;
	snprintf(text, sizeof(text),
		 "rank %u (host %s, pid %u) died after it had asked to leave, but other ranks are "
		 "waiting for it in a call that it did not make: %s",
		 rank, job->members.of[rank].host, job->members.of[rank].pid, job->departed.why);
	return sml_job_fail_without(job, (uint16_t)rank, text);
}
