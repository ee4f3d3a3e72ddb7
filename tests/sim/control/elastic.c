/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose members change, as sml_reconfigure() does it: the caller decides. Processes die,
 * freeze, wake up in a job that has gone on without them, and come later. Switches die and come
 * back. When a process has lost its job, or wants to be in one, the program (this file) decides on
 * the next membership after a while: all processes that are alive, have something left to do and do
 * not stand still. Each of them moves there at its own time.
 *
 * Here a switch's slots believe a packet for what is in it, whatever connection its sender has:
 * as in reality, only the job's number, epoch, tag and the rank's number keep the packets of an old
 * membership out of the sums of a new one. In some worlds the switches are a tree: a leaf sends
 * what it believes on to its parent, in its own name. In some, processes have machines, and the
 * switch admits the ranks of a machine as one, unless they cannot prove that they share memory. The
 * memory itself is not simulated: each rank sends its own contribution.
 *
 * In some worlds, the switch decides instead, once a membership has begun: those who have lost
 * their job ask a switch, and so do new processes, which running ranks let in. The program decides
 * again if a switch says that it must. Such a decision begins a line, and those of switches
 * continue it.
 *
 * What must hold: every sum is that of all members of exactly one membership. Those who have left a
 * membership, in whatever way, differ by one call at most. Every process that does not die ends
 * well, so it is in a membership that makes all its calls. Where the switch decides: when a
 * membership has started, no earlier one of its line completes a sum; its members all learn the
 * same; and they are in their old order, with the new ones behind them. judged.c has what a switch
 * may tell those that ask.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/members/job.h"
#include "job/states/states.h"
#include "sim/control/internal.h"
#include "switchml.h"

/* A job at a switch. */
struct path {
	bool known, starts;
	uint32_t job, epoch;
	uint64_t tag, parent_tag;     /* of its packets, and of those that a leaf sends on */
	struct members *members;      /* at the root */
	uint32_t chunk, bits;	      /* of the call: the processes that have contributed */
	struct sml_ranks contributed; /* the ranks that have */
	unsigned n_contributed;
};

/* ---- the world ---- */

static void draw_switches(struct control *control)
{
	struct gen *gen = &control->gen;

	control->n_servers = control->n_addresses = (uint8_t)gen_range(gen, 1, 3);
	control->good_stays = true;
	control->good = &control->servers[0];
	for (uint8_t i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];

		server->control = control;
		server->index = i;
		server->delay_us = gen_chance(gen, 1, 4) ? gen_range(gen, 1000, 600000)
							 : gen_range(gen, 20, 3000);
		server->pauses_ns = server->resumes_ns = server->dies_ns = server->returns_ns =
			NEVER;
		server->last_words = server->last_starts = NEVER_32;
		server->freezes = gen_chance(gen, 1, 4);
		server->max_slots = 4096;
		for (unsigned r = 0; r < MAX_RANKS; r++)
			server->udp[r] = true;
		if (gen_chance(gen, 1, 3)) {
			server->dies_ns = gen_range(gen, 0, 40000) * MS;
			server->returns_ns = server->dies_ns + gen_range(gen, 0, 20000) * MS;
		}
		server->paths = calloc(SML_MAX_JOBS, sizeof(*server->paths));
		if (server->paths == NULL)
			abort();
		control->switches[i] = i;
		snprintf(control->names[i], sizeof(control->names[i]), "switch%u", i);
		control->name_list[i] = control->names[i];
	}
}

static void draw_process(struct control *control, uint16_t id, uint32_t wanted)
{
	struct rank *rank = &control->ranks[id];
	struct gen *gen = &control->gen;

	sim_crank_init(rank, control, id);
	rank->wanted = wanted;
	rank->comes_ns = gen_below(gen, gen_chance(gen, 1, 4) ? 30000 : 1000) * MS;
	rank->freezes = gen_chance(gen, 1, 3);
	if (id > 0 && gen_chance(gen, 1, 3))
		rank->dies_ns = gen_below(gen, 40000) * MS;
	if (gen_chance(gen, 1, 3)) {
		rank->freezes_ns = gen_below(gen, 30000) * MS;
		rank->thaws_ns = rank->freezes_ns + gen_range(gen, 100, 20000) * MS;
	}
}

