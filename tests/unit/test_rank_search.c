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

static int begin(void **state)
{
	const struct sml_search_config config = {
		.names = names,
		.n_addresses = 3,
		.switches = {0, 0, 1},
		.resumes = true,
		.deadline_ns = 60000 * MS,
	};

	(void)state;
	now_ns = 1000 * MS;
	sml_search_init(&search, &config, now_ns);
	return 0;
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

/* The job begins there, but has no path for packets. */
static void is_bad(unsigned address)
{
	sml_search_connected(&search, address, now_ns);
	does(SML_SEARCH_JOIN, address);
	sml_search_began(&search, address, now_ns);
	sml_search_failed(&search, address, SML_ERROR_UNREACHABLE, "no UDP", now_ns);
}

TEST_WITH(a_switch_that_could_not_go_on_comes_last_by_all_its_addresses, begin, NULL)
{
	int address;

	assert_int_equal(connects_within(0), 0);
	is_bad(0);
	assert_int_equal(connects_within(100), 2);
	sml_search_connected(&search, 2, now_ns);
	does(SML_SEARCH_JOIN, 2);
	/*
	 * While ranks are missing there, the rank also joins the bad switch when its time has
	 * come.
	 */
	address = connects_within(5000);
	assert_true(address >= 0);
	is_bad((unsigned)address);
	assert_int_equal(connects_within(100), 2);
	sml_search_connected(&search, 2, now_ns);
	does(SML_SEARCH_JOIN, 2);
	/* The second time, it has twice as long. */
	assert_int_equal(connects_within(1900), -1);
}

TEST_WITH(who_is_let_go_needs_no_switch_any_more, begin, NULL)
{
	assert_int_equal(connects_within(0), 0);
	sml_search_connected(&search, 0, now_ns);
	does(SML_SEARCH_JOIN, 0);
	assert_int_equal(connects_within(2000), 2);
	sml_search_left(&search, 0);
	assert_int_equal(search.outcome, SML_SEARCH_LEFT);
	does(SML_SEARCH_CLOSE, 0);
	does(SML_SEARCH_CLOSE, 2);
	assert_int_equal(connects_within(60000), -1);
}

TEST_WITH(whoever_finds_none_says_why_of_each, begin, NULL)
{
	char text[1000];
	int address;

	while ((address = connects_within(2000)) >= 0)
		sml_search_failed(&search, (unsigned)address, -111, "refused", now_ns);
	assert_int_equal(search.outcome, SML_SEARCH_FAILED);
	sml_search_tell(&search, text, sizeof(text));
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(strstr(text, names[i]));
}
