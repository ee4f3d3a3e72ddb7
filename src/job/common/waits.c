/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/common/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "job/dataplane.h"

/* A packed slot, and what a packed set has besides its ranks, at most. */
#define SLOT_BYTES 16
#define SET_BYTES  4
/* In search of a set. More are needed only if somebody has chosen sets that are hard to find. */
#define MOST_LOOKS 256u

bool sml_waits_init(struct sml_waits *waits, uint32_t n_slots, unsigned n_ranks)
{
	sml_assert(n_ranks >= 1 && n_ranks <= SML_MAX_WORLD && n_slots <= SML_MAX_SLOTS);
	*waits = (struct sml_waits){
		.n_slots = n_slots,
		.n_ranks = n_ranks,
		.n_words = (n_ranks + 63) / 64,
		.n_places = 64,
	};
	/* A slot that is noted again may leave a set that nobody waits for any more. */
	waits->max_sets = sml_least(
		2 * n_slots + 1, SML_WAITS_BYTES / (waits->n_words * (uint32_t)sizeof(uint64_t)));
	while (waits->n_places < 2 * waits->max_sets)
		waits->n_places *= 2;
	waits->slots = calloc(n_slots + 1, sizeof(*waits->slots));
	waits->words = calloc((size_t)waits->max_sets * waits->n_words, sizeof(*waits->words));
	waits->places = calloc(waits->n_places, sizeof(*waits->places));
	if (waits->slots != NULL && waits->words != NULL && waits->places != NULL) {
		sml_waits_clear(waits);
		return true;
	}
	sml_waits_fini(waits);
	return false;
}

void sml_waits_fini(struct sml_waits *waits)
{
	free(waits->slots);
	free(waits->words);
	free(waits->places);
	*waits = (struct sml_waits){.n_slots = 0};
}

/* ---- sets ---- */

static uint64_t *words_of(const struct sml_waits *waits, uint32_t set)
{
	return waits->words + (size_t)set * waits->n_words;
}

/* Each bit of each word reaches the lower bits: sets may differ in any rank. */
static uint32_t hash_of(const struct sml_waits *waits, const uint64_t *words)
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < waits->n_words; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
		hash *= 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return (uint32_t)(hash ^ hash >> 32);
}

/* -1: there is no room for it. */
static int find_set(struct sml_waits *waits, const struct sml_ranks *ranks)
{
	size_t bytes = waits->n_words * sizeof(uint64_t);
	uint32_t mask = waits->n_places - 1, place = hash_of(waits, ranks->words) & mask;
	unsigned n_looks = 0;

	/* At most half of the places are taken. */
	for (; waits->places[place] != 0; place = (place + 1) & mask) {
		if (memcmp(words_of(waits, waits->places[place] - 1u), ranks->words, bytes) == 0)
			return waits->places[place] - 1;
		if (++n_looks == MOST_LOOKS)
			return -1;
	}
	if (waits->n_sets == waits->max_sets)
		return -1;
	memcpy(words_of(waits, waits->n_sets), ranks->words, bytes);
	waits->places[place] = (uint16_t)++waits->n_sets;
	return (int)waits->n_sets - 1;
}

