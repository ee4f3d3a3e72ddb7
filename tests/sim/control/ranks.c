/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks: job/rank/search.h and job/rank/session.h, driven as by the library, with abstract calls.
 */
#include <stdio.h>
#include <string.h>

#include "sim/control/internal.h"
#include "switchml.h"

#define PATIENCE_NS (3 * SECOND) /* time between probes */
#define AGAIN_NS    (200 * MS)	 /* time until a contribution is sent again */
#define CALL_NS	    TIMEOUT_NS
/* While it begins: how long all addresses are tried, and the pause between two tries. */
#define EARLY_NS (10 * SECOND)
#define PAUSE_NS (100 * MS)

/* ---- the end ---- */

void sim_crank_init(struct rank *rank, struct control *control, uint16_t id)
{
	*rank = (struct rank){.control = control,
			      .id = id,
			      .state = COMING,
			      .heartbeat_ms = HEARTBEAT_MS,
			      .longest_ms = HEARTBEAT_MS,
			      .taken = -1,
			      .dies_ns = NEVER,
			      .ends_by_ns = NEVER,
			      .next_ns = NEVER,
			      .moves_ns = NEVER,
			      .asks_ns = NEVER,
			      .freezes_ns = NEVER,
			      .thaws_ns = NEVER};
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		rank->attempts[i].tick_ns = rank->attempts[i].probed_ns = NEVER;
}

bool sim_crank_is_over(const struct rank *rank)
{
	return rank->state >= WELL;
}

bool sim_crank_has_come(const struct rank *rank)
{
	return rank->state != COMING || rank->early_ns != 0;
}

/* As the library: a rank that lives does not only close its connections. */
static void send_aborts(struct rank *rank, int error, const char *text, unsigned kinds)
{
	for (int i = 0; i < MAX_ADDRESSES; i++) {
		struct attempt *attempt = &rank->attempts[i];

		if (!attempt->talks)
			continue;
		if (i == rank->taken || rank->state == SEEKING ||
		    attempt->session.phase > SML_SESSION_JOINING)
			sml_session_abort(&attempt->session, error, text, kinds);
		else
			(void)sml_session_give_up(&attempt->session);
		if (rank->control->is_elastic)
			(void)sml_session_go_on(&attempt->session);
	}
}

static void give_up_switches(struct rank *rank)
{
	for (int i = 0; i < MAX_ADDRESSES; i++)
		if (rank->attempts[i].talks)
			(void)sml_session_give_up(&rank->attempts[i].session);
	sim_attempts_drop(rank);
}

/* As bits: who may not be blamed for having died. In wide worlds, of the first ranks only. */
static uint64_t living(const struct control *control)
{
	uint64_t bits = 0;

	for (unsigned r = 0; r < control->n_ranks && r < 64; r++)
		if (!sim_crank_is_over(&control->ranks[r]))
			bits |= (uint64_t)1 << r;
	return bits;
}

static void rank_fails(struct rank *rank, int error, const char *text)
{
	if (rank->control->is_elastic)
		sim_elastic_ends(rank);
	if (rank->control->is_elastic && error == SML_ERROR_RANK_DIED)
		sim_judged_death(rank, text);
	send_aborts(rank, error, text, 0);
	rank->error = error;
	rank->living = living(rank->control);
	rank->state = rank->control->is_elastic ? PARTED : FAILED;
	rank->ends_by_ns = rank->next_ns = NEVER;
	rank->gave_up_ns = rank->control->now_ns;
	snprintf(rank->text, sizeof(rank->text), "%s", text);
	sim_say(rank->control, "rank %u fails (%d): %s", rank->id, error, text);
	sim_attempts_drop(rank);
	if (rank->state == PARTED && rank->asks)
		sim_elastic_refused(rank, error, text);
	else if (rank->state == PARTED)
		sim_elastic_wait_to_apply(rank);
}

void sim_crank_dies(struct rank *rank)
{
	struct control *control = rank->control;

	sim_say(control, "rank %u %s", rank->id, rank->freezes ? "freezes" : "dies");
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		if (rank->attempts[i].link && rank->freezes)
			rank->attempts[i].link->at_rank = false;
	if (control->is_elastic && rank->state != PARTED && sim_crank_has_come(rank))
		sim_elastic_ends(rank);
	sim_attempts_drop(rank);
	rank->state = DEAD;
	control->rank_died = true;
	if (control->embedded && rank->id == 0 && control->servers[0].alive)
		sim_server_dies(&control->servers[0]);
	if (control->embedded && rank->id == 0)
		control->servers[0].returns_ns = NEVER;
}

