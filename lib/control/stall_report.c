/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/stall_report.h"

#include <stdio.h>
#include <stdlib.h>

static void add_slot(struct sml_stall_report *report, const SmlControl__SlotState *state)
{
	if (state->slot >= report->n_slots)
		return;
	report->slots[state->slot] = (struct sml_stall_slot){state->missing, state->use, true};
	for (unsigned rank = 0; rank < SML_MAX_CHILDREN; rank++)
		report->n_missing[rank] += (uint32_t)(state->missing >> rank & 1);
}

static void add_rank(struct sml_stall_report *report, const SmlControl__RankState *state)
{
	struct sml_stall_rank *rank;

	if (state->rank >= SML_MAX_CHILDREN)
		return;
	rank = &report->ranks[state->rank];
	snprintf(rank->host, sizeof(rank->host), "%s", state->host);
	rank->pid = state->pid;
	rank->last_heard_ms = state->last_heard_ms;
	rank->connected = state->connected;
	rank->heard = true;
}

struct sml_stall_report *sml_stall_report_new(const SmlControl__StallReport *message,
					      uint32_t n_slots)
{
	struct sml_stall_report *report =
		calloc(1, sizeof(*report) + n_slots * sizeof(report->slots[0]));

	if (report == NULL)
		return NULL;
	report->n_slots = n_slots;
	for (size_t i = 0; i < message->n_slots; i++)
		add_slot(report, message->slots[i]);
	for (size_t i = 0; i < message->n_ranks; i++)
		add_rank(report, message->ranks[i]);
	return report;
}
