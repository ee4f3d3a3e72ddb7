/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking for a switch: see search.h. */
#include "job/rank/search.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "core/base.h"
#include "switchml.h"

#define MS 1000000ull
/* RFC 8305's Connection Attempt Delay. */
#define STAGGER_MS 250
/* How long to wait at a switch where ranks are missing, before the next one is joined as well. */
#define STAGGER_JOIN_NS (1000 * MS)
/* The time limit for one address's handshake. */
#define CONNECT_NS (5000 * MS)
/* Between two messages of a switch that still waits; and of two switches, one of which has died. */
#define TOLD_NS (2000 * MS)
/* The pause after a switch began but could not continue; doubles each time. */
#define BAD_NS	   (1000 * MS)
#define BAD_MAX_NS (16000 * MS)

#define NO_SWITCH                                                                                  \
	"nothing listens there: start `switchml switch`, or check SWITCHML_SWITCH (a firewall "    \
	"that rejects looks the same)"
#define NO_RANK_0                                                                                  \
	"nothing listens there: this rank has no SWITCHML_SWITCH; has rank 0 one, or has it not "  \
	"been started, or is SWITCHML_MASTER_ADDR (MASTER_ADDR) not its host?"
#define NO_LISTENER                                                                                \
	"rank 0 has listened there, so it has ended, or this rank reaches another host by that "   \
	"address"

/*
 * When a job begins, ranks that choose different switches never meet. TCP resends a lost SYN after
 * a second, so one rank's lost SYN must not make it go to another switch.
 */
const struct sml_search_policy sml_search_policies[] = {
	[SML_SEARCH_SWITCH] = {"the switch", NO_SWITCH, .stagger_ms = 2000, .again_ms = 10000,
			       .again_pause_ms = 100},
	[SML_SEARCH_RANK_0] = {"rank 0", NO_RANK_0, .retries = true, .pause_ms = 2,
			       .pause_max_ms = 100, .stagger_ms = 2000, .again_pause_ms = 20},
	[SML_SEARCH_LISTENER] = {"rank 0", NO_LISTENER, .retries = true, .refusal_ends = true,
				 .pause_ms = 2, .pause_max_ms = 100, .stagger_ms = 2000,
				 .again_pause_ms = 20},
	[SML_SEARCH_NEXT] = {"a switch to take over", NO_SWITCH, .joins = true, .retries = true,
			     .pause_ms = 50, .pause_max_ms = 1000, .stagger_ms = STAGGER_MS},
};

static bool is_live(const struct sml_search_try *try)
{
	return try->state != SML_SEARCH_IDLE;
}

static void set_state(struct sml_search_try *try, enum sml_search_state state, uint64_t now_ns)
{
	try->state = state;
	try->since_ns = now_ns;
}

void sml_search_init(struct sml_search *search, const struct sml_search_config *config,
		     uint64_t now_ns)
{
	sml_assert(config->n_addresses >= 1 && config->n_addresses <= SML_SEARCH_MAX &&
		   config->first < config->n_addresses);
	*search = (struct sml_search){
		.config = *config, .policy = &sml_search_policies[config->kind], .fatal = -1};
	for (unsigned i = 0; i < config->n_addresses; i++)
		search->tries[i].since_ns = now_ns;
}

/* ---- when to try what ---- */

static uint64_t grown(uint64_t first_ns, unsigned times, uint64_t most_ns)
{
	return times > 10 || first_ns << times > most_ns ? most_ns : first_ns << times;
}

/* After this one, when may the next address be tried as well? */
static uint64_t retries_end(const struct sml_search *search, const struct sml_search_try *live,
			    bool same_switch)
{
	if (live->state == SML_SEARCH_WAITING)
		return live->since_ns + STAGGER_JOIN_NS;
	if (live->state == SML_SEARCH_TAKEN)
		return UINT64_MAX;
	return live->since_ns + (same_switch ? STAGGER_MS : search->policy->stagger_ms) * MS;
}

