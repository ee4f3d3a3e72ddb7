/* SPDX-License-Identifier: BSD-3-Clause */
/* When a rank that waits says so, and what it says. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lib/settings/notice.h"
#include "support/test.h"

#define NOW (1000 * SML_NS_PER_SEC)

struct said {
	unsigned n;
	char text[256];
};

static void keep(void *self, enum sml_log_level level, const char *text)
{
	struct said *said = self;

	assert_int_equal(level, SML_LOG_WARN);
	said->n++;
	snprintf(said->text, sizeof(said->text), "%s", text);
}

TEST(notices_come_ever_less_often)
{
	static const unsigned seconds[] = {5, 15, 35, 75, 135, 195};
	const struct sml_settings settings = {.config.wait_notice_ms = 5000};
	struct sml_notice notice;

	sml_notice_begin(&notice, &settings, NOW);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		uint64_t at_ns = NOW + seconds[i] * SML_NS_PER_SEC;

		assert_int_equal(sml_notice_wake(&notice, UINT64_MAX), at_ns);
		assert_int_equal(sml_notice_wake(&notice, at_ns - 1), at_ns - 1);
		assert_false(sml_notice_is_due(&notice, at_ns - 1));
		assert_true(sml_notice_is_due(&notice, at_ns));
		assert_false(sml_notice_is_due(&notice, at_ns));
	}
}

/* The second at which the next one is told, of a wait that began at this one. */
static unsigned next_of(struct sml_notice *notice, unsigned since)
{
	uint64_t at_ns;

	sml_notice_again(notice, NOW + since * SML_NS_PER_SEC);
	at_ns = sml_notice_wake(notice, UINT64_MAX);
	assert_true(sml_notice_is_due(notice, at_ns));
	return (unsigned)((at_ns - NOW) / SML_NS_PER_SEC);
}

TEST(many_waits_are_told_of_no_more_often_than_one)
{
	const struct sml_settings settings = {.config.wait_notice_ms = 5000};
	struct sml_notice notice;

	sml_notice_begin(&notice, &settings, NOW);
	/* Waits that end before they are told of count for nothing. */
	sml_notice_again(&notice, NOW + 4 * SML_NS_PER_SEC);
	sml_notice_again(&notice, NOW + 8 * SML_NS_PER_SEC);
	assert_int_equal(next_of(&notice, 12), 17);
	/* 10 s after the last one, then 20, 40 and 60; and never before a wait has lasted 5 s. */
	assert_int_equal(next_of(&notice, 18), 27);
	assert_int_equal(next_of(&notice, 28), 47);
	assert_int_equal(next_of(&notice, 90), 95);
	assert_int_equal(next_of(&notice, 96), 155);
	/* After a minute in which none would have been told, all begins anew. */
	assert_int_equal(next_of(&notice, 155 + 121), 281);
	assert_int_equal(next_of(&notice, 282), 291);
}

TEST(notices_that_are_turned_off_never_come)
{
	const struct sml_settings settings = {.config.wait_notice_ms = 0};
	struct sml_notice notice;

	sml_notice_begin(&notice, &settings, NOW);
	assert_int_equal(sml_notice_wake(&notice, NOW + 7), NOW + 7);
	assert_false(sml_notice_is_due(&notice, UINT64_MAX - 1));
	sml_notice_again(&notice, NOW);
	assert_false(sml_notice_is_due(&notice, UINT64_MAX - 1));
}

TEST(a_notice_says_how_long_and_for_what)
{
	struct said said = {.n = 0};
	const struct sml_settings settings = {
		.config.wait_notice_ms = 5000,
		.log = {.level = SML_LOG_WARN, .write = keep, .self = &said},
	};
	struct sml_notice notice;

	sml_notice_begin(&notice, &settings, NOW);
	sml_notice_log(&notice, NOW + 5100 * SML_NS_PER_MS, NOW + 299999 * SML_NS_PER_MS, "rank %d",
		       3);
	assert_string_equal(said.text, "waiting 5 s (of at most 300) for rank 3");
	assert_int_equal(said.n, 1);
	sml_notice_log(&notice, NOW + 150 * SML_NS_PER_SEC, NOW + 300 * SML_NS_PER_SEC, "rank 3");
	assert_non_null(strstr(said.text, " for rank 3. Half of the time is over: "));
	assert_non_null(strstr(said.text, "SWITCHML_TIMEOUT"));
}
