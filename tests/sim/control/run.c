/* SPDX-License-Identifier: BSD-3-Clause */
/* The main loop of the simulated control plane, and what must hold: see control.h. */
#include "sim/control/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/control/internal.h"
#include "switchml.h"

#define MOST_EVENTS 2000000u
#define WIDE_EVENTS 20000000u
#define END_NS	    (20 * TIMEOUT_NS)
/* Two rounds of five seconds at a switch, and the network delays. */
#define LEAVER_NEEDS_NS (12 * SECOND)

/* ---- the loop ---- */

static SmlControl__Envelope *unpack(const struct event *event)
{
	SmlControl__Envelope *message = NULL;

	if (event->bytes)
		message = sml_control__envelope__unpack(NULL, event->n, event->bytes);
	return message;
}

/* The switch, at either end, that the event comes to; NULL: a rank. */
static const struct server *switch_of(const struct control *control, const struct event *event)
{
	if (event->kind == EVENT_TO_SWITCH || event->kind == EVENT_END_AT_SWITCH ||
	    event->kind == EVENT_CONTRIBUTION)
		return &control->servers[event->link->sw];
	return event->link->child;
}

/* A paused switch or rank finds it when it goes on. Its kernel still accepts connections. */
static bool is_put_off(struct control *control, const struct event *event)
{
	const struct server *server = switch_of(control, event);
	const struct rank *rank = &control->ranks[event->link->rank];

	if (server == NULL && sim_elastic_is_frozen(rank)) {
		sim_plan_again(control, rank->thaws_ns, event);
		return true;
	}
	if (server == NULL || !sim_server_is_paused(server))
		return false;
	sim_plan_again(control, server->resumes_ns, event);
	return true;
}

static void happens(struct control *control, const struct event *event)
{
	struct link *link = event->link;
	struct server *server = &control->servers[link->sw];
	struct rank *rank = &control->ranks[link->rank];
	SmlControl__Envelope *message = unpack(event);

	if (event->kind == EVENT_CONNECTED && server->alive && server->life == link->life) {
		link->at_switch = true;
		link->peer.heard_ns = control->now_ns;
	} else if (event->kind == EVENT_CONNECTED) {
		return; /* it died meanwhile, so the repeated connection attempt fails */
	}
	if (event->kind == EVENT_TO_SWITCH || event->kind == EVENT_END_AT_SWITCH ||
	    event->kind == EVENT_CONTRIBUTION) {
		if (sim_link_works(link))
			sim_server_event(server, event, message);
	} else if (link->child) {
		if (link->at_rank && !link->cut)
			sim_leaf_event(link->child, event, message);
	} else if (link->at_rank && !link->cut) {
		sim_crank_event(rank, event, message);
		if (!sim_crank_is_over(rank))
			sim_crank_wake(rank);
	}
	if (message)
		sml_control__envelope__free_unpacked(message, NULL);
}

/*
 * In a wide world, only what has happened to a switch or a rank moves its deadline. In the others,
 * a rank may have a switch in its process, and all are few.
 */
static void look_at_deadlines(struct control *control, const struct event *event)
{
	bool all = !control->is_wide || event == NULL;
	const struct link *link = event ? event->link : NULL;

	for (unsigned i = 0; i < control->n_servers; i++)
		if (all || link->sw == i || link->child == &control->servers[i])
			control->servers_due[i] = sim_server_deadline(&control->servers[i]);
	for (unsigned r = all ? 0 : link->rank; r < (all ? control->n_ranks : link->rank + 1u); r++)
		control->ranks_due[r] = sim_crank_deadline(&control->ranks[r]);
}

static uint64_t next_due(const struct control *control)
{
	uint64_t earliest_ns = control->decides_ns;

	for (unsigned i = 0; i < control->n_servers; i++)
		if (control->servers_due[i] < earliest_ns)
			earliest_ns = control->servers_due[i];
	for (unsigned r = 0; r < control->n_ranks; r++)
		if (control->ranks_due[r] < earliest_ns)
			earliest_ns = control->ranks_due[r];
	return earliest_ns;
}

static void wake_due(struct control *control)
{
	if (control->now_ns >= control->decides_ns)
		sim_elastic_decide(control);
	for (unsigned i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];

		if (!control->is_wide)
			control->servers_due[i] = sim_server_deadline(server);
		if (control->servers_due[i] > control->now_ns)
			continue;
		sim_server_wake(server);
		control->servers_due[i] = sim_server_deadline(server);
	}
	for (unsigned r = 0; r < control->n_ranks; r++) {
		struct rank *rank = &control->ranks[r];

		if (!control->is_wide)
			control->ranks_due[r] = sim_crank_deadline(rank);
		if (control->ranks_due[r] > control->now_ns)
			continue;
		sim_crank_wake(rank);
		control->ranks_due[r] = sim_crank_deadline(rank);
	}
	if (!control->is_wide)
		look_at_deadlines(control, NULL);
}

static bool all_are_over(const struct control *control)
{
	for (unsigned r = 0; r < control->n_ranks; r++)
		if (!sim_crank_is_over(&control->ranks[r]))
			return false;
	return true;
}

