/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of several daemons controls one BMv2 (owner.c): on a table that only remembers, as BMv2 has
 * it, and in virtual time, in which other daemons act while one of them waits. p4.sh tests the same
 * with a real BMv2.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "support/test.h"
#include "switch/p4/thrift/internal.h"

#define DAEMONS 3

/* ---- time: it passes only while somebody waits ---- */

static uint64_t now_ns;
static void (*while_waiting)(void);

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = sml_timespec(now_ns);
	return 0;
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	assert_null(fds);
	assert_int_equal(n, 0);
	now_ns += SML_NS_PER_MS * (unsigned)timeout_ms;
	if (while_waiting != NULL)
		while_waiting();
	return 0;
}

/* ---- the table: at most one entry with a key, and each one with a new handle ---- */

static struct {
	bool is_there;
	struct sml_bmv2_entry entry;
	gint32 next_handle;
	bool is_full; /* of others' entries */
	int gone;     /* the error of every call; 0: none */
} bmv2;

static void (*before_deleting)(void); /* once */

static int outcome(bool done)
{
	return bmv2.gone != 0 ? bmv2.gone : done ? 0 : SML_BMV2_REFUSED;
}

static bool has(gint32 handle)
{
	return bmv2.is_there && bmv2.entry.handle == handle && bmv2.gone == 0;
}

int sml_bmv2_add(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 *handle)
{
	(void)target;
	if (bmv2.is_there || bmv2.is_full || bmv2.gone != 0)
		return outcome(false);
	bmv2.is_there = true;
	bmv2.entry = (struct sml_bmv2_entry){bmv2.next_handle++, row->parameters[0]};
	*handle = bmv2.entry.handle;
	return 0;
}

int sml_bmv2_find(struct sml_p4_target *target, const struct sml_p4_row *row,
		  struct sml_bmv2_entry *found)
{
	(void)target, (void)row;
	*found = bmv2.entry;
	return outcome(bmv2.is_there);
}

int sml_bmv2_change(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 handle)
{
	bool is_there = has(handle);

	(void)target;
	if (is_there)
		bmv2.entry.parameter = row->parameters[0];
	return outcome(is_there);
}

int sml_bmv2_delete(struct sml_p4_target *target, const char *table, gint32 handle)
{
	void (*first)(void) = before_deleting;
	bool is_there;

	(void)target, (void)table;
	before_deleting = NULL;
	if (first != NULL)
		first();
	is_there = has(handle);
	bmv2.is_there = bmv2.is_there && !is_there;
	return outcome(is_there);
}

static unsigned n_cleared;

int sml_bmv2_clear(struct sml_p4_target *target, const char *table)
{
	(void)target, (void)table;
	n_cleared++;
	return 0;
}

static gint32 spared;

int sml_bmv2_delete_others(struct sml_p4_target *target, const char *table, gint32 handle)
{
	(void)target, (void)table;
	spared = handle;
	return 0;
}

int sml_bmv2_fail(struct sml_p4_target *target, const char *what, GError *error)
{
	(void)target, (void)error;
	return sml_error_set(-EREMOTEIO, "%s: it refuses", what);
}

/* ---- daemons ---- */

static const struct sml_p4_services services = {.error_set = sml_error_set};
static struct sml_p4_target daemons[DAEMONS];
static int others_result;

static void begin(void)
{
	memset(&bmv2, 0, sizeof(bmv2));
	memset(daemons, 0, sizeof(daemons));
	now_ns = SML_NS_PER_SEC;
	while_waiting = before_deleting = NULL;
	n_cleared = 0;
	spared = -1;
	others_result = 1;
	for (unsigned i = 0; i < DAEMONS; i++) {
		daemons[i].services = &services;
		strcpy(daemons[i].where, "box port 9090");
	}
}

/* And the first one controls BMv2. */
static void begin_owned(void)
{
	begin();
	assert_int_equal(sml_bmv2_owner_take(&daemons[0]), 0);
}

static void first_beats(void)
{
	assert_int_equal(sml_bmv2_owner_beat(&daemons[0]), 0);
}

static void first_gives(void)
{
	sml_bmv2_owner_give(&daemons[0]);
}

static void pass(uint64_t ms)
{
	now_ns += ms * SML_NS_PER_MS;
}

static void assert_told(int rc, int error, const char *words)
{
	assert_int_equal(rc, error);
	assert_non_null(strstr(sml_error_last(), words));
}

/* ---- tests ---- */

TEST_WITH(a_daemon_that_is_alone_does_not_wait, begin, NULL)
{
	assert_int_equal(sml_bmv2_owner_take(&daemons[0]), 0);
	sml_bmv2_owner_give(&daemons[0]);
	assert_false(bmv2.is_there);
	assert_int_equal(sml_bmv2_owner_take(&daemons[1]), 0);
	assert_int_equal(now_ns, SML_NS_PER_SEC);
}

