/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a rank looks next: small cases of what the simulator draws (sim/control/). There are
 * two switches, and the first one has two addresses.
 */
#include "job/rank/search.h"

#include <string.h>

#include "support/test.h"
#include "switchml.h"

#define MS 1000000ull

static const char *const names[] = {"first/0", "first/1", "second"};
static struct sml_search search;
static uint64_t now_ns;

static void begin(void)
{
	const struct sml_search_config config = {
		.names = names,
		.n_addresses = 3,
		.switches = {0, 0, 1},
		.kind = SML_SEARCH_NEXT,
		.deadline_ns = 60000 * MS,
	};

	now_ns = 1000 * MS;
	sml_search_init(&search, &config, now_ns);
}

/* Wait until the search wants a connection, within this time. Returns the address; -1: none. */
static int connects_within(uint64_t ms)
{
	uint64_t until_ns = now_ns + ms * MS;
	struct sml_search_action action;

	for (; now_ns <= until_ns; now_ns += 10 * MS)
		while (sml_search_next(&search, now_ns, &action))
			if (action.verb == SML_SEARCH_CONNECT)
				return (int)action.address;
	return -1;
}

static void does(enum sml_search_verb verb, unsigned address)
{
	struct sml_search_action action;

	assert_true(sml_search_next(&search, now_ns, &action));
	assert_int_equal(action.verb, verb);
	assert_int_equal(action.address, address);
}

static void joins_at(unsigned address)
{
	sml_search_connected(&search, address, now_ns);
	does(SML_SEARCH_JOIN, address);
}

/* What a rank says that has found no switch yet. */
static const char *report(void)
{
	static char text[1000];

	sml_search_report(&search, now_ns, text, sizeof(text));
	return text;
}

/* The job begins there, but has no path for packets. */
static void is_bad(unsigned address)
{
	joins_at(address);
	sml_search_began(&search, address, now_ns);
	sml_search_failed(&search, address, SML_ERROR_UNREACHABLE, "no UDP", now_ns);
}

TEST_WITH(a_switch_that_could_not_go_on_comes_last_by_all_its_addresses, begin, NULL)
{
	int address;

	assert_int_equal(connects_within(0), 0);
	is_bad(0);
	assert_int_equal(connects_within(100), 2);
	joins_at(2);
	/*
	 * While ranks are missing there, the rank also joins the bad switch when its time has
	 * come.
	 */
	address = connects_within(5000);
	assert_true(address >= 0);
	is_bad((unsigned)address);
	assert_int_equal(connects_within(100), 2);
	joins_at(2);
	/* The second time, it has twice as long. */
	assert_int_equal(connects_within(1900), -1);
}

/* Two such switches near this rank do not take turns, while the good one's answer is on its way. */
TEST_WITH(a_far_switch_has_its_time_after_each_that_was_bad, begin, NULL)
{
	search.config.switches[1] = 2;
	assert_int_equal(connects_within(0), 0);
	is_bad(0);
	assert_int_equal(connects_within(100), 1);
	joins_at(1);
	sml_search_began(&search, 1, now_ns);
	/* As long as its probes take. */
	now_ns += 3000 * MS;
	sml_search_failed(&search, 1, SML_ERROR_UNREACHABLE, "no UDP", now_ns);
	assert_int_equal(connects_within(100), 2);
	assert_int_equal(connects_within(900), -1);
	assert_int_equal(connects_within(200), 0);
}

/* The kernel still accepts the connections of a switch that is stopped. */
TEST_WITH(a_switch_that_accepts_and_says_nothing_may_be_frozen, begin, NULL)
{
	struct sml_ranks ranks = {{0}};

	assert_int_equal(connects_within(0), 0);
	sml_search_connected(&search, 0, now_ns);
	assert_non_null(strstr(report(), "first/0: it accepts connections, but says nothing: is it "
					 "frozen?"));
	sml_ranks_add(&ranks, 1);
	sml_search_missing(&search, 0, &ranks, 0, "", 1, now_ns);
	assert_non_null(strstr(report(), "first/0: not all ranks have joined there; missing: 1"));
	sml_search_missing(&search, 0, &(struct sml_ranks){{0}}, 0, "", 2, now_ns);
	assert_non_null(strstr(report(), "first/0: it has not started the job"));
}

