/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks, as text and as bytes; and what slots wait for, in memory and in messages. */
#include <string.h>

#include "job/common/waits.h"
#include "support/test.h"

static struct sml_ranks set_of(unsigned n, const unsigned *ranks)
{
	struct sml_ranks set = {{0}};

	for (unsigned i = 0; i < n; i++)
		sml_ranks_add(&set, ranks[i]);
	return set;
}

static struct sml_ranks from_to(unsigned first, unsigned last)
{
	struct sml_ranks set = {{0}};

	for (unsigned rank = first; rank <= last; rank++)
		sml_ranks_add(&set, rank);
	return set;
}

TEST(a_set_has_what_was_added)
{
	static const unsigned some[] = {0, 63, 64, 4095};
	struct sml_ranks set = set_of(4, some), low = from_to(0, 63);

	for (unsigned i = 0; i < 4; i++)
		assert_true(sml_ranks_has(&set, some[i]));
	assert_false(sml_ranks_has(&set, 1) || sml_ranks_has(&set, 65) ||
		     sml_ranks_has(&set, 4094));
	assert_int_equal(sml_ranks_count(&set), 4);
	assert_int_equal(sml_ranks_next(&set, 0), 0);
	assert_int_equal(sml_ranks_next(&set, 1), 63);
	assert_int_equal(sml_ranks_next(&set, 65), 4095);
	assert_int_equal(sml_ranks_next(&set, 4096), SML_MAX_WORLD);
	sml_ranks_intersect(&set, &low);
	assert_int_equal(sml_ranks_count(&set), 2);
	sml_ranks_subtract(&set, &low);
	assert_true(sml_ranks_is_empty(&set));
	sml_ranks_unite(&set, &low);
	assert_true(sml_ranks_are_equal(&set, &low));
}

static void expect_text(struct sml_ranks set, unsigned more, const char *expected)
{
	char text[SML_RANKS_TEXT_BYTES];

	sml_ranks_text(&set, more, text, sizeof(text));
	assert_string_equal(text, expected);
}

