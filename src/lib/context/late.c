/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/late.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/progress/question.h"

/* From then on, a rank is silent: each of them says something once a second. */
#define SILENT_MS 3000
/* Ranks whose hosts are named. */
#define NAMED_HOSTS 4

void sml_late_init(struct sml_late *late)
{
	*late = (struct sml_late){.waits = false};
	pthread_mutex_init(&late->lock, NULL);
}

void sml_late_forget(struct sml_late *late)
{
	for (unsigned i = 0; i < SML_MAX_STRIPES; i++) {
		sml_stall_report_close(late->told[i]);
		late->told[i] = NULL;
	}
	late->asked_ns = 0;
}

void sml_late_fini(struct sml_late *late)
{
	sml_late_forget(late);
	pthread_mutex_destroy(&late->lock);
}

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

static void add_report(const struct sml_threads *threads, unsigned stripe,
		       const struct sml_stall_report *report, struct missing *missing)
{
	struct sml_stall_report *whole = sml_question_complete(threads, stripe, report);

	add_slots(whole ? &whole->waits : &report->waits, missing);
	sml_stall_report_close(whole);
}

static bool is_silent(const struct sml_stall_rank *about)
{
	return about->heard && about->last_heard_ms >= SILENT_MS;
}

static void add_silent(const struct sml_stall_report *names, struct sml_ranks *ranks)
{
	for (unsigned rank = 0; names && rank < names->n_ranks; rank++)
		if (is_silent(&names->ranks[rank]))
			sml_ranks_add(ranks, rank);
}

/*
 * Rank 0 has not told all. On one host, each rank can see all slots; what has been told still names
 * the ranks' hosts.
 */
static void look(struct sml_late *late, const struct sml_threads *threads, unsigned stripe)
{
	struct sml_stall_report *told = late->told[stripe];
	struct sml_stall_report *own = sml_question_look(threads, stripe);

	if (own == NULL)
		return;
	if (told)
		sml_stall_report_name(own, told);
	sml_stall_report_close(told);
	late->told[stripe] = own;
}

/*
 * A rank that waits as this one does may not have made later calls that another rank has made. So
 * the ranks that all slots wait for are the late ones, if there are any. If no slot waits, a rank
 * that has stopped may have to pass the results on.
 */
void sml_late_find(struct sml_late *late, const struct sml_threads *threads, unsigned n_stripes,
		   unsigned own_rank, struct sml_late_ranks *found)
{
	struct missing missing = {.waits = false};
	struct sml_ranks own = {{0}};

	*found = (struct sml_late_ranks){.silent = n_stripes};
	for (unsigned i = 0; i < n_stripes; i++) {
		bool answers = late->told[i] && !late->told[i]->waits.is_partial;

		if (!answers && found->silent == n_stripes)
			found->silent = i;
		if (!answers)
			look(late, threads, i);
		if (late->told[i] == NULL)
			continue;
		add_report(threads, i, late->told[i], &missing);
		found->names = late->told[i];
	}
	found->ranks = sml_ranks_is_empty(&missing.all) ? missing.any : missing.all;
	if (sml_ranks_is_empty(&found->ranks))
		add_silent(found->names, &found->ranks);
	sml_ranks_add(&own, own_rank);
	sml_ranks_subtract(&found->ranks, &own);
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

void sml_late_hosts(const struct sml_late_ranks *late, char text[SML_LATE_HOSTS_BYTES])
{
	const struct sml_stall_report *names = late->names;
	const struct sml_ranks *ranks = &late->ranks;
	size_t length = 0;
	unsigned n = 0;

	text[0] = '\0';
	for (unsigned rank = sml_ranks_next(ranks, 0);
	     names && rank < names->n_ranks && n <= NAMED_HOSTS;
	     rank = sml_ranks_next(ranks, rank + 1)) {
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