/* ---- looking for a switch ---- */

static void look_for_switch(struct rank *rank, bool resumes, unsigned first)
{
	struct control *control = rank->control;
	struct sml_search_config config = {
		.names = control->name_list,
		.n_addresses = control->n_addresses,
		.first = first,
		.kind = resumes		    ? SML_SEARCH_NEXT
			: control->embedded ? SML_SEARCH_RANK_0
					    : SML_SEARCH_SWITCH,
		.absence_ns = rank->leaves ? 0 : sml_search_absence_ns(rank->longest_ms),
		.deadline_ns =
			resumes ? control->now_ns + (rank->leaves ? SML_LEAVE_WAIT_NS : TIMEOUT_NS)
				: rank->begins_by_ns,
	};

	_Static_assert(sizeof(control->switches) <= sizeof(config.switches), "room for all");
	memcpy(config.switches, control->switches, sizeof(control->switches));
	sml_search_init(&rank->search, &config, control->now_ns);
	rank->state = resumes ? SEEKING : BEGINNING;
	rank->ends_by_ns = config.deadline_ns;
}

static void begin_job(struct rank *rank, uint8_t first)
{
	rank->begins_by_ns =
		rank->control->now_ns + (rank->control->is_elastic ? MOVE_MS * MS : TIMEOUT_NS);
	rank->early_ns = 0;
	rank->n_lost = 0;
	rank->may_have_begun = false;
	rank->next = first;
	look_for_switch(rank, false, rank->next);
}

/* As lib/context/begin.c: is it the switch that has failed, and does this rank try the next one? */
static bool begins_anew(struct rank *rank, unsigned address, int error, bool connected)
{
	struct control *control = rank->control;
	uint64_t now_ns = control->now_ns;

	if (rank->early_ns == 0 &&
	    (error == SML_ERROR_SWITCH_DIED ||
	     (error == SML_ERROR_UNREACHABLE && connected && control->n_addresses > 1)))
		rank->early_ns = now_ns;
	if ((error != SML_ERROR_SWITCH_DIED && error != SML_ERROR_UNREACHABLE) ||
	    rank->early_ns == 0 || now_ns >= rank->begins_by_ns ||
	    (!rank->may_have_begun && now_ns >= rank->early_ns + EARLY_NS))
		return false;
	give_up_switches(rank);
	rank->state = COMING;
	rank->next = (uint8_t)sml_search_begin_after(address, control->n_addresses, ++rank->n_lost);
	rank->comes_ns = now_ns + PAUSE_NS;
	return true;
}

static void reject_address(struct rank *rank, unsigned address, int error, const char *reason)
{
	struct control *control = rank->control;

	sim_say(control, "rank %u: %s: %s", rank->id, control->names[address], reason);
	if (rank->state == BEGINNING && rank->search.outcome == SML_SEARCH_FOUND) {
		if (begins_anew(rank, address, error, true))
			return;
		rank_fails(rank, error, reason);
		return;
	}
	sml_search_failed(&rank->search, address, error, reason, control->now_ns);
	sim_attempt_drop(&rank->attempts[address]);
	if (rank->taken == (int)address)
		rank->taken = -1;
}

static void begin_probe(struct rank *rank, unsigned address)
{
	struct control *control = rank->control;
	struct attempt *attempt = &rank->attempts[address];
	const struct sml_admission *admission = &attempt->session.admission;

	if (rank->state == BEGINNING)
		rank->may_have_begun &= sml_admission_resumes(admission);
	if (admission->decided)
		sim_elastic_learn(rank, admission->decided, admission->membership);
	sim_crank_note_rank(rank, admission->report_tag);
	rank->epoch = admission->epoch;
	rank->tag = admission->report_tag;
	rank->membership = admission->membership;
	rank->longest_ms = admission->heartbeat_ms;
	rank->mark = (struct data_mark){.job = admission->job_number,
					.epoch = admission->epoch,
					.tag = admission->tag,
					.number = rank->number};
	if (rank->state == SEEKING && admission->lanes != LANES) {
		reject_address(rank, address, SML_ERROR_PROTOCOL, "its path is too narrow");
		return;
	}
	attempt->probed_ns = sim_has_udp(&control->servers[attempt->link->sw], rank->id)
				     ? control->now_ns + gen_below(&control->gen, 50) * MS
				     : control->now_ns + PATIENCE_NS;
}

/* With the ranks of its machine, if it has been told of any. */
static bool shares_memory(struct rank *rank, const struct attempt *attempt)
{
	if (attempt->session.admission.host_ranks.n == 0)
		return false;
	return !rank->shares_badly || gen_chance(&rank->control->gen, 1, 2);
}