/* A root, and leaves of it or of another leaf. Processes begin at any of them. */
static void plant_tree(struct control *control, struct gen *gen)
{
	control->has_tree = true;
	for (uint8_t i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];

		server->parent = i == 0 ? NULL : &control->servers[gen_below(gen, i)];
		/* Through three levels and back within a fraction of a heartbeat. */
		server->delay_us %= 100000;
	}
	for (uint16_t id = 0; id < control->n_ranks; id++)
		control->ranks[id].home = (uint8_t)gen_below(gen, control->n_addresses);
}

/* One to three of them. A process may have none that it can tell. */
static void draw_machines(struct control *control, struct gen *gen)
{
	uint32_t n = gen_range(gen, 1, 3);

	for (uint16_t id = 0; id < control->n_ranks; id++) {
		control->ranks[id].machine =
			(uint8_t)(gen_chance(gen, 1, 8) ? 0 : gen_range(gen, 1, n));
		control->ranks[id].shares_badly = gen_chance(gen, 1, 8);
	}
}

/*
 * From a generator of its own: everything else in these worlds is as it would be without, and the
 * other seeds have the worlds that they had before.
 */
static void draw_hosts(struct control *control, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x656c6173746963ull);
	if (seed % 3 == 1 && control->n_servers > 1)
		plant_tree(control, &gen);
	if (seed % 4 >= 2)
		draw_machines(control, &gen);
}

void sim_elastic_draw(struct control *control, uint64_t seed)
{
	uint32_t wanted = gen_range(&control->gen, 1, 60);

	control->is_elastic = true;
	control->switch_decides = seed % 5 >= 3;
	control->n_ranks = (uint16_t)gen_range(&control->gen, 1, MAX_PROCESSES);
	control->memberships = calloc(MAX_MEMBERSHIPS, sizeof(*control->memberships));
	if (control->memberships == NULL)
		abort();
	/* The first stands for none. */
	control->n_memberships = 1;
	draw_switches(control);
	for (uint16_t id = 0; id < control->n_ranks; id++)
		draw_process(control, id, wanted);
	draw_hosts(control, seed);
}

/* ---- who is in ---- */

bool sim_elastic_is_frozen(const struct rank *rank)
{
	uint64_t now_ns = rank->control->now_ns;

	return rank->thaws_ns != NEVER && now_ns >= rank->freezes_ns && now_ns < rank->thaws_ns;
}

static void let_program_decide(struct rank *rank)
{
	struct control *control = rank->control;

	/* It is in a later membership already, or about to be. */
	if (rank->moves_ns != NEVER || control->decides_ns != NEVER)
		return;
	control->decides_ns = control->now_ns + gen_range(&control->gen, 10, 3000) * MS;
}

void sim_elastic_wait_to_apply(struct rank *rank)
{
	struct control *control = rank->control;

	if (control->switch_decides && control->n_started > 0)
		rank->asks_ns = control->now_ns + gen_range(&control->gen, 1, 2000) * MS;
	else
		let_program_decide(rank);
}

/* Nobody is in a job that could let it in. */
static bool is_alone(const struct control *control)
{
	for (uint16_t id = 0; id < control->n_ranks; id++)
		if (control->ranks[id].state == RUNNING || control->ranks[id].state == SEEKING)
			return false;
	return true;
}

void sim_elastic_refused(struct rank *rank, int error, const char *text)
{
	/* The others have gone on without it, so it is new. */
	if (error == SML_ERROR_REFUSED && strstr(text, "too late"))
		rank->past.admitted = rank->past.ran = (struct sml_past_rank){.tag = 0};
	if (strstr(text, "your program must decide") ||
	    (error == SML_ERROR_TIMEOUT && is_alone(rank->control)))
		let_program_decide(rank);
	else
		sim_elastic_wait_to_apply(rank);
}

/* In sml_close(), which does not overlap sml_reconfigure(). */
static bool is_closing(const struct rank *rank)
{
	return rank->leaves && rank->state != PARTED;
}

static bool may_be_in(const struct rank *rank)
{
	return !sim_crank_is_over(rank) && sim_crank_has_come(rank) && !is_closing(rank) &&
	       !sim_elastic_is_frozen(rank);
}