TEST(a_sentence_names_a_few_ranks_and_counts_the_others)
{
	static const unsigned some[] = {3, 7, 4095};
	struct sml_ranks none = {{0}};

	expect_text(none, 0, "");
	expect_text(set_of(1, some), 0, "3");
	expect_text(set_of(2, some), 0, "3 and 7");
	expect_text(set_of(3, some), 0, "3, 7 and 4095");
	expect_text(set_of(2, some), 58, "3, 7 and 58 others");
	expect_text(set_of(1, some), 1, "3 and 1 other");
	expect_text(none, 4096, "4096 others");
	/* One more is named, because "1 other" would be as long. */
	expect_text(from_to(1, 17), 0,
		    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 17");
	expect_text(from_to(1, 18), 0,
		    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 2 others");
	expect_text(from_to(4000, 4095), 4000,
		    "4000, 4001, 4002, 4003, 4004, 4005, 4006, 4007, 4008, 4009, 4010, 4011, 4012, "
		    "4013, 4014, 4015 and 4080 others");
}

TEST(a_sentence_ends_where_its_room_does)
{
	struct sml_ranks set = from_to(4000, 4095);
	char text[SML_RANKS_TEXT_BYTES];

	for (size_t bytes = 1; bytes < sizeof(text); bytes++) {
		memset(text, 'x', sizeof(text));
		sml_ranks_text(&set, 0, text, bytes);
		assert_non_null(memchr(text, '\0', bytes));
		assert_int_equal(text[bytes], 'x');
	}
}

TEST(bytes_are_read_as_they_were_written)
{
	static const unsigned some[] = {0, 9, 103, 4095};
	uint8_t bytes[SML_RANKS_BYTES];
	struct sml_ranks set, read;

	for (unsigned n = 0; n <= 4; n++) {
		size_t length;

		set = set_of(n, some);
		length = sml_ranks_pack(&set, bytes);
		assert_int_equal(length, n == 0 ? 0 : some[n - 1] / 8 + 1);
		assert_true(sml_ranks_unpack(&read, bytes, length, n < 4 ? 104 : 4096));
		assert_true(sml_ranks_are_equal(&set, &read));
	}
}

TEST(ranks_that_there_are_not_are_refused)
{
	uint8_t bytes[SML_RANKS_BYTES + 1] = {[12] = 0x80, [13] = 0x01};
	struct sml_ranks set;

	assert_true(sml_ranks_unpack(&set, bytes, 13, 104));
	assert_false(sml_ranks_unpack(&set, bytes, 13, 103));
	/* A byte that no rank is in, although it is needed for nothing. */
	assert_false(sml_ranks_unpack(&set, bytes, 14, 104));
	assert_true(sml_ranks_unpack(&set, bytes, 14, 105));
	assert_false(sml_ranks_unpack(&set, bytes, sizeof(bytes), 4096));
	assert_false(sml_ranks_unpack(&set, bytes, 1, 4097));
}

/* ---- what slots wait for ---- */

TEST(equal_sets_are_kept_once)
{
	struct sml_ranks set = from_to(60, 70), one = from_to(4095, 4095), read;
	uint32_t n_missing[SML_MAX_WORLD] = {0};
	struct sml_waits waits;

	assert_true(sml_waits_init(&waits, SML_MAX_SLOTS, SML_MAX_WORLD));
	for (uint32_t slot = 0; slot < SML_MAX_SLOTS; slot++)
		sml_waits_note(&waits, slot, slot + 1, slot % 4 ? &set : &one);
	/* With the empty one. */
	assert_int_equal(waits.n_sets, 3);
	assert_false(waits.is_partial);
	sml_waits_get(&waits, 4095, &read);
	assert_true(sml_ranks_are_equal(&read, &set));
	assert_int_equal(waits.slots[4095].use, 4096);
	sml_waits_count(&waits, n_missing);
	assert_int_equal(n_missing[60], 3072);
	assert_int_equal(n_missing[4095], 1024);
	assert_int_equal(n_missing[71], 0);
	sml_waits_note(&waits, SML_MAX_SLOTS, 1, &set);
	sml_waits_fini(&waits);
}

/* A slot that there is no room for is unknown, and the report says that there are such. */
TEST(too_many_sets_leave_slots_unknown)
{
	struct sml_waits waits;

	assert_true(sml_waits_init(&waits, SML_MAX_SLOTS, SML_MAX_WORLD));
	for (uint32_t slot = 0; slot < SML_MAX_SLOTS; slot++) {
		struct sml_ranks set = from_to(slot, slot);

		sml_waits_note(&waits, slot, 1, &set);
	}
	assert_true(waits.is_partial);
	assert_int_equal(waits.n_sets, SML_WAITS_BYTES / SML_RANKS_BYTES);
	assert_true(sml_waits_knows(&waits, 0));
	assert_false(sml_waits_knows(&waits, SML_MAX_SLOTS - 1));
	sml_waits_clear(&waits);
	assert_false(waits.is_partial || sml_waits_knows(&waits, 0));
	sml_waits_fini(&waits);
	/* With 64 ranks there is room for a set of every slot. */
	assert_true(sml_waits_init(&waits, SML_MAX_SLOTS, 64));
	for (uint32_t slot = 0; slot < SML_MAX_SLOTS; slot++) {
		struct sml_ranks set = {{slot + 1}};

		sml_waits_note(&waits, slot, 1, &set);
	}
	assert_false(waits.is_partial);
	sml_waits_fini(&waits);
}

static void fill(struct sml_waits *waits, uint32_t n_slots, unsigned n_ranks)
{
	const struct sml_ranks none = {{0}};

	assert_true(sml_waits_init(waits, n_slots, n_ranks));
	for (uint32_t slot = 0; slot < n_slots; slot += 2) {
		struct sml_ranks set = from_to(slot % 7, slot % n_ranks);

		sml_waits_note(waits, slot, slot + 9, slot % 3 ? &set : &none);
	}
}

TEST(a_message_says_the_same)
{
	static const unsigned worlds[] = {1, 64, 65, 104, 4096};

	for (unsigned i = 0; i < 5; i++) {
		struct sml_waits_message message;
		struct sml_waits told, heard;

		fill(&told, 576, worlds[i]);
		assert_true(sml_waits_init(&heard, 576, worlds[i]));
		sml_waits_pack(&told, SML_WAITS_ROOM, &message);
		assert_int_equal(told.is_partial, message.report.partial);
		sml_waits_unpack(&heard, &message.report, NULL);
		for (uint32_t slot = 0; slot < 576; slot++) {
			struct sml_ranks a, b;

			sml_waits_get(&told, slot, &a);
			sml_waits_get(&heard, slot, &b);
			assert_true(sml_ranks_are_equal(&a, &b));
			assert_int_equal(sml_waits_knows(&told, slot),
					 sml_waits_knows(&heard, slot));
			assert_int_equal(told.slots[slot].use, heard.slots[slot].use);
		}
		sml_waits_free(&message);
		sml_waits_fini(&told);
		sml_waits_fini(&heard);
	}
}

TEST(a_message_is_no_longer_than_its_room)
{
	struct sml_waits_message message;
	const SmlControl__StallReport *report = &message.report;
	struct sml_waits waits;

	fill(&waits, SML_MAX_SLOTS, SML_MAX_WORLD);
	for (size_t room = 0; room < SML_WAITS_ROOM; room = 2 * room + 100) {
		sml_waits_pack(&waits, room, &message);
		/* And the flag. */
		assert_true(sml_control__stall_report__get_packed_size(report) <= room + 3);
		/* Those that wait for ranks come first. */
		for (size_t i = 1; i < report->n_slots; i++)
			assert_true(report->slots[i - 1]->set > 0 || report->slots[i]->set == 0);
		assert_true(report->partial);
		sml_waits_free(&message);
	}
	sml_waits_fini(&waits);
}

TEST(a_message_that_lies_says_nothing)
{
	SmlControl__SlotState states[5], *slots[5];
	uint8_t beyond[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, fine[] = {6};
	ProtobufCBinaryData sets[] = {{sizeof(beyond), beyond}, {1, fine}};
	SmlControl__StallReport report = SML_CONTROL__STALL_REPORT__INIT;
	struct sml_ranks only = from_to(2, 3), ranks;
	struct sml_waits waits;

	for (unsigned i = 0; i < 5; i++) {
		sml_control__slot_state__init(&states[i]);
		slots[i] = &states[i];
		states[i].slot = i;
	}
	states[0].set = 3;	    /* there is no such set */
	states[1].set = UINT32_MAX; /* nor that */
	states[2].set = 1;	    /* rank 104 of 104 */
	states[3].set = 2;
	states[4].slot = UINT32_MAX;
	assert_true(sml_waits_init(&waits, 5, 104));
	report.slots = slots;
	report.n_slots = 5;
	report.sets = sets;
	report.n_sets = 2;
	sml_waits_unpack(&waits, &report, &only);
	for (uint32_t slot = 0; slot < 5; slot++)
		assert_int_equal(sml_waits_knows(&waits, slot), slot == 3);
	assert_true(waits.is_partial);
	/* The sender speaks for rank 2, but not for rank 1. */
	sml_waits_get(&waits, 3, &ranks);
	assert_int_equal(ranks.words[0], 4);
	sml_waits_fini(&waits);
}