/* When this address may be tried; UINT64_MAX: not in the current state. */
static uint64_t may_start(const struct sml_search *search, unsigned address)
{
	const struct sml_search_config *config = &search->config;
	const struct sml_search_try *try = &search->tries[address];
	uint64_t start_ns = try->soon_ns;
	bool alone = true;

	if (is_live(try) || try->to_close)
		return UINT64_MAX;
	/* A job begins at the first address that answers, unless it may wait. */
	if (!search->policy->retries && try->n_failures)
		return UINT64_MAX;
	for (unsigned i = 0; i < config->n_addresses; i++) {
		const struct sml_search_try *other = &search->tries[i];
		bool same = config->switches[i] == config->switches[address];
		uint64_t ends_ns;

		if (!is_live(other))
			continue;
		alone = false;
		/* The rank would be refused there again. */
		if (same && other->state != SML_SEARCH_CONNECTING)
			return UINT64_MAX;
		ends_ns = retries_end(search, other, same);
		start_ns = ends_ns > start_ns ? ends_ns : start_ns;
	}
	return !alone && try->again_ns > start_ns ? try->again_ns : start_ns;
}

/* The i-th in the list's order, from the first one to try. */
static unsigned in_order(const struct sml_search *search, unsigned i)
{
	return (search->config.first + i) % search->config.n_addresses;
}

/*
 * The address that was tried longest ago is next, so that one that fails quickly does not keep the
 * others waiting.
 */
static bool is_better(const struct sml_search_try *a, const struct sml_search_try *b)
{
	return a->n_bad != b->n_bad ? a->n_bad < b->n_bad : a->started_ns < b->started_ns;
}

/* Of those that may start by then, the one that has failed least often; -1: none. */
static int choose(const struct sml_search *search, uint64_t now_ns)
{
	int best = -1;

	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		unsigned address = in_order(search, i);

		if (may_start(search, address) > now_ns)
			continue;
		if (best < 0 || is_better(&search->tries[address], &search->tries[best]))
			best = (int)address;
	}
	return best;
}

uint64_t sml_search_deadline(const struct sml_search *search)
{
	uint64_t earliest_ns = search->config.deadline_ns;

	if (search->outcome != SML_SEARCH_GOES_ON)
		return UINT64_MAX;
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		const struct sml_search_try *try = &search->tries[i];
		uint64_t at_ns = try->state == SML_SEARCH_CONNECTING ? try->since_ns + CONNECT_NS
								     : may_start(search, i);

		earliest_ns = at_ns < earliest_ns ? at_ns : earliest_ns;
	}
	return earliest_ns;
}

/* ---- the end ---- */

static void close_all_but(struct sml_search *search, int address)
{
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		struct sml_search_try *try = &search->tries[i];

		if ((int)i == address || !is_live(try))
			continue;
		try->state = SML_SEARCH_IDLE;
		try->to_join = false;
		try->to_close = true;
	}
}

static void finish(struct sml_search *search, enum sml_search_outcome outcome, int error)
{
	search->outcome = outcome;
	search->error = error;
	if (outcome == SML_SEARCH_FOUND)
		close_all_but(search, (int)search->found);
}

/* The state of an unfinished try, or why the last one failed. */
static void describe(const struct sml_search_try *try, uint64_t now_ns, char *text, size_t bytes)
{
	char ranks[SML_RANKS_TEXT_BYTES];

	if (try->state == SML_SEARCH_WAITING && !sml_ranks_is_empty(&try->missing)) {
		sml_ranks_text(&try->missing, try->n_more, ranks, sizeof(ranks));
		snprintf(text, bytes, "not all ranks have joined there; missing: %s", ranks);
	} else if (try->error && now_ns < try->since_ns + CONNECT_NS) {
		/* What the last try came to tells more than one that may only be slow. */
		snprintf(text, bytes, "%s", try->reason);
	} else if (try->state == SML_SEARCH_CONNECTING) {
		snprintf(text, bytes, "%s", SML_SEARCH_NO_ANSWER);
	} else if (try->state == SML_SEARCH_WAITING && try->n_reports == 0) {
		/* The kernel accepts connections for a program that is stopped. */
		snprintf(text, bytes, SML_SEARCH_SILENT);
	} else if (try->state != SML_SEARCH_IDLE) {
		snprintf(text, bytes, "it has not started the job");
	} else {
		snprintf(text, bytes, "%s", try->error ? try->reason : "not tried");
	}
}