void sim_elastic_move(struct rank *rank)
{
	const struct members *members = &rank->control->memberships[rank->membership_next];

	rank->moves_ns = NEVER;
	if (rank->state != PARTED && !is_closing(rank))
		sim_elastic_ends(rank);
	rank->membership_now = rank->membership_next;
	/* Otherwise the others wait for it in vain, and decide again. */
	if (!is_closing(rank))
		sim_crank_moves(rank, members);
}

void sim_elastic_decide(struct control *control)
{
	struct members *members = &control->memberships[control->n_memberships];

	control->decides_ns = NEVER;
	if (control->n_memberships == MAX_MEMBERSHIPS) {
		sim_wrong(control, "the members change again and again");
		return;
	}
	/* Not a name that a switch gives. */
	snprintf(members->job, sizeof(members->job), "membership #p%u", control->n_memberships);
	members->line = control->n_memberships;
	for (uint16_t id = 0; id < control->n_ranks; id++) {
		struct rank *rank = &control->ranks[id];

		/* What has no job, and stands still, asks when it goes on. */
		if (rank->state == PARTED && sim_elastic_is_frozen(rank) &&
		    rank->thaws_ns < control->decides_ns)
			control->decides_ns = rank->thaws_ns;
		if (!may_be_in(rank))
			continue;
		members->processes[members->n++] = id;
		members->bits |= 1u << id;
		rank->membership_next = control->n_memberships;
		rank->moves_ns = control->now_ns + gen_below(&control->gen, 1000) * MS;
	}
	if (members->n == 0)
		return;
	sim_say(control, "membership %u has the processes %02x", control->n_memberships,
		members->bits);
	control->n_memberships++;
}

void sim_elastic_ends(const struct rank *rank)
{
	struct members *members = &rank->control->memberships[rank->membership_now];

	/* It has not come, or it was closing when this one was decided on. */
	if (rank->job != members->job)
		return;
	if (members->ended == 0)
		members->fewest_calls = members->most_calls = rank->done;
	if (rank->done < members->fewest_calls)
		members->fewest_calls = rank->done;
	if (rank->done > members->most_calls)
		members->most_calls = rank->done;
	members->ended |= 1u << rank->id;
	if (members->most_calls > members->fewest_calls + 1)
		sim_wrong(rank->control,
			  "job \"%s\" has ended after %u calls for one member, and after %u for "
			  "another",
			  members->job, members->fewest_calls, members->most_calls);
}

/* ---- the slots ---- */

static struct path *path_of(const struct server *server, uint32_t job)
{
	return &server->paths[job % SML_MAX_JOBS];
}

/* By the secret that its ranks have in all epochs. */
static struct members *find_members(const struct control *control, uint64_t secret)
{
	for (unsigned i = 1; i < control->n_memberships; i++)
		if (control->memberships[i].secret == secret)
			return &control->memberships[i];
	return NULL;
}

static bool are_members(const struct members *members, const struct sml_job *job)
{
	for (uint16_t i = 0; i < job->n_ranks; i++)
		if (i >= members->n ||
		    job->members.of[i].pid != members->processes[i] + SIM_FIRST_PID)
			return false;
	return strcmp(members->job, job->name) == 0;
}

/* It begins by its name: the program has decided on it, or its switch has died before it ran. */
static struct members *find_named(const struct control *control, const struct sml_job *job)
{
	for (unsigned i = control->n_memberships - 1; i > 0; i--)
		if (are_members(&control->memberships[i], job))
			return &control->memberships[i];
	return NULL;
}

static void check_order(struct control *control, const struct members *before,
			const struct members *members, const struct sml_decision *decision)
{
	uint32_t last = 0;

	for (uint16_t i = 0; i < members->n; i++) {
		uint32_t old = decision->before[i];

		if (old != 0 && (i > 0 && decision->before[i - 1] == 0))
			sim_wrong(control, "a new process is before rank %u", i);
		if (old != 0 && (old <= last || old > before->n ||
				 before->processes[old - 1] != members->processes[i]))
			sim_wrong(control, "rank %u of job \"%s\" was another process", i,
				  members->job);
		last = old ? old : last;
	}
}

static struct members *note_decision(struct server *server, const struct sml_job *job)
{
	struct control *control = server->control;
	const struct members *before = sim_find_members(control, job->elastic.decision->after);
	struct members *members = &control->memberships[control->n_memberships];