/* It may be refused itself there, for another reason, or released because that one is missing. */
TEST_WITH(all_ranks_say_why_another_one_cannot_join, begin, NULL)
{
	struct sml_ranks ranks = {{0}};

	assert_int_equal(connects_within(0), 0);
	sml_search_connected(&search, 0, now_ns);
	sml_ranks_add(&ranks, 1);
	sml_search_missing(&search, 0, &ranks, 0, "rank 1 has wire int8", 1, now_ns);
	assert_non_null(strstr(report(), "missing: 1; the last that tried was refused: rank 1 has "
					 "wire int8"));
	sml_search_failed(&search, 0, SML_ERROR_SWITCH_DIED, "it closed the connection", now_ns);
	assert_non_null(strstr(report(),
			       "first/0: it closed the connection; the last that tried was "
			       "refused: rank 1 has wire int8; "));
	/* It has come in the meantime, to the switch's other address. */
	assert_int_equal(connects_within(2000), 1);
	sml_search_connected(&search, 1, now_ns);
	sml_search_missing(&search, 1, &ranks, 0, "", 1, now_ns);
	assert_null(strstr(report(), "refused"));
}

/* On a busy machine, each of its steps may take long. */
TEST_WITH(a_try_that_is_under_way_hides_no_reason, begin, NULL)
{
	assert_int_equal(connects_within(0), 0);
	sml_search_failed(&search, 0, SML_ERROR_REFUSED, "it is another program", now_ns);
	for (int i = 0; i < 3 && connects_within(2000) != 0; i++)
		sml_search_failed(&search, 1, -111, "refused", now_ns);
	assert_int_equal(search.tries[0].state, SML_SEARCH_CONNECTING);
	now_ns += 4900 * MS;
	assert_non_null(strstr(report(), "first/0: it is another program"));
	sml_search_connected(&search, 0, now_ns);
	now_ns += 4900 * MS;
	assert_non_null(strstr(report(), "first/0: it is another program"));
	now_ns += 100 * MS;
	assert_non_null(strstr(report(), "first/0: it accepts connections, but says nothing"));
}

TEST_WITH(who_is_let_go_needs_no_switch_any_more, begin, NULL)
{
	assert_int_equal(connects_within(0), 0);
	joins_at(0);
	assert_int_equal(connects_within(2000), 2);
	sml_search_left(&search, 0);
	assert_int_equal(search.outcome, SML_SEARCH_LEFT);
	does(SML_SEARCH_CLOSE, 0);
	does(SML_SEARCH_CLOSE, 2);
	assert_int_equal(connects_within(60000), -1);
}

TEST_WITH(whoever_finds_none_says_why_of_each, begin, NULL)
{
	char text[100];
	int address;

	/* Also if there is no room for all reasons. */
	while ((address = connects_within(2000)) >= 0)
		sml_search_failed(&search, (unsigned)address, -111,
				  "refused, by a switch that has much to say of itself", now_ns);
	assert_int_equal(search.outcome, SML_SEARCH_FAILED);
	sml_search_report(&search, now_ns, text, sizeof(text));
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(strstr(text, names[i]));
}

/* Begins at this time, and is let go from each address after 5 s. */
struct beginner {
	unsigned address, n_lost, until_s;
};

static void wait_at_next(struct beginner *beginner, unsigned n_addresses, unsigned now_s)
{
	if (now_s < beginner->until_s)
		return;
	beginner->address =
		sml_search_begin_after(beginner->address, n_addresses, ++beginner->n_lost);
	beginner->until_s = now_s + 5;
}

