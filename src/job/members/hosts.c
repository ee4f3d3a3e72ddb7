/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one job on one machine, which may share memory. Here they only learn of each other: what
 * a Join says about its machine is compared, and never understood. The ranks themselves prove that
 * they share memory (lib/host/meet.h), and say so in Ready.
 *
 * Where the switch has the slots, the ranks of a machine are admitted as one child, whose packets
 * the lowest rank sends. If they cannot prove that they share memory, here or at another switch of
 * the job, the job is admitted once more, with every rank as a child.
 *
 * Where the ranks have the slots, each is told the first rank of every machine. If all say that
 * they share memory, or are alone, they make the same of their one admission: a stripe on every
 * machine.
 */
#include "job/members/members.h"

#include <string.h>

bool sml_job_is_machine(const SmlControl__Join *join)
{
	if (join->machine.len == 0)
		return join->host_token.len == 0;
	return join->machine.len <= SML_MACHINE_BYTES && join->host_token.len == SML_HOST_TOKEN;
}

void sml_job_note_machine(struct sml_member *member, const SmlControl__Join *join)
{
	if (join->machine.len == 0)
		return;
	memcpy(member->machine, join->machine.data, join->machine.len);
	member->machine_bytes = (uint8_t)join->machine.len;
	memcpy(member->host_token, join->host_token.data, SML_HOST_TOKEN);
}

static bool is_same_machine(const struct sml_member *a, const struct sml_member *b)
{
	return a->machine_bytes > 0 && a->machine_bytes == b->machine_bytes &&
	       memcmp(a->machine, b->machine, a->machine_bytes) == 0;
}

/* To the same switch. */
static bool are_connected_alike(const struct sml_peer *a, const struct sml_peer *b)
{
	return a->via == b->via &&
	       (a->via == NULL || sml_remote_of(a)->home == sml_remote_of(b)->home);
}

void sml_job_find_hosts(struct sml_job *job)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members.of[rank];
		unsigned first = rank;

		/* The first of each host is its own first. */
		for (unsigned other = 0; member->machine_bytes > 0 && other < rank; other++) {
			const struct sml_member *with = &job->members.of[other];

			if (with->first_of_host == other && is_same_machine(with, member) &&
			    are_connected_alike(with->peer, member->peer)) {
				first = other;
				break;
			}
		}
		member->first_of_host = (uint16_t)first;
		member->n_of_host = 0;
		job->members.of[first].n_of_host++;
		/* More than the shared memory has places for. */
		if (job->members.of[first].n_of_host > SML_MAX_CHILDREN)
			job->hosts.apart = true;
	}
}

bool sml_job_is_grouped(const struct sml_job *job, unsigned rank)
{
	return !job->hosts.apart && !job->jobs->operations->ranks_have_slots &&
	       job->members.of[job->members.of[rank].first_of_host].n_of_host > 1;
}

bool sml_job_is_one_host(const struct sml_job *job, unsigned a, unsigned b)
{
	return sml_job_is_grouped(job, a) &&
	       job->members.of[a].first_of_host == job->members.of[b].first_of_host;
}

unsigned sml_job_sender(const struct sml_job *job, unsigned rank)
{
	return sml_job_is_grouped(job, rank) || job->hosts.shares_memory
		       ? job->members.of[rank].first_of_host
		       : rank;
}

bool sml_job_lacks_memory(const struct sml_job *job)
{
	bool grouped = false, lacks = false;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];

		grouped |= sml_job_is_grouped(job, rank);
		/* Alone at this switch, too: the job's other switches decide by the same words. */
		lacks |= member->machine_bytes > 0 && !member->shares_memory;
	}
	return grouped && lacks;
}

void sml_job_describe_hosts(const struct sml_job *job, uint16_t to, struct sml_host_list *list,
			    SmlControl__Admitted *admitted)
{
	SmlControl__HostGroup *group = &list->group;

	sml_control__host_group__init(group);
	group->ranks = list->ranks;
	group->tokens = list->tokens;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];

		if (job->hosts.apart || member->first_of_host != job->members.of[to].first_of_host)
			continue;
		/* See sml_job_find_hosts(). */
		sml_assert(group->n_ranks < SML_MAX_CHILDREN);
		list->ranks[group->n_ranks++] = rank;
		list->tokens[group->n_tokens++] = (ProtobufCBinaryData){
			SML_HOST_TOKEN, (uint8_t *)(uintptr_t)member->host_token};
	}
	if (group->n_ranks > 1)
		admitted->host_group = group;
}

static bool is_one_host(const struct sml_job *job)
{
	return job->members.of[0].n_of_host == job->n_ranks;
}

bool sml_job_has_hosts(const struct sml_job *job)
{
	if (is_one_host(job))
		return false;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].n_of_host > 1)
			return true;
	return false;
}

bool sml_job_shares_memory(const struct sml_job *job)
{
	if (!job->jobs->operations->ranks_have_slots || job->n_ranks == 1)
		return false;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (!job->members.of[rank].shares_memory)
			return false;
	return is_one_host(job) || (sml_job_has_hosts(job) && job->terms.stripes == job->n_ranks);
}

bool sml_job_has_stripe(const struct sml_job *job, unsigned rank, uint32_t *stripe)
{
	if (!job->jobs->operations->ranks_have_slots || rank >= job->terms.stripes)
		return false;
	*stripe = rank;
	if (!job->hosts.shares_memory)
		return true;
	*stripe = 0;
	for (unsigned other = 0; other < rank; other++)
		*stripe += job->members.of[other].first_of_host == other;
	return !is_one_host(job) && job->members.of[rank].first_of_host == rank;
}
