/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP program's cost for a packet, rank after rank and slot after slot, in BPF_PROG_TEST_RUN.
 * Fails only if the program does not run: a good result depends on the machine (350 ns for 352
 * lanes is the goal).
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/layout.h"
#include "support/xdp_frames.h"
#include "switchml_bench.skel.h"

#define JOB	7u
#define RUNS	5000u /* at once; the fastest of REPEATS runs counts: others use the machine */
#define REPEATS 5u
#define SLOTS	128u

static struct switchml_bench *load(uint32_t ranks)
{
	struct switchml_bench *bench = switchml_bench__open();
	int rc;

	if (bench == NULL)
		return NULL;
	bench->rodata->sml_port_be = htons(FRAME_PORT);
	bench->rodata->bench_ranks = ranks;
	bench->rodata->bench_slots = SLOTS;
	bpf_map__set_max_entries(bench->maps.sml_slots, 2 * SLOTS);
	bpf_map__set_max_entries(bench->maps.sml_peers, SML_XDP_PEERS_PER_JOB);
	rc = switchml_bench__load(bench);
	if (rc == 0)
		return bench;
	switchml_bench__destroy(bench);
	errno = -rc;
	return NULL;
}

/* The interface for results, so that the program gets as far as asking for it. */
static void add_group(struct switchml_bench *bench, uint8_t ranks)
{
	const struct bpf_devmap_val loopback = {.ifindex = 1};
	int group = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "sml_group", sizeof(uint32_t),
				   sizeof(loopback), SML_MAX_CHILDREN, NULL);
	uint32_t index = 0;

	for (uint32_t rank = 0; rank < ranks; rank++)
		bpf_map_update_elem(group, &rank, &loopback, 0);
	bpf_map_update_elem(bpf_map__fd(bench->maps.sml_groups), &index, &group, 0);
	close(group);
}

static void add_job(struct switchml_bench *bench, uint8_t ranks)
{
	struct sml_xdp_job job = {.rules = {.job = JOB,
					    .epoch = 1,
					    .head_slots = 0,
					    .data_slots = SLOTS,
					    .lanes = SML_XDP_LANES,
					    .n_ranks = ranks,
					    .n_shards = 1,
					    .rounds = true},
				  .started = 1};
	uint32_t map_row = JOB;

	for (uint8_t rank = 0; rank < ranks; rank++)
		job.rules.cookies[rank] = 5u + rank;
	bpf_map_update_elem(bpf_map__fd(bench->maps.sml_jobs), &map_row, &job, 0);
}

static uint32_t build(uint8_t *frame, uint8_t lane_kind, uint16_t lanes)
{
	const struct frame_wrapping wrapping = {.rank = 1};
	uint32_t packet[10 + SML_XDP_LANES] = {0};
	struct sml_header header = {.magic_be = sml_be16(SML_WIRE_MAGIC),
				    .version = SML_WIRE_VERSION,
				    .job_be = sml_be32(JOB),
				    .epoch_be = sml_be32(1),
				    .lane_kind = lane_kind,
				    .lanes_be = sml_be16(lanes)};

	memcpy(packet, &header, sizeof(header));
	return frame_build(frame, &wrapping, packet, SML_HEADER_BYTES + 4u * lanes);
}

/* Nanoseconds per packet, or a negative number. */
static int run(struct bpf_program *program, uint8_t lane_kind, uint16_t lanes)
{
	uint8_t frame[FRAME_BYTES];
	uint32_t bytes = build(frame, lane_kind, lanes);
	int best = INT32_MAX;

	for (unsigned i = 0; i < REPEATS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = bytes,
			    .repeat = RUNS);

		if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) < 0)
			return -errno;
		if ((int)options.duration < best)
			best = (int)options.duration;
	}
	return best;
}

static uint64_t count_taken(struct switchml_bench *bench)
{
	struct sml_xdp_counters *counters =
		calloc((size_t)libbpf_num_possible_cpus(), sizeof(*counters));
	uint64_t taken = 0;
	uint32_t row = 0;

	bpf_map_lookup_elem(bpf_map__fd(bench->maps.sml_counters), &row, counters);
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		taken += counters[cpu].traffic.fates[SML_VERDICT_ABSORBED] +
			 counters[cpu].traffic.fates[SML_VERDICT_COMPLETED];
	free(counters);
	return taken;
}

/* One packet in `ranks` completes, one begins a slot's use, the others are added. */
static int measure(uint8_t ranks, uint8_t lane_kind, uint16_t lanes)
{
	struct switchml_bench *bench = load(ranks);
	int whole, overhead;
	uint64_t taken;

	if (bench == NULL)
		return -errno;
	add_group(bench, ranks);
	add_job(bench, ranks);
	whole = run(bench->progs.bench_entry, lane_kind, lanes);
	overhead = run(bench->progs.bench_overhead, lane_kind, lanes);
	taken = count_taken(bench);
	switchml_bench__destroy(bench);
	if (whole < 0 || overhead < 0)
		return whole < 0 ? whole : overhead;
	printf("%2u ranks, %3u lanes of kind %u: %3d ns a packet (and %d ns of the test's own)\n",
	       ranks, lanes, lane_kind, whole - overhead, overhead);
	if (taken == (uint64_t)RUNS * REPEATS)
		return 0;
	fprintf(stderr, "%lu packets were taken, not %u\n", (unsigned long)taken, RUNS * REPEATS);
	return 1;
}

int main(void)
{
	static const uint8_t ranks[] = {1, 2, 4, 8, 16, 64};
	static const struct {
		uint8_t kind;
		uint16_t lanes;
	} packets[] = {
		{SML_LANE_INT32, 8},
		{SML_LANE_INT32, 352},
		{SML_LANE_INT32, SML_XDP_LANES},
		/* As many blocks as fit into 352 and SML_XDP_LANES. */
		{SML_LANE_INT16_ROUNDED, 323},
		{SML_LANE_INT16_ROUNDED, SML_XDP_LANES_OF(16, SML_XDP_INT16_BLOCKS)},
		{SML_LANE_INT8_ROUNDED, 342},
		{SML_LANE_INT8_ROUNDED, SML_XDP_LANES_OF(8, SML_XDP_INT8_BLOCKS)},
	};
	int rc = 0;

	for (unsigned i = 0; i < 6; i++)
		for (unsigned k = 0; k < sizeof(packets) / sizeof(packets[0]) && rc == 0; k++)
			rc = measure(ranks[i], packets[k].kind, packets[k].lanes);
	if (rc == -EPERM || rc == -EACCES || rc == -ENOSYS) {
		printf("skipped: BPF is not permitted\n");
		return 77;
	}
	return rc ? 1 : 0;
}