static bool meet_within(unsigned seconds, unsigned n_addresses, unsigned second_s)
{
	struct beginner first = {.until_s = 5}, second = {.until_s = second_s + 5};

	for (unsigned now_s = second_s; now_s < seconds; now_s++) {
		for (unsigned s = now_s == second_s ? 0 : now_s; s <= now_s; s++)
			wait_at_next(&first, n_addresses, s);
		wait_at_next(&second, n_addresses, now_s);
		if (first.address == second.address)
			return true;
	}
	return false;
}

/* They have lost their switch at different times, because their heartbeats differ. */
TEST(ranks_that_begin_do_not_follow_each_other_forever)
{
	for (unsigned n_addresses = 1; n_addresses <= 6; n_addresses++)
		for (unsigned second_s = 0; second_s <= 30; second_s++)
			assert_true(meet_within(240, n_addresses, second_s));
}

/* Connect to the second switch, which then says for so long that these ranks are missing. */
static void waits_for(const unsigned *missing, unsigned n, unsigned seconds)
{
	struct sml_ranks ranks = {{0}};
	unsigned n_reports = search.tries[2].n_reports;

	for (unsigned i = 0; i < n; i++)
		sml_ranks_add(&ranks, missing[i]);
	for (unsigned i = 0; i <= seconds; i++, now_ns += 1000 * MS)
		sml_search_missing(&search, 2, &ranks, 0, "", ++n_reports, now_ns);
}

/* Connect to the second switch and join there, whatever else is tried before. */
static void comes_to_the_second(void)
{
	while (search.outcome == SML_SEARCH_GOES_ON && connects_within(2000) != 2)
		;
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
	joins_at(2);
}

static void begin_to_judge(void)
{
	begin();
	search.config.absence_ns = sml_search_absence_ns(4000);
	comes_to_the_second();
}

TEST_WITH(a_rank_that_comes_to_no_switch_is_given_up, begin_to_judge, NULL)
{
	/* Rank 1 is late. */
	waits_for((const unsigned[]){1, 3}, 2, 7);
	waits_for((const unsigned[]){3}, 1, 1);
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
	waits_for((const unsigned[]){1, 3}, 2, 2);
	assert_int_equal(search.outcome, SML_SEARCH_FAILED);
	assert_int_equal(search.error, SML_ERROR_RANK_DIED);
	assert_non_null(strstr(report(), "rank 3 died with the switch"));
}

/* The ranks are there one after the other; or nothing is heard of any switch in between. */
TEST_WITH(a_rank_that_comes_now_and_then_is_not, begin_to_judge, NULL)
{
	for (unsigned i = 0; i < 10; i++)
		waits_for((const unsigned[]){1 + i % 2}, 1, 8);
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
	for (unsigned i = 0; i < 9; i++) {
		waits_for((const unsigned[]){1}, 1, 0);
		now_ns += 2000 * MS;
	}
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
}

/* A switch is killed again and again. Each life is shorter than the others may take to come. */
TEST_WITH(nobody_is_given_up_for_the_time_between_switches, begin_to_judge, NULL)
{
	struct sml_ranks ranks = {{0}};

	sml_ranks_add(&ranks, 1);
	for (unsigned i = 0; i < 30; i++) {
		sml_search_missing(&search, 2, &ranks, 0, "", 1, now_ns);
		now_ns += 100 * MS;
		sml_search_missing(&search, 2, &ranks, 0, "", 2, now_ns);
		now_ns += 700 * MS;
		sml_search_failed(&search, 2, SML_ERROR_SWITCH_DIED, "it died", now_ns);
		comes_to_the_second();
	}
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
	waits_for((const unsigned[]){1}, 1, 8);
	assert_int_equal(search.outcome, SML_SEARCH_FAILED);
}

/*
 * The first switch says for so long that rank 1 is missing, and then nothing more. The second one
 * dies again and again, just after it has begun. Returns when that ended, or after a minute.
 */