TEST_WITH(a_second_daemon_is_refused_at_the_first_beat, begin_owned, NULL)
{
	uint64_t began_ns;

	while_waiting = first_beats;
	began_ns = now_ns;
	assert_told(sml_bmv2_owner_take(&daemons[1]), -EEXIST,
		    "another switchml switch controls the P4 switch at box port 9090: end it");
	assert_true(now_ns - began_ns <= SML_NS_PER_SEC);
	/* What it leaves behind is not the other's entry. */
	sml_bmv2_owner_give(&daemons[1]);
	first_beats();
}

TEST_WITH(a_dead_daemon_is_succeeded_after_seconds, begin_owned, NULL)
{
	uint64_t began_ns;

	first_beats();
	began_ns = now_ns;
	assert_int_equal(sml_bmv2_owner_take(&daemons[1]), 0);
	assert_true(now_ns - began_ns >= 4 * SML_NS_PER_SEC);
	assert_true(now_ns - began_ns <= 6 * SML_NS_PER_SEC);
}

TEST_WITH(a_daemon_that_ends_is_succeeded_at_once, begin_owned, NULL)
{
	uint64_t began_ns;

	while_waiting = first_gives;
	began_ns = now_ns;
	assert_int_equal(sml_bmv2_owner_take(&daemons[1]), 0);
	assert_true(now_ns - began_ns <= SML_NS_PER_SEC);
}

static void third_beats(void)
{
	assert_int_equal(sml_bmv2_owner_beat(&daemons[2]), 0);
}

static void third_takes(void)
{
	others_result = sml_bmv2_owner_take(&daemons[2]);
	while_waiting = third_beats;
}

/* Both have watched the dead one's entry, and the second deletes it when it is the third's. */
TEST_WITH(of_two_successors_one_is_refused, begin_owned, NULL)
{
	before_deleting = third_takes;
	assert_told(sml_bmv2_owner_take(&daemons[1]), -EEXIST, "another switchml switch controls");
	assert_int_equal(others_result, 0);
	third_beats();
}

TEST_WITH(a_daemon_that_was_stopped_for_long_changes_nothing_more, begin_owned, NULL)
{
	assert_int_equal(sml_bmv2_owner_keep(&daemons[0]), 0);
	assert_int_equal(sml_bmv2_owner_take(&daemons[1]), 0); /* this takes seconds */
	assert_told(sml_bmv2_owner_keep(&daemons[0]), -EEXIST,
		    "has taken over the P4 switch at box");
	assert_told(sml_bmv2_owner_beat(&daemons[0]), -EEXIST,
		    "has taken over the P4 switch at box");
	sml_bmv2_owner_give(&daemons[0]);
	assert_int_equal(sml_bmv2_owner_beat(&daemons[1]), 0);
}

TEST_WITH(a_busy_daemon_beats_before_its_lease_ends, begin_owned, NULL)
{
	struct sml_p4_field before;

	before = bmv2.entry.parameter;
	pass(100);
	assert_int_equal(sml_bmv2_owner_keep(&daemons[0]), 0);
	assert_memory_equal(before.bytes, bmv2.entry.parameter.bytes, before.n);
	pass(3000);
	assert_int_equal(sml_bmv2_owner_keep(&daemons[0]), 0);
	assert_memory_not_equal(before.bytes, bmv2.entry.parameter.bytes, before.n);
}

TEST_WITH(the_owners_entry_survives_what_clears_the_tables, begin, NULL)
{
	bmv2.next_handle = 77;
	assert_int_equal(sml_bmv2_owner_take(&daemons[0]), 0);
	assert_int_equal(sml_bmv2_owner_clear(&daemons[0], "SmlIngress.admission.members"), 0);
	assert_int_equal(n_cleared, 1);
	assert_int_equal(sml_bmv2_owner_clear(&daemons[0], "SmlIngress.admission.ranks"), 0);
	assert_int_equal(n_cleared, 1);
	assert_int_equal(spared, 77);
}

TEST_WITH(a_table_without_room_is_refused_at_once, begin, NULL)
{
	bmv2.is_full = true;
	assert_told(sml_bmv2_owner_take(&daemons[0]), -EREMOTEIO, "it refuses");
	assert_int_equal(now_ns, SML_NS_PER_SEC);
}

TEST_WITH(a_switch_that_is_gone_is_told, begin_owned, NULL)
{
	bmv2.gone = -EREMOTEIO;
	assert_int_equal(sml_bmv2_owner_beat(&daemons[0]), -EREMOTEIO);
	assert_int_equal(sml_bmv2_owner_take(&daemons[1]), -EREMOTEIO);
}