static void loop(struct control *control)
{
	uint64_t most = control->is_wide ? WIDE_EVENTS : MOST_EVENTS;
	struct event event;

	look_at_deadlines(control, NULL);
	while (control->result->passed && !all_are_over(control)) {
		uint64_t due_ns = next_due(control);

		control->result->events++;
		if (sim_next_event_ns(control) <= due_ns && sim_next_event(control, &event)) {
			control->now_ns =
				event.at_ns > control->now_ns ? event.at_ns : control->now_ns;
			if (is_put_off(control, &event))
				continue;
			happens(control, &event);
			look_at_deadlines(control, &event);
			free(event.bytes);
		} else if (due_ns != NEVER) {
			control->now_ns = due_ns > control->now_ns ? due_ns : control->now_ns;
			wake_due(control);
		} else {
			sim_wrong(control, "nothing is planned, and not all ranks have ended");
		}
		if (control->now_ns > END_NS || control->result->events > most)
			sim_wrong(control, "it does not end");
	}
}

/* ---- what must hold ---- */

static bool reaches(const struct control *control, const struct server *server, unsigned rank)
{
	for (unsigned i = 0; i < control->n_addresses; i++)
		if (sim_server_at(control, &control->ranks[rank], i) == server &&
		    sim_reach(server, i, rank) == ANSWERS)
			return true;
	return false;
}

static bool is_reached(const struct control *control, const struct server *server)
{
	for (unsigned r = 0; r < control->n_ranks; r++)
		if (reaches(control, server, r))
			return true;
	return false;
}

/* Others may wait for it where it cannot come: all ranks are told what one of them has found. */
static bool is_cut_off(const struct control *control, unsigned who)
{
	/* All switches of a tree are one. */
	for (unsigned i = 0; !control->has_tree && i < control->n_servers; i++)
		if (is_reached(control, &control->servers[i]) &&
		    !reaches(control, &control->servers[i], who))
			return true;
	return false;
}

/*
 * "Ranks 3 and 4 died with the switch": they may also have failed before, or be cut off. That they
 * failed afterwards, because they were told the same, is no excuse where they could have come. If
 * no switch need be there for all ranks, some may wait where others cannot be served.
 */
static bool may_miss(const struct control *control, const struct rank *rank, unsigned who)
{
	bool had_ended = who >= 64 || !(rank->living >> who & 1);

	return had_ended || is_cut_off(control, who) ||
	       (!control->good_stays && control->ranks[who].state == FAILED);
}

/* The error says "rank 3 (host …) died": did rank 3 die? */
static bool may_blame(const struct control *control, const struct rank *rank, unsigned who)
{
	if (who >= control->n_ranks)
		return false;
	return control->ranks[who].state == DEAD ||
	       (strstr(rank->text, "died with the switch") && may_miss(control, rank, who));
}

static bool blames_the_living(const struct control *control, const struct rank *rank)
{
	const char *name = strstr(rank->text, "rank"), *died = strstr(rank->text, " died");
	unsigned n = 0;

	if (rank->error != SML_ERROR_RANK_DIED)
		return false;
	for (; name != NULL && name < died; name++) {
		char *end;

		if (*name < '0' || *name > '9')
			continue;
		if (!may_blame(control, rank, (unsigned)strtoul(name, &end, 10)))
			return true;
		name = end;
		n++;
		if (strncmp(name, " (", 2) == 0)
			break;
	}
	return n == 0;
}

/*
 * When the first rank with all of its results stopped looking for the others, or could
 * rightly have stopped.
 */
static uint64_t leavers_gave_up(const struct control *control)
{
	uint64_t first_ns = NEVER, gave_up_ns;

	for (unsigned r = 0; r < control->n_ranks; r++) {
		const struct rank *rank = &control->ranks[r];

		if (!rank->leaves || rank->gave_up_ns == 0)
			continue;
		gave_up_ns = rank->lost_ns + SML_LEAVE_WAIT_NS / 2;
		if (rank->gave_up_ns > gave_up_ns)
			gave_up_ns = rank->gave_up_ns;
		if (gave_up_ns < first_ns)
			first_ns = gave_up_ns;
	}
	return first_ns;
}

/*
 * Those that leave can do so without the others once all of them have looked long enough. With
 * another heartbeat, a rank begins to look at another time. 0: all begin together.
 */
static uint64_t leavers_are_ready(const struct control *control)
{
	uint64_t last_ns = 0;
	bool differ = false;

	for (unsigned r = 0; r < control->n_ranks; r++) {
		const struct rank *rank = &control->ranks[r];

		differ |= rank->heartbeat_ms != control->ranks[0].heartbeat_ms;
		if (rank->leaves && rank->lost_ns > last_ns)
			last_ns = rank->lost_ns;
	}
	return differ ? last_ns + SML_LEAVE_WAIT_NS / 2 : 0;
}

/*
 * Is a switch up that can serve all ranks, and does it stay up? A rank that leaves looks for
 * a limited time only, so a switch that came back at the end of that time does not count, nor one
 * that another job fills.
 */
