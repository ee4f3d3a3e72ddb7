/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/common/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"

/* A packed slot, and what a packed set has besides its ranks, at most. */
#define SLOT_BYTES 16
#define SET_BYTES  4
/* In search of a set. One that is not found is kept once more. */
#define MOST_LOOKS 256u

bool sml_waits_init(struct sml_waits *waits, uint32_t n_slots, unsigned n_ranks)
{
	sml_assert(n_ranks >= 1 && n_ranks <= SML_MAX_WORLD && n_slots <= SML_MAX_SLOTS);
	*waits = (struct sml_waits){
		.n_slots = n_slots,
		.n_ranks = n_ranks,
		.n_words = (n_ranks + 63) / 64,
		.n_sets = 1,
	};
	/* A slot that is noted again may leave a set that nobody waits for any more. */
	waits->max_sets = sml_least(
		2 * n_slots + 1, SML_WAITS_BYTES / (waits->n_words * (uint32_t)sizeof(uint64_t)));
	waits->slots = calloc(n_slots + 1, sizeof(*waits->slots));
	waits->words = calloc((size_t)waits->max_sets * waits->n_words, sizeof(*waits->words));
	if (waits->slots != NULL && waits->words != NULL)
		return true;
	sml_waits_fini(waits);
	return false;
}

void sml_waits_fini(struct sml_waits *waits)
{
	free(waits->slots);
	free(waits->words);
	*waits = (struct sml_waits){.n_slots = 0};
}

void sml_waits_clear(struct sml_waits *waits)
{
	waits->n_sets = 1;
	waits->is_partial = false;
	memset(waits->slots, 0, waits->n_slots * sizeof(*waits->slots));
}

/* ---- sets ---- */

static uint64_t *words_of(const struct sml_waits *waits, uint32_t set)
{
	return waits->words + (size_t)set * waits->n_words;
}

/* -1: there is no room for it. The newest come first: neighbors mostly wait for the same ranks. */
static int find_set(struct sml_waits *waits, const struct sml_ranks *ranks)
{
	size_t bytes = waits->n_words * sizeof(uint64_t);

	if (sml_ranks_is_empty(ranks))
		return 0;
	for (uint32_t back = 1; back < waits->n_sets && back <= MOST_LOOKS; back++)
		if (memcmp(words_of(waits, waits->n_sets - back), ranks->words, bytes) == 0)
			return (int)(waits->n_sets - back);
	if (waits->n_sets == waits->max_sets)
		return -1;
	memcpy(words_of(waits, waits->n_sets), ranks->words, bytes);
	return (int)waits->n_sets++;
}

/* ---- slots ---- */

void sml_waits_note(struct sml_waits *waits, uint32_t slot, uint32_t use,
		    const struct sml_ranks *ranks)
{
	int set;

	if (slot >= waits->n_slots)
		return;
	set = find_set(waits, ranks);
	waits->slots[slot] = (struct sml_slot_waits){.known = false};
	if (set < 0)
		waits->is_partial = true;
	else
		waits->slots[slot] = (struct sml_slot_waits){use, (uint16_t)set, true};
}

void sml_waits_get(const struct sml_waits *waits, uint32_t slot, struct sml_ranks *ranks)
{
	*ranks = (struct sml_ranks){{0}};
	if (sml_waits_knows(waits, slot))
		memcpy(ranks->words, words_of(waits, waits->slots[slot].set),
		       waits->n_words * sizeof(uint64_t));
}

static void add_set(const struct sml_waits *waits, uint32_t set, uint32_t times,
		    uint32_t *n_missing)
{
	for (unsigned word = 0; word < waits->n_words; word++)
		for (uint64_t rest = words_of(waits, set)[word]; rest != 0; rest &= rest - 1)
			n_missing[word * 64 + (unsigned)__builtin_ctzll(rest)] += times;
}