static void end_of_probe(struct rank *rank, unsigned address)
{
	struct attempt *attempt = &rank->attempts[address];

	attempt->probed_ns = NEVER;
	rank->may_have_begun |= rank->state == BEGINNING;
	if (sim_has_udp(&rank->control->servers[attempt->link->sw], rank->id))
		sml_session_ready(
			&attempt->session,
			&(struct sml_readiness){.lanes = attempt->session.admission.lanes,
						.shares_memory = shares_memory(rank, attempt)});
	else
		reject_address(rank, address, SML_ERROR_UNREACHABLE, "its UDP does not answer");
}

static void rank_starts(struct rank *rank, unsigned address)
{
	struct attempt *attempt = &rank->attempts[address];
	const struct sml_ticket_map *map = &attempt->session.admission.maps[SML_HEAD];

	if (rank->state == SEEKING) {
		sml_search_started(&rank->search, address);
		rank->control->result->failovers++;
		if (map->n != 1 || map->table[0] != rank->done || map->after != rank->done + 1)
			sim_wrong(rank->control, "rank %u is told a table that is not its own",
				  rank->id);
	}
	sml_session_serve(&attempt->session, &sim_answers, !rank->control->embedded);
	sim_say(rank->control, "rank %u goes on at %s with call %u (epoch %u)", rank->id,
		rank->control->names[address], rank->done, rank->epoch);
	rank->state = RUNNING;
	rank->begun = true;
	sim_crank_note_rank(rank, rank->past.admitted.tag);
	rank->last_address = (uint8_t)address;
	rank->asks = false;
	rank->taken = (int)address;
	rank->sent = false;
	rank->next_ns = rank->control->now_ns;
	rank->ends_by_ns = NEVER;
	if (rank->leaves)
		sml_session_leave(&attempt->session, rank->control->now_ns);
}

static void switch_lost(struct rank *rank, const char *text)
{
	unsigned first = (unsigned)(rank->taken + 1) % rank->control->n_addresses;

	sim_say(rank->control, "rank %u: %s", rank->id, text);
	rank->lost_ns = rank->control->now_ns;
	sim_attempts_drop(rank);
	look_for_switch(rank, true, first);
}

/* ---- after each input of a session ---- */

static void look_at(struct rank *rank, unsigned address)
{
	struct attempt *attempt = &rank->attempts[address];
	struct sml_session *session = &attempt->session;
	char text[SML_SESSION_TEXT_BYTES];

	if (!attempt->talks || sim_crank_is_over(rank))
		return;
	snprintf(text, sizeof(text), "%s", session->text);
	if (rank->state == SEEKING && session->phase < SML_SESSION_RUNNING) {
		sml_search_missing(&rank->search, address, &session->missing, session->n_more,
				   session->refused, session->n_waiting, rank->control->now_ns);
		if (session->begun && rank->taken < 0) {
			rank->taken = (int)address;
			sml_search_began(&rank->search, address, rank->control->now_ns);
		}
	}
	if (session->phase == SML_SESSION_LOST) {
		switch_lost(rank, text);
	} else if (session->phase == SML_SESSION_FAILED && rank->state == RUNNING) {
		rank_fails(rank, session->error, text);
	} else if (session->phase == SML_SESSION_FAILED) {
		reject_address(rank, address, session->error, text);
	} else if (session->phase == SML_SESSION_LEFT) {
		sim_say(rank->control, "rank %u has left%s", rank->id,
			rank->state == SEEKING ? ", without the others" : "");
		if (rank->state == SEEKING)
			rank->gave_up_ns = rank->control->now_ns;
		sml_search_left(&rank->search, address);
		if (rank->control->is_elastic)
			sim_elastic_ends(rank);
		rank->state = WELL;
		sim_attempts_drop(rank);
	} else if (session->phase == SML_SESSION_ADMITTED && attempt->probed_ns == NEVER) {
		begin_probe(rank, address);
	} else if (session->phase == SML_SESSION_RUNNING && rank->state != RUNNING) {
		rank_starts(rank, address);
	}
}

/* ---- calls ---- */

static void take_result(struct rank *rank, const struct event *event)
{
	struct control *control = rank->control;

	if (rank->state != RUNNING || event->epoch != rank->epoch || event->chunk != rank->done ||
	    rank->done == rank->wanted)
		return;
	if (control->is_elastic && !sim_elastic_accepts(rank, event))
		return;
	rank->sums[rank->done % 64] = sim_sum_of_call(event->chunk);
	rank->kept[0] = rank->done++;
	rank->has_kept = true;
	rank->sent = false;
	rank->next_ns = control->now_ns + gen_below(&control->gen, 300) * MS;
	sim_say(control, "rank %u has call %u", rank->id, event->chunk);
}

