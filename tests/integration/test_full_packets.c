/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switches with a program for one lane count, as in hardware: they admit only full packets of that
 * count, and all stripes of a job use it. Here they are UDP switches that say so.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/ranks.h"
#include "switch/dataplane.h"

#define RANKS 3

static uint32_t fixed_64(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 64;
}

static uint32_t fixed_128(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 128;
}

/* A switch for one lane count, or for any (NULL); writes where it is. */
static struct sml_switch *serve(uint32_t (*fixed_lanes)(struct sml_dataplane *), char address[64])
{
	static struct sml_dataplane_operations operations[2];
	struct sml_dataplane_operations *chosen = &operations[fixed_lanes == fixed_128];
	struct sml_switch_config config;
	struct sml_switch *opened;

	if (fixed_lanes == NULL)
		return serve_at(0, address);
	*chosen = sml_dataplane_udp;
	chosen->fixed_lanes = fixed_lanes;
	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.dataplane = chosen;
	if (sml_switch_open(&opened, &config) < 0)
		fail_msg("%s", sml_error_last());
	snprintf(address, 64, "127.0.0.1:%u", sml_switch_port(opened));
	return opened;
}

/* Two stripes. */
static void serve_both(struct sml_switch *opened[2], uint32_t (*first)(struct sml_dataplane *),
		       uint32_t (*second)(struct sml_dataplane *), char list[129])
{
	char addresses[2][64];

	opened[0] = serve(first, addresses[0]);
	opened[1] = serve(second, addresses[1]);
	snprintf(list, 129, "%s,%s", addresses[0], addresses[1]);
}

static void close_both(struct sml_switch *opened[2])
{
	sml_switch_close(opened[0]);
	sml_switch_close(opened[1]);
}

/* Shorter than a packet, full, one lane more, and many with a short rest. */
static const size_t counts[] = {1, 63, 64, 65, 1000, 20000};

static void reduce(struct rank *rank, size_t count)
{
	int32_t *data = calloc(count, sizeof(*data));

	for (size_t i = 0; i < count; i++)
		data[i] = (int32_t)i + rank->rank;
	CHECK(rank, sml_allreduce(rank->context, data, data, count, SML_INT32, SML_SUM, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(rank, data[i] == RANKS * (int32_t)i + RANKS * (RANKS - 1) / 2);
	free(data);
}

/* What the ranks send while they reduce has bytes_each per packet; 0: some packets are shorter. */
static void reduce_all(struct rank *rank)
{
	const uint64_t *bytes_each = rank->job->argument;
	struct sml_counters before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	uint64_t packets, bytes;

	CHECK(rank, sml_get_counters(rank->context, &before) == 0);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		reduce(rank, counts[i]);
	CHECK(rank, sml_barrier(rank->context) == 0);
	CHECK(rank, sml_get_counters(rank->context, &after) == 0);
	packets = after.packets_sent - before.packets_sent;
	bytes = after.bytes_sent - before.bytes_sent;
	if (bytes != packets * *bytes_each)
		complain(rank, "%llu packets have %llu bytes, not %llu each",
			 (unsigned long long)packets, (unsigned long long)bytes,
			 (unsigned long long)*bytes_each);
}

static void all_packets_are_full(void **state)
{
	uint64_t bytes_each = SML_HEADER_BYTES + 4 * 64;
	char address[64];
	struct sml_switch *opened = serve(fixed_64, address);

	(void)state;
	run_job(&(struct job){.n_ranks = RANKS,
			      .switch_address = address,
			      .body = reduce_all,
			      .argument = &bytes_each});
	sml_switch_close(opened);
}

/* Whichever of them is first. */
static void stripes_agree_on_the_lane_count_of_the_one_that_has_only_one(void **state)
{
	uint64_t bytes_each = SML_HEADER_BYTES + 4 * 64;
	struct sml_switch *opened[2];
	char list[129];

	(void)state;
	for (int fixed_first = 0; fixed_first < 2; fixed_first++) {
		serve_both(opened, fixed_first ? fixed_64 : NULL, fixed_first ? NULL : fixed_64,
			   list);
		run_job(&(struct job){.n_ranks = RANKS,
				      .switch_address = list,
				      .body = reduce_all,
				      .argument = &bytes_each});
		close_both(opened);
	}
}

struct opening {
	pthread_t thread;
	const struct job *job;
	int rank;
	struct sml_context *context;
	int error;
	char text[512];
};

static void *open_rank(void *argument)
{
	struct opening *opening = argument;
	struct sml_config config;

	configure(&config, opening->job, opening->rank);
	opening->error = sml_open(&opening->context, &config);
	snprintf(opening->text, sizeof(opening->text), "%s", sml_error_text(NULL));
	if (opening->error == 0)
		sml_close(opening->context);
	return NULL;
}

static void stripes_with_programs_for_different_counts_are_refused(void **state)
{
	struct opening ranks[RANKS];
	struct sml_switch *opened[2];
	unsigned n_told = 0;
	char list[129];
	const struct job job = {.n_ranks = RANKS, .switch_address = list, .port = free_port()};

	(void)state;
	serve_both(opened, fixed_64, fixed_128, list);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct opening){.job = &job, .rank = r};
		assert_int_equal(pthread_create(&ranks[r].thread, NULL, open_rank, &ranks[r]), 0);
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(ranks[r].thread, NULL);
	close_both(opened);
	for (int r = 0; r < RANKS; r++) {
		assert_true(ranks[r].error < 0);
		n_told += strstr(ranks[r].text, "takes only packets of 128 lanes, but another "
						"stripe of the job only up to 64") != NULL;
	}
	/* The others may have heard first that this rank has left. */
	if (n_told == 0)
		fail_msg("%s", ranks[0].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_packets_are_full),
		cmocka_unit_test(stripes_agree_on_the_lane_count_of_the_one_that_has_only_one),
		cmocka_unit_test(stripes_with_programs_for_different_counts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