uint32_t sml_waits_count(const struct sml_waits *waits, uint32_t *n_missing)
{
	uint32_t times[SML_MAX_SLOTS * 2 + 1] = {0}, n = 0;

	for (uint32_t slot = 0; slot < waits->n_slots; slot++)
		times[waits->slots[slot].set]++;
	for (uint32_t set = 1; set < waits->n_sets; set++) {
		add_set(waits, set, times[set], n_missing);
		n += times[set];
	}
	return n;
}

/* ---- in messages ---- */

void sml_waits_free(struct sml_waits_message *message)
{
	free(message->states);
	free(message->bytes);
	free(message->report.slots);
	free(message->report.sets);
	*message = (struct sml_waits_message){.states = NULL};
}

/* Sets have the same numbers in the message. False: there is no room for all up to this one. */
static bool add_sets(const struct sml_waits *waits, uint32_t set, size_t *room,
		     struct sml_waits_message *message)
{
	SmlControl__StallReport *report = &message->report;

	while (report->n_sets < set) {
		uint8_t *at = message->bytes + report->n_sets * waits->n_words * 8u;
		uint8_t bytes[SML_RANKS_BYTES];
		struct sml_ranks ranks = {{0}};
		size_t n;

		memcpy(ranks.words, words_of(waits, (uint32_t)report->n_sets + 1),
		       waits->n_words * sizeof(uint64_t));
		n = sml_ranks_pack(&ranks, bytes);
		if (n + SET_BYTES + SLOT_BYTES > *room)
			return false;
		*room -= n + SET_BYTES;
		memcpy(at, bytes, n);
		report->sets[report->n_sets++] = (ProtobufCBinaryData){n, at};
	}
	return true;
}

static void add_slot(const struct sml_waits *waits, uint32_t slot, size_t *room,
		     struct sml_waits_message *message)
{
	SmlControl__StallReport *report = &message->report;
	SmlControl__SlotState *state = &message->states[report->n_slots];

	if (!add_sets(waits, waits->slots[slot].set, room, message) || *room < SLOT_BYTES) {
		report->partial = true;
		return;
	}
	*room -= SLOT_BYTES;
	sml_control__slot_state__init(state);
	state->slot = slot;
	state->use = waits->slots[slot].use;
	state->set = waits->slots[slot].set;
	report->slots[report->n_slots++] = state;
}

void sml_waits_pack(const struct sml_waits *waits, size_t room, struct sml_waits_message *message)
{
	SmlControl__StallReport *report = &message->report;

	*message = (struct sml_waits_message){.report = SML_CONTROL__STALL_REPORT__INIT};
	report->partial = true;
	if (waits == NULL)
		return;
	message->states = calloc(waits->n_slots + 1, sizeof(*message->states));
	message->bytes = calloc(waits->n_sets, waits->n_words * 8u);
	report->slots = calloc(waits->n_slots + 1, sizeof(SmlControl__SlotState *));
	report->sets = calloc(waits->n_sets, sizeof(*report->sets));
	if (message->states == NULL || message->bytes == NULL || report->slots == NULL ||
	    report->sets == NULL)
		return;
	report->partial = waits->is_partial;
	for (unsigned complete = 0; complete < 2; complete++)
		for (uint32_t slot = 0; slot < waits->n_slots; slot++)
			if (sml_waits_knows(waits, slot) &&
			    sml_waits_is_complete(waits, slot) == complete)
				add_slot(waits, slot, &room, message);
}

void sml_waits_unpack(struct sml_waits *waits, const SmlControl__StallReport *report,
		      const struct sml_ranks *only)
{
	struct sml_ranks ranks;

	sml_waits_clear(waits);
	waits->is_partial = report->partial;
	for (size_t i = 0; i < report->n_slots; i++) {
		uint32_t set = report->slots[i]->set;

		ranks = (struct sml_ranks){{0}};
		if (set > report->n_sets ||
		    (set > 0 && !sml_ranks_unpack(&ranks, report->sets[set - 1].data,
						  report->sets[set - 1].len, waits->n_ranks))) {
			waits->is_partial = true;
			continue;
		}
		if (only != NULL)
			sml_ranks_intersect(&ranks, only);
		sml_waits_note(waits, report->slots[i]->slot, report->slots[i]->use, &ranks);
	}
}