	if (before == NULL || control->n_memberships + 1 == MAX_MEMBERSHIPS) {
		sim_wrong(control, before ? "the members change again and again"
					  : "the switch decides on ranks of an unknown job");
		return NULL;
	}
	snprintf(members->job, sizeof(members->job), "%s", job->name);
	members->line = before->line;
	members->by_switch = true;
	members->removed_ns = NEVER;
	members->n = job->n_ranks;
	for (uint16_t i = 0; i < job->n_ranks; i++) {
		members->processes[i] = (uint16_t)(job->members.of[i].pid - SIM_FIRST_PID);
		if (members->bits >> members->processes[i] & 1)
			sim_wrong(control, "process %u is twice in job \"%s\"",
				  members->processes[i], members->job);
		members->bits |= 1u << members->processes[i];
	}
	check_order(control, before, members, job->elastic.decision);
	sim_say(control, "the switch decides: job \"%s\" has the processes %02x", members->job,
		members->bits);
	control->n_memberships++;
	sim_judged_decided(server, members);
	return members;
}

void sim_elastic_learn(struct rank *rank, const struct sml_decided *decided, uint64_t secret)
{
	struct control *control = rank->control;
	const struct members *members = find_members(control, secret);

	if (members == NULL || strcmp(members->job, decided->job) != 0 ||
	    decided->world_size != members->n || decided->rank >= members->n ||
	    members->processes[decided->rank] != rank->id) {
		sim_wrong(control, "process %u is told that it is rank %u of %u in job \"%s\"",
			  rank->id, decided->rank, decided->world_size, decided->job);
		return;
	}
	sml_past_ranks_note_decision(&rank->past, decided);
	rank->number = decided->rank;
	rank->n = decided->world_size;
	rank->job = members->job;
	rank->membership_now = (unsigned)(members - control->memberships);
	/* Otherwise the program has decided, too, and it goes there next. */
	if (rank->moves_ns == NEVER)
		rank->membership_next = rank->membership_now;
}

/* The next membership has a place, so none is kept for the last. */
static void check_place(const struct server *server, const struct members *members)
{
	for (uint16_t i = 0; i < members->n; i++) {
		const struct rank *rank = &server->control->ranks[members->processes[i]];

		if (sml_kept_find(&server->jobs, rank->past.ran.tag) != NULL)
			sim_wrong(server->control,
				  "switch %u keeps a place for process %u, which is in job \"%s\"",
				  server->index, rank->id, members->job);
	}
}

void sim_elastic_add_job(struct server *server, const struct sml_pool_rules *rules)
{
	struct path *path = path_of(server, rules->job);
	const struct sml_job *job;
	struct members *members;

	*path = (struct path){.known = true,
			      .job = rules->job,
			      .epoch = rules->epoch,
			      .tag = rules->tag,
			      .parent_tag = rules->parent.tag,
			      .chunk = UINT32_MAX};
	if (server->parent)
		return;
	job = server->jobs.jobs[rules->job % SML_MAX_JOBS];
	members = find_members(server->control, job->membership);
	if (members == NULL)
		members = job->elastic.decision ? note_decision(server, job)
						: find_named(server->control, job);
	if (members == NULL)
		sim_wrong(server->control, "nobody has decided on job \"%s\"", job->name);
	else
		members->secret = job->membership;
	if (members)
		check_place(server, members);
	if (members)
		members->tags[members->n_tags++ % MAX_TAGS] = job->report_tag;
	path->members = members;
}

void sim_elastic_start_job(struct server *server, uint32_t job)
{
	struct path *path = path_of(server, job);

	path->starts = true;
	if (path->members == NULL)
		return;
	path->members->started = true;
	server->control->n_started++;
	server->control->last_started[path->members->line] = path->members;
}

void sim_elastic_remove_job(struct server *server, uint32_t job)
{
	struct path *path = path_of(server, job);

	if (path->job != job)
		return;
	path->known = path->starts = false;
	if (path->members)
		path->members->removed_ns = server->control->now_ns;
}

/* ---- results ---- */

/* Is it the root of the job, or a switch below it that has the job as well? */
static bool serves(const struct server *at, const struct server *root, const struct path *path)
{
	for (; at != root; at = at->parent)
		if (at->parent == NULL || !at->alive || !path_of(at, path->job)->starts ||
		    path_of(at, path->job)->job != path->job)
			return false;
	return true;
}

