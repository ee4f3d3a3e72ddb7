/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of metrics: which jobs have series, and how labels are written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/switch/metrics.h"
#include "core/slot.h"
#include "support/test.h"

#define JOBS 100

static char running[] = "running", joining[] = "joining", host[] = "node1";

static struct {
	SmlControl__Status status;
	SmlControl__JobStatus jobs[JOBS], *list[JOBS];
	SmlControl__WorkerStatus worker, *workers[SML_MAX_CHILDREN];
	char names[JOBS][32];
} world;

static char *text;

/* n jobs with this many ranks each. */
static void fill(size_t n, size_t n_ranks)
{
	memset(&world, 0, sizeof(world));
	sml_control__status__init(&world.status);
	sml_control__worker_status__init(&world.worker);
	world.worker.host = host;
	world.worker.state = running;
	for (size_t i = 0; i < n_ranks; i++)
		world.workers[i] = &world.worker;
	for (size_t i = 0; i < n; i++) {
		sml_control__job_status__init(&world.jobs[i]);
		snprintf(world.names[i], sizeof(world.names[i]), "job-%zu-", i);
		world.jobs[i].job = world.names[i];
		world.jobs[i].state = running;
		world.jobs[i].workers = world.workers;
		world.jobs[i].n_workers = n_ranks;
		world.list[i] = &world.jobs[i];
	}
	world.status.jobs = world.list;
	world.status.n_jobs = n;
}

/* The text of the world as it is now. */
static void show(void)
{
	size_t bytes;

	free(text);
	text = sml_metrics_text(&world.status, true, &bytes);
	assert_non_null(text);
	assert_int_equal(strlen(text), bytes);
}

static void forget(void)
{
	free(text);
}

static bool shows(const char *what)
{
	return strstr(text, what) != NULL;
}

static size_t count(const char *what)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

TEST(jobs_with_series_are_bounded)
{
	fill(JOBS, 1);
	/* What still waits for its ranks comes last, for anybody can invent it. */
	for (size_t i = 0; i < 50; i++)
		world.jobs[i].state = joining;
	show();
	assert_int_equal(count("\nswitchml_job_ranks{"), SML_METRICS_JOBS);
	assert_int_equal(count("\nswitchml_rank_info{"), SML_METRICS_JOBS);
	assert_true(shows("\nswitchml_jobs 100\n"));
	assert_true(shows("\nswitchml_jobs_unlisted 36\n"));
	assert_true(shows("switchml_job_ranks{job_name=\"job-99-\""));
	assert_true(shows("switchml_job_ranks{job_name=\"job-13-\""));
	assert_false(shows("job-14-"));
}

TEST(ranks_with_series_are_bounded)
{
	fill(20, SML_MAX_CHILDREN);
	show();
	assert_int_equal(count("\nswitchml_rank_info{"), SML_METRICS_RANKS);
	assert_true(shows("\nswitchml_jobs_unlisted 4\n"));
}

TEST(no_two_series_have_the_same_labels)
{
	fill(3, 1);
	world.jobs[2].job = world.jobs[0].job;
	world.jobs[0].state = joining;
	show();
	assert_int_equal(count("\nswitchml_job_ranks{job_name=\"job-0-\""), 1);
	assert_true(shows("{job_name=\"job-0-\",stripe=\"0\",state=\"running\"} 1\n"));
	assert_true(shows("\nswitchml_jobs_unlisted 1\n"));
}

TEST(labels_are_escaped)
{
	char name[] = "a\"b\\c\nd{}";

	fill(1, 1);
	world.jobs[0].job = name;
	show();
	assert_true(shows("switchml_job_ranks{job_name=\"a\\\"b\\\\c\\nd{}\",stripe=\"0\"} 0\n"));
}

TEST(what_a_rank_has_not_told_has_no_series)
{
	SmlControl__Traffic traffic = SML_CONTROL__TRAFFIC__INIT;

	fill(1, 1);
	show();
	assert_false(shows("\nswitchml_rank_sent_bytes_total"));
	world.worker.traffic = &traffic;
	traffic.bytes_sent = UINT64_MAX;
	show();
	assert_true(shows("\nswitchml_rank_sent_bytes_total{job_name=\"job-0-\",stripe=\"0\","
			  "rank=\"0\"} 18446744073709551615\n"));
	assert_false(shows("\nswitchml_rank_link_speed_bytes{"));
	traffic.link_mbits = 1000;
	show();
	assert_true(shows("rank=\"0\"} 125000000\n"));
}

