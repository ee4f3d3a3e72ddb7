/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/late.h"

#include <inttypes.h>
#include <stdio.h>

/* From then on, a rank is silent: each of them says something once a second. */
#define SILENT_MS 3000
/* Ranks whose hosts are named. */
#define NAMED_HOSTS 4

/* ---- which ranks ---- */

/* The ranks that slots wait for. */
struct missing {
	bool waits;	      /* a slot does */
	struct sml_ranks all; /* that each of them waits for */
	struct sml_ranks any;
};

static void add_slots(const struct sml_waits *waits, struct missing *missing)
{
	for (uint32_t slot = 0; slot < waits->n_slots; slot++) {
		struct sml_ranks ranks;

		if (!sml_waits_knows(waits, slot) || sml_waits_is_complete(waits, slot))
			continue;
		sml_waits_get(waits, slot, &ranks);
		if (missing->waits)
			sml_ranks_intersect(&missing->all, &ranks);
		else
			missing->all = ranks;
		sml_ranks_unite(&missing->any, &ranks);
		missing->waits = true;
	}
}

static bool is_silent(const struct sml_stall_rank *about)
{
	return about->heard && about->last_heard_ms >= SILENT_MS;
}

/* Who the ranks are; NULL if nothing says it. */
static const struct sml_stall_report *names_of(const struct sml_stall_reports *reports)
{
	const struct sml_stall_report *names = NULL;

	for (unsigned i = 0; i < SML_MAX_STRIPES; i++)
		names = reports->of[i] ? reports->of[i] : names;
	return names;
}

static void add_silent(const struct sml_stall_report *names, struct sml_ranks *ranks)
{
	for (unsigned rank = 0; names && rank < names->n_ranks; rank++)
		if (is_silent(&names->ranks[rank]))
			sml_ranks_add(ranks, rank);
}

/*
 * A rank that waits as this one does may not have made later calls that another rank has made. So
 * the ranks that all slots wait for are the late ones, if there are any. If no slot waits, a rank
 * that has stopped may have to pass the results on.
 */
void sml_late_find(const struct sml_stall_reports *reports, unsigned own_rank,
		   struct sml_ranks *late)
{
	struct missing missing = {.waits = false};
	struct sml_ranks own = {{0}};

	for (unsigned i = 0; i < SML_MAX_STRIPES; i++)
		if (reports->of[i])
			add_slots(&reports->of[i]->waits, &missing);
	*late = sml_ranks_is_empty(&missing.all) ? missing.any : missing.all;
	if (sml_ranks_is_empty(late))
		add_silent(names_of(reports), late);
	sml_ranks_add(&own, own_rank);
	sml_ranks_subtract(late, &own);
}

/* ---- in words ---- */

static size_t name_host(const struct sml_stall_rank *about, bool first, char *text, size_t bytes)
{
	char silent[48] = "";

	if (is_silent(about))
		snprintf(silent, sizeof(silent), ", not heard for %" PRIu64 " s",
			 about->last_heard_ms / 1000);
	return (size_t)snprintf(text, bytes, "%s%.63s, pid %" PRIu32 "%s", first ? " (" : "; ",
				about->host, about->pid, silent);
}

void sml_late_hosts(const struct sml_stall_reports *reports, const struct sml_ranks *late,
		    char text[SML_LATE_HOSTS_BYTES])
{
	const struct sml_stall_report *names = names_of(reports);
	size_t length = 0;
	unsigned n = 0;

	text[0] = '\0';
	for (unsigned rank = sml_ranks_next(late, 0);
	     names && rank < names->n_ranks && n <= NAMED_HOSTS;
	     rank = sml_ranks_next(late, rank + 1)) {
		if (!names->ranks[rank].heard || !names->ranks[rank].host[0])
			continue;
		if (n++ < NAMED_HOSTS)
			length += name_host(&names->ranks[rank], n == 1, text + length,
					    SML_LATE_HOSTS_BYTES - length);
	}
	if (n > 0)
		snprintf(text + length, SML_LATE_HOSTS_BYTES - length, "%s)",
			 n > NAMED_HOSTS ? "; ..." : "");
}