static bool is_member(const struct link *link, const struct server *at, uint32_t job)
{
	if (link->child != NULL || link->life != at->life || !link->at_switch)
		return false;
	return link->peer.job != NULL && link->peer.job->pool.rules.job == job;
}

/* To all ranks of the job, or to one of them; with the tag of the switch that they are at. */
static void send_result(struct server *root, const struct path *path, const struct link *only)
{
	struct control *control = root->control;

	for (uint32_t i = 0; i < control->n_links; i++) {
		struct link *link = &control->links[i];
		const struct server *at = &control->servers[link->sw];
		struct event *sent;

		if ((only && only != link) || !serves(at, root, path) ||
		    !is_member(link, at, path->job))
			continue;
		sent = sim_send_data(link, false, path->chunk, path->epoch);
		sent->mark = (struct data_mark){
			.job = path->job, .epoch = path->epoch, .tag = path_of(at, path->job)->tag};
		sent->sum = path->bits;
	}
}

/* ---- contributions ---- */

static bool is_of(const struct data_mark *mark, const struct path *path)
{
	return path->starts && mark->job == path->job && mark->epoch == path->epoch &&
	       mark->tag == path->tag;
}

/* A leaf believes it, and says so to its parent. */
static void send_on(struct server *leaf, const struct path *path, const struct event *event,
		    const struct link *origin)
{
	struct event *sent;

	if (leaf->up == NULL)
		return;
	sent = sim_send_data(leaf->up, true, event->chunk, event->epoch);
	sent->mark = event->mark;
	sent->mark.tag = path->parent_tag;
	sent->origin = origin;
}

static void begin_chunk(struct path *path, uint32_t chunk)
{
	path->chunk = chunk;
	path->contributed = (struct sml_ranks){{0}};
	path->n_contributed = path->bits = 0;
}

static void combine(struct server *root, struct path *path, const struct event *event,
		    const struct link *origin)
{
	bool full = path->n_contributed == path->members->n;

	if (event->mark.number >= path->members->n)
		return;
	if (path->chunk == UINT32_MAX || (full && event->chunk == path->chunk + 1))
		begin_chunk(path, event->chunk);
	else if (full && event->chunk == path->chunk)
		send_result(root, path, origin);
	if (event->chunk != path->chunk || sml_ranks_has(&path->contributed, event->mark.number))
		return;
	sml_ranks_add(&path->contributed, event->mark.number);
	path->n_contributed++;
	path->bits |= 1u << origin->rank;
	if (path->n_contributed < path->members->n)
		return;
	if (path->members != root->control->last_started[path->members->line])
		sim_wrong(root->control, "job \"%s\" computes, and so does job \"%s\"",
			  path->members->job,
			  root->control->last_started[path->members->line]->job);
	if (path->bits != path->members->bits)
		sim_wrong(root->control, "job \"%s\" has a sum of %02x, its members are %02x",
			  path->members->job, path->bits, path->members->bits);
	send_result(root, path, NULL);
}

void sim_elastic_contribute(struct server *server, const struct event *event)
{
	struct path *path = path_of(server, event->mark.job);
	const struct link *origin = event->origin ? event->origin : event->link;

	if (!is_of(&event->mark, path))
		return;
	if (server->parent)
		send_on(server, path, event, origin);
	else
		combine(server, path, event, origin);
}

bool sim_elastic_accepts(const struct rank *rank, const struct event *event)
{
	const struct members *members = &rank->control->memberships[rank->membership_now];

	if (event->mark.job != rank->mark.job || event->mark.tag != rank->mark.tag)
		return false;
	if (event->sum != members->bits)
		sim_wrong(rank->control, "rank %u takes a sum of %02x in job \"%s\" of %02x",
			  rank->id, event->sum, members->job, members->bits);
	return true;
}

/* ---- the end ---- */

void sim_elastic_check(struct control *control)
{
	struct sim_control_result *result = control->result;

	for (uint16_t id = 0; id < control->n_ranks; id++) {
		const struct rank *rank = &control->ranks[id];

		result->n_well += rank->state == WELL;
		result->n_dead += rank->state == DEAD;
		if (rank->state == WELL && rank->done != rank->wanted)
			sim_wrong(control, "rank %u left after %u of %u calls", id, rank->done,
				  rank->wanted);
	}
	result->n_memberships = control->n_memberships - 1;
}