static uint64_t waits_beside_one_that_dies(uint64_t speaks_ns)
{
	struct sml_ranks ranks = {{0}};
	uint64_t begun_ns = now_ns, told_ns = now_ns;
	unsigned n_reports = 0;

	sml_ranks_add(&ranks, 1);
	search.config.absence_ns = sml_search_absence_ns(4000);
	assert_int_equal(connects_within(0), 0);
	joins_at(0);
	while (search.outcome == SML_SEARCH_GOES_ON && now_ns < begun_ns + 50000 * MS) {
		if (now_ns >= told_ns && now_ns < begun_ns + speaks_ns) {
			sml_search_missing(&search, 0, &ranks, 0, "", ++n_reports, now_ns);
			told_ns += 1000 * MS;
		}
		if (connects_within(90) != 2)
			continue;
		joins_at(2);
		sml_search_missing(&search, 2, &ranks, 0, "", 1, now_ns);
		sml_search_failed(&search, 2, SML_ERROR_SWITCH_DIED, "it died", now_ns);
	}
	return now_ns - begun_ns;
}

TEST_WITH(a_switch_that_dies_often_does_not_hide_that_another_lives, begin, NULL)
{
	uint64_t took_ns = waits_beside_one_that_dies(60000 * MS);

	assert_int_equal(search.error, SML_ERROR_RANK_DIED);
	assert_in_range(took_ns, search.config.absence_ns, search.config.absence_ns + 2500 * MS);
}

/* Its machine may be gone: then there may be no switch to come to. */
TEST_WITH(a_switch_that_says_nothing_more_does_not_count_as_one_that_lives, begin, NULL)
{
	waits_beside_one_that_dies(2000 * MS);
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
}

/* Switches end the connections of a job whose ranks do not all come within five seconds. */
TEST_WITH(a_switch_that_ends_the_wait_and_lets_it_begin_anew_was_there, begin_to_judge, NULL)
{
	uint64_t begun_ns = now_ns;

	for (unsigned i = 1; search.outcome == SML_SEARCH_GOES_ON; i++) {
		waits_for((const unsigned[]){1}, 1, 0);
		if (i % 5 > 0 || search.outcome != SML_SEARCH_GOES_ON)
			continue;
		sml_search_failed(&search, 2, SML_ERROR_SWITCH_DIED, "1 did not come", now_ns);
		comes_to_the_second();
	}
	assert_int_equal(search.error, SML_ERROR_RANK_DIED);
	assert_in_range(now_ns - begun_ns, search.config.absence_ns,
			search.config.absence_ns + 2500 * MS);
}

/* It was refused for long. Then a switch serves, and dies: the ranks meet soon at the next one. */
TEST_WITH(whoever_was_at_a_switch_comes_soon_to_its_next_life, begin_to_judge, NULL)
{
	struct sml_ranks ranks = {{0}};
	uint64_t lost_ns;

	sml_ranks_add(&ranks, 1);
	sml_search_failed(&search, 2, SML_ERROR_SWITCH_DIED, "it died", now_ns);
	for (unsigned i = 0; i < 30; i++)
		sml_search_failed(&search, (unsigned)connects_within(2000), -111, "refused",
				  now_ns);
	comes_to_the_second();
	sml_search_missing(&search, 2, &ranks, 0, "", 1, now_ns);
	lost_ns = now_ns;
	sml_search_failed(&search, 2, SML_ERROR_SWITCH_DIED, "it died", now_ns);
	while (connects_within(2000) != 2)
		;
	assert_in_range(now_ns - lost_ns, 0, 300 * MS);
}

/* Those that have asked to leave may have left. */
TEST_WITH(who_leaves_gives_up_nobody, begin_to_judge, NULL)
{
	search.config.absence_ns = 0;
	waits_for((const unsigned[]){1}, 1, 30);
	assert_int_equal(search.outcome, SML_SEARCH_GOES_ON);
}
