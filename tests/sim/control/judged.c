/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a switch tells the processes that ask it who the members are: elastic.c has the rest.
 *
 * A switch may always give the question back to the program, and then the job goes on as well. So
 * nothing that the other checks look at would show that it did so without need: these do.
 */
#include <stdlib.h>
#include <string.h>

#include "job/join/join.h"
#include "sim/control/internal.h"

/* After a switch has sent a message, until the leaf below has passed it on. */
#define ON_THE_WAY_NS SECOND

static const struct members *last_run_of(const struct rank *rank)
{
	return sim_find_members(rank->control, rank->past.ran.tag);
}

static bool is_of_line(const struct rank *rank, unsigned line)
{
	const struct members *ran = last_run_of(rank);

	return ran != NULL && ran->line == line;
}

static const struct rank *rank_of(const struct server *server,
				  const struct sml_applicant *applicant)
{
	return &server->control->ranks[applicant->join->pid - SIM_FIRST_PID];
}

/*
 * The rank was admitted to another line's membership, which has begun. It need not have seen that
 * itself, and yet its switch rightly counts it among those.
 */
static bool began_elsewhere(const struct sml_applicant *applicant, const struct control *control,
			    unsigned line)
{
	const struct members *members = sim_find_members(control, applicant->tag);

	return members != NULL && members->started && members->line != line;
}

/* Is one of these processes there, which were to be in a later membership of this line? */
static bool has_successor(const struct server *server, unsigned line, uint32_t successors)
{
	for (const struct sml_applicant *a = server->jobs.applicants; a != NULL; a = a->next)
		if ((successors >> rank_of(server, a)->id & 1) &&
		    is_of_line(rank_of(server, a), line) &&
		    !began_elsewhere(a, server->control, line))
			return true;
	return false;
}

/* Has it begun, or may it still begin at a switch? */
static bool stands(const struct server *server, const struct members *members)
{
	uint64_t since_ns = server->control->has_tree ? ON_THE_WAY_NS : 0;

	return members->started || members->removed_ns >= server->control->now_ns - since_ns;
}

/*
 * Has the switch decided on the members after this membership of the rank? NULL: it had none.
 * Memberships that never ran could begin elsewhere if all of their members went there. The switch
 * knows that they did not while one who is in all of them is here.
 */
static bool is_over(const struct server *server, const struct members *was, const struct rank *rank)
{
	const struct control *control = server->control;
	uint32_t successors = UINT32_MAX;

	if (was == NULL)
		return false;
	for (const struct members *later = was + 1;
	     later < &control->memberships[control->n_memberships]; later++) {
		if (later->line != was->line || !later->by_switch)
			continue;
		if (stands(server, later))
			return true;
		successors &= later->bits;
	}
	return successors != UINT32_MAX && !(successors >> rank->id & 1) &&
	       !has_successor(server, was->line, successors);
}

static void check_too_late(const struct server *server, const struct rank *rank)
{
	const struct members *ran = last_run_of(rank);
	const struct members *admitted = sim_find_members(rank->control, rank->past.admitted.tag);

	/* The last that it was admitted to may have begun without its knowledge. */
	if (ran == NULL || is_over(server, ran, rank) || is_over(server, admitted, rank))
		return;
	sim_wrong(server->control,
		  "process %u is told that the members were decided on without it, and they were "
		  "not",
		  rank->id);
}

void sim_judged_failure(const struct server *server, const struct link *link, const char *text)
{
	const struct rank *rank = &server->control->ranks[link->rank];

	if (!server->control->switch_decides || link->child != NULL || !link->at_rank)
		return;
	if (strstr(text, "asked too late"))
		check_too_late(server, rank);
	else if (strstr(text, "formed no membership") && rank->past.ran.tag != 0)
		sim_wrong(server->control,
			  "process %u was rank %u of a job, and waits like one that is new",
			  rank->id, rank->past.ran.rank);
	/* A process asks on one connection at a time, and this end of it is open. */
	else if (strstr(text, "asked again, on another connection"))
		sim_wrong(server->control, "process %u is refused for the sake of what it gave up",
			  rank->id);
}

/* Others have gone on without it: it waits for ranks of a job that is over for them. */
static bool is_left_behind(const struct rank *rank)
{
	const struct control *control = rank->control;
	const struct members *ran = last_run_of(rank), *later = ran;

	while (ran != NULL && ++later < &control->memberships[control->n_memberships])
		if (later->line == ran->line && later->started)
			return true;
	return false;
}

static bool is_left_out(const struct rank *rank, const struct sml_applicant *applicant,
			const struct members *members)
{
	if (members->bits >> rank->id & 1 || !rank->asks || rank->state != BEGINNING)
		return false;
	return applicant->tag == 0 || (is_of_line(rank, members->line) && !is_left_behind(rank) &&
				       !began_elsewhere(applicant, rank->control, members->line));
}

void sim_judged_decided(const struct server *server, const struct members *members)
{
	for (const struct sml_applicant *a = server->jobs.applicants; a != NULL; a = a->next) {
		const struct rank *rank = rank_of(server, a);

		if (is_left_out(rank, a, members))
			sim_wrong(server->control,
				  "process %u waits, and job \"%s\" is formed without it", rank->id,
				  members->job);
	}
}

/* It has stood still for so long that a switch may have given it up. */
static bool was_frozen(const struct rank *rank)
{
	uint64_t from_ns = rank->freezes_ns, to_ns = rank->thaws_ns, now_ns = rank->control->now_ns;

	return to_ns != NEVER && now_ns > from_ns && to_ns > from_ns + rank->heartbeat_ms * MS / 2;
}

void sim_judged_death(const struct rank *rank, const char *text)
{
	struct control *control = rank->control;
	const char *pid = strstr(text, "pid ");
	unsigned long process;

	/* Of a rank that no switch has seen, the text has no process. */
	if (pid == NULL)
		return;
	process = strtoul(pid + strlen("pid "), NULL, 10) - SIM_FIRST_PID;
	if (process >= control->n_ranks ||
	    (control->ranks[process].state != DEAD && !was_frozen(&control->ranks[process])))
		sim_wrong(control, "process %u is told of a death that was none: %s", rank->id,
			  text);
}
