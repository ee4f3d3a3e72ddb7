/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/standing.h"

bool sml_standing_has(const struct sml_standing *standing, uint32_t call)
{
	uint32_t i = call - standing->first;

	if (sml_serial_before(call, standing->first))
		return true;
	return i < SML_STANDING_CALLS && (standing->complete[i / 64] >> i % 64 & 1) != 0;
}

void sml_standing_add(struct sml_standing *standing, uint32_t call)
{
	uint32_t i = call - standing->first;

	if (i < SML_STANDING_CALLS)
		standing->complete[i / 64] |= (uint64_t)1 << i % 64;
}

/* The standing that has settled the job's calls; n: none has. */
static unsigned find_settled(const struct sml_standing *all, unsigned n, uint64_t job)
{
	unsigned i = 0;

	while (i < n && (all[i].job != job || !all[i].settled))
		i++;
	return i;
}

/* It has these calls; the first that has a call gives it. */
static void add_giver(struct sml_settlement *settlement, const struct sml_standing *giver,
		      unsigned at)
{
	for (uint32_t i = 0; i < settlement->n_calls; i++)
		if (settlement->givers[i] == 0 && sml_standing_has(giver, settlement->first + i))
			settlement->givers[i] = (uint16_t)(at + 1);
}

static bool measure(const struct sml_standing *all, unsigned n, struct sml_settlement *settlement)
{
	uint32_t last = settlement->first;

	for (unsigned i = 0; i < n; i++) {
		if (all[i].job != settlement->job)
			continue;
		if (sml_serial_before(all[i].first, settlement->first))
			settlement->first = all[i].first;
		last = sml_serial_max(last, all[i].first);
	}
	settlement->n_calls = last - settlement->first + SML_STANDING_CALLS;
	return last - settlement->first <= SML_STANDING_CALLS;
}

bool sml_standing_settle(const struct sml_standing *all, unsigned n, unsigned at,
			 struct sml_settlement *settlement)
{
	unsigned settled = find_settled(all, n, all[at].job);

	*settlement = (struct sml_settlement){.job = all[at].job, .first = all[at].first};
	if (!measure(all, n, settlement))
		return false;
	if (settled < n) {
		add_giver(settlement, &all[settled], settled);
		return true;
	}
	for (unsigned i = 0; i < n; i++)
		if (all[i].job == settlement->job)
			add_giver(settlement, &all[i], i);
	return true;
}

bool sml_settlement_completes(const struct sml_settlement *settlement, uint32_t call)
{
	uint32_t i = call - settlement->first;

	return i < settlement->n_calls && settlement->givers[i] != 0;
}

static bool gives_any(const struct sml_settlement *settlement, unsigned at)
{
	for (uint32_t i = 0; i < settlement->n_calls; i++)
		if (settlement->givers[i] == at + 1)
			return true;
	return false;
}

/* Does a member lack a call that all[at] gives? */
static bool lacks(const struct sml_settlement *settlement, const struct sml_standing *member,
		  unsigned at)
{
	for (uint32_t i = 0; i < settlement->n_calls; i++)
		if (settlement->givers[i] == at + 1 &&
		    !sml_standing_has(member, settlement->first + i))
			return true;
	return false;
}

bool sml_settlement_needs(const struct sml_settlement *settlement, const struct sml_standing *all,
			  unsigned n, unsigned at)
{
	/* Most give nothing: otherwise, time would grow with the square of the ranks. */
	if (all[at].job != settlement->job || !gives_any(settlement, at))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (all[i].job == settlement->job && !all[i].settled &&
		    lacks(settlement, &all[i], at))
			return true;
	return false;
}
