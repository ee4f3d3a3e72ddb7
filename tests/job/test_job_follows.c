/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that follow others: whom the status counts as joined and left. */
#include <string.h>

#include "support/jobs.h"
#include "support/test.h"

static SmlControl__Join following(uint32_t rank, const char *before, uint32_t changes)
{
	SmlControl__Join join = jobs_join_message("b", rank, 3);

	join.follows = (char *)(uintptr_t)before;
	join.follows_ranks = 4;
	join.follows_changes = changes;
	return join;
}

/* Ranks 0 and 1 of three were in job "a" of four ranks; rank 2 is new, or of another job. */
static void expect_change(const char *others)
{
	SmlControl__Status *status;

	jobs_open(4096, 64, false);
	jobs_join(0, following(2, others, 5));
	jobs_join(1, following(1, "a", 7));
	status = jobs_status();
	assert_int_equal(status->jobs[0]->joined + status->jobs[0]->left, 0);
	jobs_join(2, following(0, "a", 7));
	status = jobs_status();
	assert_int_equal(status->n_jobs, 1);
	assert_string_equal(status->jobs[0]->follows, *others ? others : "a");
	assert_int_equal(status->jobs[0]->changes, 8);
	assert_int_equal(status->jobs[0]->joined, *others ? 2 : 1);
	assert_int_equal(status->jobs[0]->left, *others ? 3 : 2);
	/* All of them say so when this job is followed. */
	for (unsigned peer = 0; peer < 3; peer++)
		assert_int_equal(jobs_admitted(peer)->changes, 8);
	jobs_close();
}

TEST(a_job_that_follows_another_counts_who_joined_and_left)
{
	expect_change("");
	/* Two jobs become one: it follows that of the rank that came first. */
	expect_change("c");
}

JOBS_TEST(a_job_that_follows_none_has_no_changes)
{
	SmlControl__Status *status;

	jobs_join(0, jobs_join_message("a", 0, 1));
	status = jobs_status();
	assert_string_equal(status->jobs[0]->follows, "");
	assert_int_equal(status->jobs[0]->changes + status->jobs[0]->joined + status->jobs[0]->left,
			 0);
}

JOBS_TEST(the_name_of_the_job_before_is_checked)
{
	char longest[SML_NAME_BYTES + 1] = "";

	memset(longest, 'n', SML_NAME_BYTES);
	jobs_join(0, following(0, longest, 1));
	jobs_assert_refused(0, "the job before");
	jobs_join(1, following(0, "\x1b[2J", 1));
	jobs_assert_refused(1, "the job before");
	longest[SML_NAME_BYTES - 1] = '\0';
	/* The largest numbers are no trouble. */
	SmlControl__Join join = following(0, longest, UINT32_MAX);

	join.follows_ranks = UINT32_MAX;
	jobs_join(2, join);
	assert_string_equal(jobs_refusal(2), "");
}