void sml_waits_clear(struct sml_waits *waits)
{
	const struct sml_ranks none = {{0}};

	waits->n_sets = 0;
	waits->is_partial = false;
	memset(waits->slots, 0, waits->n_slots * sizeof(*waits->slots));
	memset(waits->places, 0, waits->n_places * sizeof(*waits->places));
	(void)find_set(waits, &none);
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

void sml_waits_add(struct sml_waits *waits, const struct sml_slot_progress *slots, uint32_t n,
		   sml_waits_missing *missing, const struct sml_job_pool *pool)
{
	struct sml_ranks ranks;

	for (uint32_t i = 0; i < n; i++) {
		if (missing(pool, &slots[i], &ranks))
			sml_waits_note(waits, slots[i].slot, slots[i].use, &ranks);
		else
			waits->is_partial = true;
	}
}

static bool is_ahead(const struct sml_waits *below, const struct sml_waits *here, uint32_t slot)
{
	return sml_waits_knows(below, slot) && !sml_waits_is_complete(below, slot) &&
	       (!sml_waits_knows(here, slot) ||
		sml_serial_before(here->slots[slot].use, below->slots[slot].use));
}

void sml_waits_add_below(struct sml_waits *waits, const struct sml_waits *below,
			 sml_waits_missing *missing, const struct sml_job_pool *pool)
{
	for (uint32_t i = 0; i < waits->n_slots; i++) {
		struct sml_slot_progress slot = {.slot = (uint16_t)i, .missing = UINT64_MAX};

		if (!is_ahead(below, waits, i))
			continue;
		slot.use = below->slots[i].use;
		sml_waits_add(waits, &slot, 1, missing, pool);
	}
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

void sml_waits_count(const struct sml_waits *waits, uint32_t *n_missing)
{
	uint32_t times[SML_MAX_SLOTS * 2 + 1] = {0};

	for (uint32_t slot = 0; slot < waits->n_slots; slot++)
		if (waits->slots[slot].known)
			times[waits->slots[slot].set]++;
	for (uint32_t set = 1; set < waits->n_sets; set++)
		if (times[set] > 0)
			add_set(waits, set, times[set], n_missing);
}

/* ---- in messages ---- */

void sml_waits_free(struct sml_waits_message *message)
{
	free(message->states);
	free(message->slots);
	free(message->sets);
	free(message->bytes);
	free(message->set_of);
	*message = (struct sml_waits_message){.n_slots = 0};
}

/* The set's number in the message, from 1. 0: there is no room. */
static uint32_t add_packed_set(const struct sml_waits *waits, uint32_t set, size_t *room,
			       struct sml_waits_message *message)
{
	uint8_t *at = message->bytes + message->n_sets * waits->n_words * 8u;
	uint8_t bytes[SML_RANKS_BYTES];
	struct sml_ranks ranks = {{0}};
	size_t n;

	if (message->set_of[set] != 0)
		return message->set_of[set];
	memcpy(ranks.words, words_of(waits, set), waits->n_words * sizeof(uint64_t));
	n = sml_ranks_pack(&ranks, bytes);
	if (n + SET_BYTES + SLOT_BYTES > *room)
		return 0;
	*room -= n + SET_BYTES;
	memcpy(at, bytes, n);
	message->sets[message->n_sets++] = (ProtobufCBinaryData){n, at};
	message->set_of[set] = (uint16_t)message->n_sets;
	return message->set_of[set];
}

static void add_slot(const struct sml_waits *waits, uint32_t slot, size_t *room,
		     struct sml_waits_message *message)
{
	SmlControl__SlotState *state = &message->states[message->n_slots];
	uint32_t set = 0;

	if (!sml_waits_is_complete(waits, slot))
		set = add_packed_set(waits, waits->slots[slot].set, room, message);
	if (*room < SLOT_BYTES || (set == 0 && !sml_waits_is_complete(waits, slot))) {
		message->is_partial = true;
		return;
	}
	*room -= SLOT_BYTES;
	sml_control__slot_state__init(state);
	state->slot = slot;
	state->use = waits->slots[slot].use;
	state->set = set;
	message->slots[message->n_slots++] = state;
}

bool sml_waits_pack(const struct sml_waits *waits, size_t room, struct sml_waits_message *message)
{
	*message = (struct sml_waits_message){.is_partial = waits->is_partial};
	message->states = calloc(waits->n_slots + 1, sizeof(*message->states));
	message->slots = calloc(waits->n_slots + 1, sizeof(SmlControl__SlotState *));
	message->sets = calloc(waits->max_sets, sizeof(*message->sets));
	message->bytes = calloc(waits->max_sets, waits->n_words * 8u);
	message->set_of = calloc(waits->max_sets, sizeof(*message->set_of));
	if (message->states == NULL || message->slots == NULL || message->sets == NULL ||
	    message->bytes == NULL || message->set_of == NULL) {
		sml_waits_free(message);
		return false;
	}
	for (unsigned complete = 0; complete < 2; complete++)
		for (uint32_t slot = 0; slot < waits->n_slots; slot++)
			if (sml_waits_knows(waits, slot) &&
			    sml_waits_is_complete(waits, slot) == complete)
				add_slot(waits, slot, &room, message);
	return true;
}

void sml_waits_unpack(struct sml_waits *waits, SmlControl__SlotState *const *slots, size_t n_slots,
		      const ProtobufCBinaryData *sets, size_t n_sets, const struct sml_ranks *only)
{
	struct sml_ranks ranks;

	sml_waits_clear(waits);
	for (size_t i = 0; i < n_slots; i++) {
		uint32_t set = slots[i]->set;

		ranks = (struct sml_ranks){{0}};
		if (set > n_sets ||
		    (set > 0 && !sml_ranks_unpack(&ranks, sets[set - 1].data, sets[set - 1].len,
						  waits->n_ranks))) {
			waits->is_partial = true;
			continue;
		}
		if (only != NULL)
			sml_ranks_intersect(&ranks, only);
		sml_waits_note(waits, slots[i]->slot, slots[i]->use, &ranks);
	}
}