/* The state of unfinished tries at the deadline is a reason, too. */
static void note_unfinished(struct sml_search_try *try, uint64_t now_ns)
{
	char text[SML_REASON_LENGTH];

	if (!is_live(try))
		return;
	describe(try, now_ns, text, sizeof(text));
	memcpy(try->reason, text, sizeof(text));
	try->error = SML_ERROR_TIMEOUT;
}

static void give_up(struct sml_search *search, uint64_t now_ns)
{
	for (unsigned i = 0; i < search->config.n_addresses; i++)
		note_unfinished(&search->tries[i], now_ns);
	finish(search, SML_SEARCH_FAILED, SML_ERROR_UNREACHABLE);
	close_all_but(search, -1);
}

/* ---- what to do ---- */

static bool set_action(struct sml_search *search, enum sml_search_verb verb, unsigned address,
		       struct sml_search_action *action)
{
	struct sml_search_try *try = &search->tries[address];

	if (verb == SML_SEARCH_CLOSE)
		try->to_close = false;
	else
		try->to_join = false;
	*action = (struct sml_search_action){verb, address};
	return true;
}

static void expire(struct sml_search *search, uint64_t now_ns)
{
	if (now_ns >= search->config.deadline_ns) {
		give_up(search, now_ns);
		return;
	}
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		struct sml_search_try *try = &search->tries[i];

		if (try->state != SML_SEARCH_CONNECTING || now_ns < try->since_ns + CONNECT_NS)
			continue;
		try->to_close = true;
		sml_search_failed(search, i, SML_ERROR_TIMEOUT, SML_SEARCH_NO_ANSWER, now_ns);
	}
}

bool sml_search_next(struct sml_search *search, uint64_t now_ns, struct sml_search_action *action)
{
	int address;

	if (search->outcome == SML_SEARCH_GOES_ON)
		expire(search, now_ns);
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		if (search->tries[i].to_close)
			return set_action(search, SML_SEARCH_CLOSE, i, action);
		if (search->tries[i].to_join)
			return set_action(search, SML_SEARCH_JOIN, i, action);
	}
	if (search->outcome != SML_SEARCH_GOES_ON)
		return false;
	address = choose(search, now_ns);
	if (address < 0)
		return false;
	set_state(&search->tries[address], SML_SEARCH_CONNECTING, now_ns);
	search->tries[address].missing = (struct sml_ranks){{0}};
	search->tries[address].n_more = search->tries[address].n_reports = 0;
	search->tries[address].started_ns = now_ns;
	*action = (struct sml_search_action){SML_SEARCH_CONNECT, (unsigned)address};
	return true;
}

/* ---- what happened ---- */

/* Other addresses of the same switch are not needed any more. */
static void close_siblings(struct sml_search *search, unsigned address)
{
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		struct sml_search_try *try = &search->tries[i];

		if (i == address || !is_live(try) ||
		    search->config.switches[i] != search->config.switches[address])
			continue;
		try->state = SML_SEARCH_IDLE;
		try->to_close = true;
	}
}

void sml_search_connected(struct sml_search *search, unsigned address, uint64_t now_ns)
{
	struct sml_search_try *try = &search->tries[address];

	if (try->state != SML_SEARCH_CONNECTING || search->outcome != SML_SEARCH_GOES_ON)
		return;
	if (!search->policy->joins) {
		search->found = address;
		finish(search, SML_SEARCH_FOUND, 0);
		return;
	}
	set_state(try, SML_SEARCH_WAITING, now_ns);
	try->to_join = true;
	close_siblings(search, address);
}

static bool lives(const struct sml_search_try *try, uint64_t now_ns)
{
	return try->state == SML_SEARCH_WAITING && try->n_reports > 0 &&
	       now_ns - try->told_ns <= TOLD_NS;
}