static void make_call(struct rank *rank)
{
	struct control *control = rank->control;
	struct attempt *attempt = &rank->attempts[rank->taken];
	struct event *sent;

	if (rank->done == rank->wanted) {
		rank->next_ns = NEVER;
		rank->leaves = true;
		if (rank->dies_leaving)
			rank->dies_ns = control->now_ns + gen_below(&control->gen, 2000) * MS;
		rank->ends_by_ns = control->now_ns + CALL_NS;
		sml_session_leave(&attempt->session, control->now_ns);
		return;
	}
	if (control->switch_decides && attempt->session.n_joiners > 0 &&
	    gen_chance(&control->gen, 1, 4)) {
		sim_crank_applies(rank);
		return;
	}
	if (!rank->sent)
		rank->ends_by_ns = control->now_ns + CALL_NS;
	rank->sent = true;
	sent = sim_send_data(attempt->link, true, rank->done, rank->epoch);
	if (sent)
		sent->mark = rank->mark;
	rank->next_ns = control->now_ns + AGAIN_NS;
}

/* ---- another membership ---- */

static void give_up_job(struct rank *rank)
{
	send_aborts(rank, SML_ERROR_ABORTED, "it goes on elsewhere", SML_ABORT_PLANNED);
	sim_attempts_drop(rank);
	rank->done = 0;
	rank->has_kept = rank->sent = rank->leaves = rank->begun = false;
	rank->asks_ns = NEVER;
}

void sim_crank_applies(struct rank *rank)
{
	sim_say(rank->control, "rank %u asks the switch", rank->id);
	if (rank->state == RUNNING)
		sim_elastic_ends(rank);
	give_up_job(rank);
	rank->asks = true;
	rank->job = LINE_NAME;
	if (rank->past.ran.tag == 0 && rank->past.admitted.tag == 0) {
		rank->number = 0;
		rank->n = 1;
	}
	begin_job(rank, rank->control->has_tree ? rank->home : rank->last_address);
}

void sim_crank_moves(struct rank *rank, const struct members *members)
{
	sim_say(rank->control, "rank %u goes on in job \"%s\"", rank->id, members->job);
	give_up_job(rank);
	rank->asks = false;
	rank->job = members->job;
	rank->n = members->n;
	for (uint16_t i = 0; i < members->n; i++)
		if (members->processes[i] == rank->id)
			rank->number = i;
	begin_job(rank, rank->home);
}

/* ---- events ---- */

void sim_crank_event(struct rank *rank, const struct event *event,
		     const SmlControl__Envelope *message)
{
	struct control *control = rank->control;
	int address = sim_attempt_of(rank, event->link);

	if (address < 0 || sim_crank_is_over(rank))
		return;
	switch (event->kind) {
	case EVENT_CONNECTED:
		sml_search_connected(&rank->search, (unsigned)address, control->now_ns);
		break;
	case EVENT_REFUSED:
		reject_address(rank, (unsigned)address, -111, "Connection refused");
		return;
	case EVENT_TO_RANK:
		sim_attempt_message(rank, (unsigned)address, event, message);
		break;
	case EVENT_END_AT_RANK:
		if (rank->attempts[address].talks)
			sml_session_ended(&rank->attempts[address].session, "closed the connection",
					  true);
		else
			reject_address(rank, (unsigned)address, SML_ERROR_UNREACHABLE,
				       "closed the connection");
		break;
	case EVENT_RESULT:
		take_result(rank, event);
		break;
	default:
		break;
	}
	look_at(rank, (unsigned)address);
}

/* ---- time ---- */

/* As lib/control/finder.c. */
static void part(const struct rank *rank, struct attempt *attempt)
{
	const struct sml_search *search = &rank->search;
	bool late = rank->state == SEEKING && rank->control->now_ns >= search->config.deadline_ns;

	if (!attempt->talks)
		return;
	if (search->judges)
		sml_session_abort(&attempt->session, search->error,
				  search->tries[search->fatal].reason, SML_ABORT_TOLD);
	else if (late && rank->leaves)
		sml_session_retreat(&attempt->session);
	else if (late)
		sml_session_abort(&attempt->session, SML_ERROR_ABORTED, SML_SESSION_NOT_FOUND, 0);
}

