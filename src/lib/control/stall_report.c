/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/stall_report.h"

#include <stdio.h>
#include <stdlib.h>

static void add_rank(struct sml_stall_report *report, const SmlControl__RankState *state)
{
	struct sml_stall_rank *rank;

	if (state->rank >= report->n_ranks)
		return;
	rank = &report->ranks[state->rank];
	snprintf(rank->host, sizeof(rank->host), "%s", state->host);
	rank->pid = state->pid;
	rank->last_heard_ms = state->last_heard_ms;
	rank->connected = state->connected;
	rank->heard = true;
}

struct sml_stall_report *sml_stall_report_open(uint32_t n_slots, unsigned n_ranks)
{
	struct sml_stall_report *report =
		calloc(1, sizeof(*report) + n_ranks * sizeof(report->ranks[0]));

	if (report == NULL)
		return NULL;
	report->holds = 1;
	report->n_ranks = n_ranks;
	if (sml_waits_init(&report->waits, n_slots, n_ranks))
		return report;
	free(report);
	return NULL;
}

struct sml_stall_report *sml_stall_report_new(const SmlControl__StallReport *message,
					      uint32_t n_slots, unsigned n_ranks)
{
	struct sml_stall_report *report = sml_stall_report_open(n_slots, n_ranks);

	if (report == NULL)
		return NULL;
	sml_waits_unpack(&report->waits, message, NULL);
	for (size_t i = 0; i < message->n_ranks; i++)
		add_rank(report, message->ranks[i]);
	return report;
}

void sml_stall_report_name(struct sml_stall_report *report, const struct sml_stall_report *names)
{
	for (unsigned rank = 0; rank < report->n_ranks && rank < names->n_ranks; rank++)
		report->ranks[rank] = names->ranks[rank];
}

struct sml_stall_report *sml_stall_report_hold(struct sml_stall_report *report)
{
	if (report)
		__atomic_add_fetch(&report->holds, 1, __ATOMIC_RELAXED);
	return report;
}

void sml_stall_report_close(struct sml_stall_report *report)
{
	if (report == NULL || __atomic_sub_fetch(&report->holds, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	sml_waits_fini(&report->waits);
	free(report);
}

void sml_stall_reports_close(struct sml_stall_reports *reports)
{
	for (unsigned i = 0; i < SML_MAX_STRIPES; i++)
		sml_stall_report_close(reports->of[i]);
}