/* Has a switch been there since its last message? Any: one of several may die again and again. */
static bool one_lives(const struct sml_search *search, uint64_t now_ns)
{
	for (unsigned i = 0; i < search->config.n_addresses; i++)
		if (lives(&search->tries[i], now_ns))
			return true;
	return false;
}

/*
 * Only those that each message has named stay; if there is none, the count begins anew. lived: a
 * switch has been there since an earlier message. Before the first one, there may have been no
 * switch to come to.
 */
static void note_absent(struct sml_search *search, const struct sml_ranks *missing, bool lived,
			uint64_t now_ns)
{
	uint64_t since_ns = now_ns - search->absent_reported_ns;

	sml_ranks_intersect(&search->absent, missing);
	if (sml_ranks_is_empty(&search->absent)) {
		search->absent = *missing;
		search->absent_ns = 0;
	} else if (lived && since_ns <= TOLD_NS) {
		search->absent_ns += since_ns;
	}
	search->absent_reported_ns = now_ns;
}

static void judge(struct sml_search *search, unsigned address)
{
	struct sml_search_try *try = &search->tries[address];
	unsigned n = sml_ranks_count(&search->absent);
	char ranks[SML_RANKS_TEXT_BYTES];

	sml_ranks_text(&search->absent, 0, ranks, sizeof(ranks));
	snprintf(try->reason, sizeof(try->reason),
		 "rank%s %.100s died with the switch, or cannot reach another: no switch has seen "
		 "%s "
		 "for %u s",
		 sml_plural(n), ranks, n > 1 ? "them" : "it",
		 (unsigned)(search->absent_ns / (1000 * MS)));
	search->judges = true;
	search->fatal = (int)address;
	finish(search, SML_SEARCH_FAILED, SML_ERROR_RANK_DIED);
	close_all_but(search, -1);
}

void sml_search_missing(struct sml_search *search, unsigned address, const struct sml_ranks *ranks,
			unsigned n_more, const char *refused, unsigned n_reports, uint64_t now_ns)
{
	struct sml_search_try *try = &search->tries[address];
	bool lived = one_lives(search, now_ns);

	if (try->state != SML_SEARCH_WAITING || try->n_reports == n_reports)
		return;
	try->n_reports = n_reports;
	try->told_ns = now_ns;
	try->missing = *ranks;
	try->n_more = n_more;
	/* What it said at another address is old. */
	for (unsigned i = 0; i < search->config.n_addresses; i++)
		if (search->config.switches[i] == search->config.switches[address])
			search->tries[i].refused[0] = '\0';
	snprintf(try->refused, sizeof(try->refused), "%.*s", SML_REASON_LENGTH - 1, refused);
	/*
	 * It serves. If it is lost, this rank must not come to the next one long after the others,
	 * which may be gone then, too.
	 */
	try->n_failures = 0;
	note_absent(search, ranks, lived, now_ns);
	if (search->config.absence_ns && search->absent_ns >= search->config.absence_ns)
		judge(search, address);
}

void sml_search_began(struct sml_search *search, unsigned address, uint64_t now_ns)
{
	struct sml_search_try *try = &search->tries[address];

	if (try->state != SML_SEARCH_WAITING || search->outcome != SML_SEARCH_GOES_ON)
		return;
	set_state(try, SML_SEARCH_TAKEN, now_ns);
	/* All ranks are there. */
	search->absent = (struct sml_ranks){{0}};
	close_all_but(search, (int)address);
}

void sml_search_started(struct sml_search *search, unsigned address)
{
	if (search->tries[address].state != SML_SEARCH_TAKEN)
		return;
	search->found = address;
	finish(search, SML_SEARCH_FOUND, 0);
}

void sml_search_left(struct sml_search *search, unsigned address)
{
	if (!is_live(&search->tries[address]) || search->outcome != SML_SEARCH_GOES_ON)
		return;
	finish(search, SML_SEARCH_LEFT, 0);
	close_all_but(search, -1);
}