TEST(processes_that_wait_are_counted_whichever_job_they_wait_for)
{
	SmlControl__WaitingProcess waiting[2], *list[] = {&waiting[0], &waiting[1]};

	fill(1, 1);
	show();
	assert_true(shows("\nswitchml_waiting_processes 0\n"));
	for (unsigned i = 0; i < 2; i++)
		sml_control__waiting_process__init(&waiting[i]);
	world.status.waiting = list;
	world.status.n_waiting = 2;
	show();
	assert_true(shows("\nswitchml_waiting_processes 2\n"));
}

/* Otherwise a switch with few jobs could be full, and nothing would say why. */
TEST(places_that_are_kept_are_counted)
{
	fill(1, 1);
	world.status.kept_jobs = 3;
	world.status.max_jobs = 4;
	show();
	assert_true(shows("\nswitchml_jobs 1\n"));
	assert_true(shows("\nswitchml_jobs_kept 3\n"));
	assert_true(shows("\nswitchml_jobs_limit 4\n"));
}

TEST(leaves_have_series_once)
{
	char leaf[] = "rack:28500", parent[] = "spine:28500";
	SmlControl__LeafStatus leaves[2], *leaf_list[] = {&leaves[0], &leaves[1]};
	SmlControl__BranchStatus branches[2], *list[] = {&branches[0], &branches[1]};

	fill(1, 1);
	show();
	assert_true(shows("\nswitchml_tree_level 0\n"));
	assert_false(shows("\nswitchml_parent_attached{"));
	assert_true(shows("rank=\"0\",host=\"node1\"} 1\n"));
	for (unsigned i = 0; i < 2; i++) {
		sml_control__leaf_status__init(&leaves[i]);
		sml_control__branch_status__init(&branches[i]);
		leaves[i].name = branches[i].leaf = leaf;
		leaves[i].slots_in_use = 7 + i;
		branches[i].waited_ms = 7500;
	}
	world.status.leaves = leaf_list;
	world.jobs[0].branches = list;
	world.status.n_leaves = world.jobs[0].n_branches = 2;
	world.status.parent = parent;
	world.status.level = 1;
	world.worker.leaf = leaf;
	world.worker.sender = 3;
	show();
	assert_true(shows("\nswitchml_tree_level 1\n"));
	assert_true(shows("\nswitchml_parent_attached{parent=\"spine:28500\"} 0\n"));
	assert_int_equal(count("\nswitchml_leaf_slots_in_use{"), 1);
	assert_true(shows("\nswitchml_leaf_slots_in_use{leaf=\"rack:28500\"} 7\n"));
	assert_int_equal(count("\nswitchml_job_leaf_waited_seconds_total{"), 1);
	assert_true(shows("\nswitchml_job_leaf_waited_seconds_total{job_name=\"job-0-\","
			  "stripe=\"0\",leaf=\"rack:28500\"} 7.500\n"));
	assert_true(shows("rank=\"0\",host=\"node1\",leaf=\"rack:28500\",sent_by=\"2\"} 1\n"));
}

TEST(leaves_count_like_ranks)
{
	SmlControl__BranchStatus branch, *list[SML_MAX_CHILDREN];

	fill(20, SML_MAX_CHILDREN);
	sml_control__branch_status__init(&branch);
	for (unsigned i = 0; i < SML_MAX_CHILDREN; i++)
		list[i] = &branch;
	for (unsigned i = 0; i < 20; i++) {
		world.jobs[i].branches = list;
		world.jobs[i].n_branches = SML_MAX_CHILDREN;
	}
	show();
	assert_int_equal(count("\nswitchml_job_ranks{"),
			 SML_METRICS_RANKS / (2 * SML_MAX_CHILDREN));
}

TESTS_BETWEEN(NULL, forget)