static bool could_be_served(const struct control *control)
{
	uint64_t gave_up_ns = leavers_gave_up(control);
	const struct server *good = control->good;
	uint64_t useful_ns;

	if (good == NULL || control->rank_died)
		return false;
	useful_ns = good->roomy_ns > good->begun_ns ? good->roomy_ns : good->begun_ns;
	/* If it has been paused: the ranks find each other again only after that. */
	if (good->resumes_ns != NEVER && good->resumes_ns > useful_ns)
		useful_ns = good->resumes_ns;
	if (leavers_are_ready(control) > useful_ns)
		useful_ns = leavers_are_ready(control);
	return gave_up_ns == NEVER ||
	       (good->alive && !sim_pool_is_full(good) && gave_up_ns > useful_ns + LEAVER_NEEDS_NS);
}

static void check(struct control *control)
{
	for (unsigned r = 0; r < control->n_ranks; r++) {
		const struct rank *rank = &control->ranks[r];
		struct sim_control_result *result = control->result;

		result->n_well += rank->state == WELL;
		result->n_dead += rank->state == DEAD;
		result->n_errors += rank->state == FAILED;
		if (rank->state == WELL && rank->done != rank->wanted)
			sim_wrong(control, "rank %u left after %u of %u calls", r, rank->done,
				  rank->wanted);
		if (rank->state != FAILED)
			continue;
		if (blames_the_living(control, rank))
			sim_wrong(control, "rank %u blames a rank that lives: %s", r, rank->text);
		/*
		 * A rank that died before all had joined may be started again. The others wait
		 * for it.
		 */
		if (rank->error == SML_ERROR_TIMEOUT && (rank->begun || !control->rank_died))
			sim_wrong(control, "rank %u hangs until its deadline: %s", r, rank->text);
		if (rank->error == SML_ERROR_UNREACHABLE && rank->begun && !rank->leaves &&
		    control->good_stays && control->rank_died)
			sim_wrong(control, "rank %u waits for a dead one until its deadline: %s", r,
				  rank->text);
		/* It waited for those that cannot come, and did not wait on. */
		if (could_be_served(control) && rank->error != SML_ERROR_RANK_DIED)
			sim_wrong(control, "rank %u fails, and a switch could serve it: %s", r,
				  rank->text);
		for (unsigned a = 0; rank->begun && rank->error == SML_ERROR_UNREACHABLE &&
				     a < control->n_addresses;
		     a++)
			if (!strstr(rank->text, control->names[a]))
				sim_wrong(control, "rank %u does not say why of %s: %s", r,
					  control->names[a], rank->text);
	}
}

static struct control *new_control(bool wide)
{
	struct control *control = calloc(1, sizeof(*control));
	size_t n_servers = wide ? WIDE_SWITCHES : MAX_SWITCHES;
	size_t n_ranks = wide ? SML_MAX_WORLD : MAX_PROCESSES;

	if (control == NULL)
		abort();
	control->decides_ns = NEVER;
	control->max_links = wide ? WIDE_LINKS : MAX_LINKS;
	control->servers = calloc(n_servers, sizeof(*control->servers));
	control->servers_due = calloc(n_servers, sizeof(*control->servers_due));
	control->ranks = calloc(n_ranks, sizeof(*control->ranks));
	control->ranks_due = calloc(n_ranks, sizeof(*control->ranks_due));
	control->links = calloc(control->max_links, sizeof(*control->links));
	if (!control->servers || !control->servers_due || !control->ranks || !control->ranks_due ||
	    !control->links)
		abort();
	return control;
}

static void free_control(struct control *control)
{
	for (unsigned i = 0; i < MAX_SWITCHES; i++)
		free(control->servers[i].paths);
	free(control->memberships);
	free(control->servers);
	free(control->servers_due);
	free(control->ranks);
	free(control->ranks_due);
	free(control->links);
	free(control->events);
	free(control);
}

void sim_control_run(uint64_t seed, enum sim_control_kind kind, bool trace,
		     struct sim_control_result *result)
{
	const bool wide = kind == SIM_CONTROL_WIDE;
	struct control *control = new_control(wide);
	struct event event;

	*result = (struct sim_control_result){.passed = true, .hash = 0xcbf29ce484222325ull};
	control->trace = trace;
	control->result = result;
	gen_from_seed(&control->gen, seed ^ 0x636f6e74726f6cull);
	sim_draw(control, kind, seed);
	for (unsigned i = 0; i < control->n_servers && !control->embedded; i++)
		sim_server_begin(&control->servers[i]);
	loop(control);
	if (control->is_elastic)
		sim_elastic_check(control);
	else
		check(control);
	result->virtual_ns = control->now_ns;
	for (unsigned r = 0; r < control->n_ranks; r++)
		if (!sim_crank_is_over(&control->ranks[r]))
			sim_crank_dies(&control->ranks[r]);
	for (unsigned i = 0; i < control->n_servers; i++)
		if (control->servers[i].alive)
			sim_server_dies(&control->servers[i]);
	while (sim_next_event(control, &event))
		free(event.bytes);
	free_control(control);
}
