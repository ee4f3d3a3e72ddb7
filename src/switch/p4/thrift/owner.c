/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which daemon controls the P4 switch. BMv2 obeys any number of clients, so the daemon that
 * controls it adds an entry that no packet can match, because its rank is more than any job has:
 *
 *	open	add the entry. If it is there already, watch it. If it changes, its daemon
 *		lives, and this one is refused. If it does not change for a lease, delete it
 *		and try again.
 *	check	change the entry. If it is no longer there, another daemon has taken over: end.
 *	close	delete the entry
 *
 * BMv2 has at most one entry with a key, and a new entry has a new handle. So of several daemons
 * that add, or that delete the same dead one's entry, one succeeds.
 *
 * The invariant: a daemon whose last beat is older than half a lease beats before it changes
 * anything. If it was stopped for long, it so notices that it has a successor.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "switch/p4/thrift/internal.h"

#define LEASE_NS (5 * SML_NS_PER_SEC)
#define LOOK_MS	 100
/* Each of them begins with an entry that has gone. */
#define TRIES 5

/* In all forms of the program, and no daemon clears the table: see sml_bmv2_owner_clear(). */
#define TABLE  "SmlIngress.admission.ranks"
#define ACTION "SmlIngress.admission.rank"
#define RANK   0xff

static struct sml_p4_row row_of(const struct sml_bmv2_owner *owner)
{
	struct sml_p4_row row = {
		.table = TABLE,
		.action = ACTION,
		.keys = {{.n = 4}, {.bytes = {RANK}, .n = 1}},
		.n_keys = 2,
		.parameters = {{.n = sizeof(owner->beat)}, {.bytes = {0xff, 0xff}, .n = 2}},
		.n_parameters = 2,
	};

	memcpy(row.parameters[0].bytes, &owner->beat, sizeof(owner->beat));
	return row;
}

static bool is_same(const struct sml_bmv2_entry *a, const struct sml_bmv2_entry *b)
{
	return a->handle == b->handle && a->parameter.n == b->parameter.n &&
	       memcmp(a->parameter.bytes, b->parameter.bytes, a->parameter.n) == 0;
}

/* Wait until the entry of another daemon has gone, because the daemon has ended or is dead. */
static int outlive(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	uint64_t end_ns = sml_now_ns() + LEASE_NS;
	struct sml_bmv2_entry first, now;
	int rc = sml_bmv2_find(target, row, &first);

	while (rc == 0 && sml_now_ns() < end_ns) {
		poll(NULL, 0, LOOK_MS);
		rc = sml_bmv2_find(target, row, &now);
		if (rc == 0 && !is_same(&first, &now))
			return target->services->error_set(
				-EEXIST,
				"another switchml switch controls the P4 switch at %s: end it "
				"first, or use another P4 switch",
				target->where);
	}
	if (rc == 0)
		rc = sml_bmv2_delete(target, TABLE, first.handle);
	return rc == SML_BMV2_REFUSED ? 0 : rc;
}

int sml_bmv2_owner_take(struct sml_p4_target *target)
{
	struct sml_bmv2_owner *owner = &target->owner;
	const struct sml_p4_row row = row_of(owner);

	for (unsigned i = 0; i < TRIES; i++) {
		int rc = sml_bmv2_add(target, &row, &owner->handle);

		owner->holds = rc == 0;
		owner->beaten_ns = sml_now_ns();
		if (rc == SML_BMV2_REFUSED)
			rc = outlive(target, &row);
		if (rc < 0 || owner->holds)
			return rc;
	}
	/* It refuses the entry, and has none. */
	return sml_bmv2_fail(target, TABLE, NULL);
}

int sml_bmv2_owner_beat(struct sml_p4_target *target)
{
	struct sml_bmv2_owner *owner = &target->owner;
	/* Before the call: others count from its end. */
	uint64_t now_ns = sml_now_ns();
	struct sml_p4_row row;
	int rc;

	owner->beat++;
	row = row_of(owner);
	rc = sml_bmv2_change(target, &row, owner->handle);
	if (rc == SML_BMV2_REFUSED)
		return target->services->error_set(
			-EEXIST,
			"another switchml switch has taken over the P4 switch at %s, because this "
			"one did not run for seconds",
			target->where);
	owner->beaten_ns = now_ns;
	return rc;
}

int sml_bmv2_owner_keep(struct sml_p4_target *target)
{
	return sml_now_ns() - target->owner.beaten_ns > LEASE_NS / 2 ? sml_bmv2_owner_beat(target)
								     : 0;
}

int sml_bmv2_owner_clear(struct sml_p4_target *target, const char *table)
{
	return strcmp(table, TABLE) == 0
		       ? sml_bmv2_delete_others(target, table, target->owner.handle)
		       : sml_bmv2_clear(target, table);
}

void sml_bmv2_owner_give(struct sml_p4_target *target)
{
	if (target->owner.holds)
		sml_bmv2_delete(target, TABLE, target->owner.handle);
}