static void do_actions(struct rank *rank)
{
	struct sml_search_action action;
	struct control *control = rank->control;

	while (!sim_crank_is_over(rank) &&
	       sml_search_next(&rank->search, control->now_ns, &action)) {
		struct attempt *attempt = &rank->attempts[action.address];

		switch (action.verb) {
		case SML_SEARCH_CONNECT:
			sim_say(control, "rank %u connects to %s", rank->id,
				control->names[action.address]);
			sim_attempt_drop(attempt);
			attempt->link = sim_connect(control, rank, action.address);
			if (attempt->link == NULL)
				return;
			break;
		case SML_SEARCH_JOIN:
			sim_attempt_join(rank, action.address, true);
			break;
		case SML_SEARCH_CLOSE:
			part(rank, attempt);
			sim_attempt_drop(attempt);
			break;
		}
	}
	if (rank->state == BEGINNING && rank->search.outcome == SML_SEARCH_FOUND &&
	    !rank->attempts[rank->search.found].talks)
		sim_attempt_join(rank, rank->search.found, false);
}

static void report_failure(struct rank *rank)
{
	unsigned before = rank->next + rank->control->n_addresses - 1u;
	char text[1000];

	if (rank->state == BEGINNING && begins_anew(rank, before, rank->search.error, false))
		return;
	sml_search_report(&rank->search, rank->control->now_ns, text, sizeof(text));
	rank_fails(rank, rank->search.error, text);
}

static void tick_session(struct rank *rank, unsigned address)
{
	struct attempt *attempt = &rank->attempts[address];
	uint64_t now_ns = rank->control->now_ns;

	if (attempt->talks && now_ns >= attempt->tick_ns) {
		attempt->tick_ns = now_ns + sml_session_tick_ms(rank->heartbeat_ms) * MS;
		sml_session_tick(&attempt->session, attempt->link->heard_ns, 0, true, now_ns);
		look_at(rank, address);
	}
	if (attempt->talks && now_ns >= attempt->probed_ns) {
		end_of_probe(rank, address);
		look_at(rank, address);
	}
}

void sim_crank_wake(struct rank *rank)
{
	struct control *control = rank->control;

	if (control->now_ns >= rank->dies_ns && !sim_crank_is_over(rank)) {
		sim_crank_dies(rank);
		return;
	}
	if (sim_elastic_is_frozen(rank))
		return;
	if (control->now_ns >= rank->moves_ns && !sim_crank_is_over(rank))
		sim_elastic_move(rank);
	if (rank->state == PARTED && control->now_ns >= rank->asks_ns)
		sim_crank_applies(rank);
	if (rank->state == COMING && control->now_ns >= rank->comes_ns) {
		if (rank->early_ns != 0) {
			look_for_switch(rank, false, rank->next);
		} else if (control->is_elastic) {
			rank->state = PARTED;
			sim_elastic_wait_to_apply(rank);
		} else {
			begin_job(rank, rank->home);
		}
	}
	for (unsigned i = 0; i < MAX_ADDRESSES && !sim_crank_is_over(rank); i++)
		tick_session(rank, i);
	if (rank->state == BEGINNING || rank->state == SEEKING)
		do_actions(rank);
	if ((rank->state == BEGINNING || rank->state == SEEKING) &&
	    rank->search.outcome == SML_SEARCH_FAILED)
		report_failure(rank);
	if (rank->state == RUNNING && !rank->leaves && control->now_ns >= rank->next_ns)
		make_call(rank);
	if (!sim_crank_is_over(rank) && control->now_ns > rank->ends_by_ns)
		rank_fails(rank, SML_ERROR_TIMEOUT, "it did not end in time");
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t sim_crank_deadline(const struct rank *rank)
{
	uint64_t due_ns = rank->dies_ns;

	if (sim_crank_is_over(rank))
		return NEVER;
	if (sim_elastic_is_frozen(rank))
		return earlier(due_ns, rank->thaws_ns);
	due_ns = earlier(due_ns, rank->moves_ns);
	if (rank->state == COMING)
		return earlier(due_ns, rank->comes_ns);
	if (rank->state == PARTED)
		return earlier(due_ns, rank->asks_ns);
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		due_ns = earlier(due_ns,
				 earlier(rank->attempts[i].tick_ns, rank->attempts[i].probed_ns));
	if (rank->state != RUNNING)
		due_ns = earlier(due_ns, sml_search_deadline(&rank->search));
	else if (!rank->leaves)
		due_ns = earlier(due_ns, rank->next_ns);
	return earlier(due_ns, rank->ends_by_ns == NEVER ? NEVER : rank->ends_by_ns + 1);
}