static bool is_final(int error)
{
	return error == SML_ERROR_RANK_DIED || error == SML_ERROR_ABORTED;
}

static void set_pause(const struct sml_search *search, struct sml_search_try *try, uint64_t now_ns)
{
	const struct sml_search_policy *policy = search->policy;

	try->soon_ns = try->again_ns =
		now_ns + grown(policy->pause_ms * MS, try->n_failures, policy->pause_max_ms * MS);
}

/*
 * A bad switch is bad at all of its addresses. Others may not have found it bad, and wait there: it
 * comes back before they count this rank as dead. All ranks were together at this switch, so that
 * time begins now, also for switches that were bad before: or two of them, near, take turns, and no
 * rank waits long enough at a good one that is far away.
 */
static void note_bad_switch(struct sml_search *search, unsigned address, uint64_t now_ns)
{
	uint64_t most_ns = search->config.absence_ns && search->config.absence_ns / 2 < BAD_MAX_NS
				   ? search->config.absence_ns / 2
				   : BAD_MAX_NS;

	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		struct sml_search_try *try = &search->tries[i];

		try->n_bad += search->config.switches[i] == search->config.switches[address];
		if (try->n_bad > 0)
			try->again_ns = now_ns + grown(BAD_NS, try->n_bad - 1, most_ns);
	}
}

static bool is_retried(const struct sml_search *search, const struct sml_search_try *try)
{
	return search->policy->retries &&
	       !(search->policy->refusal_ends && try->error == -ECONNREFUSED);
}

/* Nothing is left to try. */
static bool all_have_failed(const struct sml_search *search)
{
	for (unsigned i = 0; i < search->config.n_addresses; i++) {
		const struct sml_search_try *try = &search->tries[i];

		if (!try->n_failures || is_live(try) || is_retried(search, try))
			return false;
	}
	return true;
}

void sml_search_failed(struct sml_search *search, unsigned address, int error, const char *reason,
		       uint64_t now_ns)
{
	struct sml_search_try *try = &search->tries[address];
	bool bad = try->state == SML_SEARCH_TAKEN;

	if (!is_live(try) || search->outcome != SML_SEARCH_GOES_ON)
		return;
	/* A switch that has served for a while would have said who had come, until its end. */
	if (try->state == SML_SEARCH_WAITING && try->n_reports > 0 &&
	    now_ns >= try->since_ns + TOLD_NS)
		note_absent(search, &try->missing, true, now_ns);
	snprintf(try->reason, sizeof(try->reason), "%s", reason);
	try->error = error;
	set_pause(search, try, now_ns);
	if (bad)
		note_bad_switch(search, address, now_ns);
	/* A switch that releases its ranks because others did not come keeps its place in the
	 * order. */
	if (error != SML_ERROR_SWITCH_DIED || try->state == SML_SEARCH_CONNECTING)
		try->n_failures++;
	try->to_join = false;
	set_state(try, SML_SEARCH_IDLE, now_ns);
	if (search->policy->joins && is_final(error)) {
		search->fatal = (int)address;
		finish(search, SML_SEARCH_FAILED, error);
		close_all_but(search, -1);
	} else if (all_have_failed(search)) {
		finish(search, SML_SEARCH_FAILED, SML_ERROR_UNREACHABLE);
	}
}

void sml_search_report(const struct sml_search *search, uint64_t now_ns, char *text, size_t bytes)
{
	const unsigned n = search->config.n_addresses;

	text[0] = '\0';
	if (search->fatal >= 0) {
		snprintf(text, bytes, "%s", search->tries[search->fatal].reason);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned address = in_order(search, i);
		const char *refused = search->tries[address].refused;
		char reason[SML_REASON_LENGTH];
		size_t length = strlen(text);

		describe(&search->tries[address], now_ns, reason, sizeof(reason));
		snprintf(text + length, (bytes - length) / (n - i), "%s%s: %s%s%s",
			 length ? "; " : "", search->config.names[address], reason,
			 refused[0] ? "; the last that tried was refused: " : "", refused);
	}
}
