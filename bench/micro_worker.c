/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what a packet costs a worker on one core, without the kernel: choosing a slot and
 * filling its packet, and taking the result. It also shows the slots' side: a switch's, and that in
 * the memory that ranks of a host share.
 *
 *	micro_worker [ranks, default 4] [lanes a packet, default 352]
 *		     [elements a call, default 2500000] [only this row]
 *
 * All ranks and the switch are in this process, and each passes on as many packets as fit into a
 * super-packet. Time is made up, so every run does exactly the same, and `valgrind
 * --tool=callgrind` counts the same instructions. The result is the best of several calls.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/pool.h"
#include "core/worker.h"
#include "lib/host/slots.h"

#define HEAD_SLOTS 64
#define DATA_SLOTS 256
#define CALLS	   9
#define TURN_NS	   20000 /* between super-packets */

enum part { FILL, TAKE, STEP, PARTS };

struct rank {
	struct sml_worker worker;
	struct sml_tensor tensor;
	struct sml_sequence sequence;
	struct sml_host host;
	void *worker_memory, *tensor_memory, *input, *output;
};

struct row {
	const char *name;
	enum sml_type type;
	enum sml_wire wire;
	bool in_memory;
	bool rounds; /* the switch, sums of narrow lanes */
};

static const struct row rows[] = {
	{"int32", SML_FLOAT32, SML_WIRE_INT32, false, false},
	{"int16", SML_FLOAT32, SML_WIRE_INT16, false, false},
	{"float32", SML_FLOAT32, SML_WIRE_EXACT, false, false},
	{"float16", SML_FLOAT16, SML_WIRE_EXACT, false, false},
	{"bfloat16", SML_BFLOAT16, SML_WIRE_EXACT, false, false},
	{"int32-memory", SML_FLOAT32, SML_WIRE_INT32, true, false},
	{"float32-memory", SML_FLOAT32, SML_WIRE_EXACT, true, false},
	{"float16-memory", SML_FLOAT16, SML_WIRE_EXACT, true, false},
	{"bfloat16-memory", SML_BFLOAT16, SML_WIRE_EXACT, true, false},
	{"int16-rounded", SML_FLOAT32, SML_WIRE_INT16, false, true},
	{"int8-rounded", SML_FLOAT32, SML_WIRE_INT8, false, true},
};

struct bench {
	struct sml_pool pool;
	struct rank *ranks;
	uint32_t n_ranks, lanes, count;
	const struct row *row;
	void *host_memory, *pool_memory;
	uint64_t now_ns;
	uint8_t *batch; /* packets of one rank, each at a multiple of packet_bytes */
	uint32_t packet_bytes, batch_packets;
	uint64_t packets; /* contributions, or results that a rank took */
	double seconds[PARTS];
};

/* The CPU time of this thread, so that other load on the machine does not count. */
static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Its pages are touched before the clock runs. */
static void *memory_of(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (memory == NULL)
		err(1, "%zu bytes", bytes);
	return memset(memory, 0, bytes);
}

/* Returns how many packets the rank sends. */
static uint32_t fill(struct bench *bench, struct rank *rank, size_t *lengths)
{
	uint32_t n = 0;

	while (n < bench->batch_packets) {
		lengths[n] = sml_worker_send(&rank->worker, bench->batch + n * bench->packet_bytes,
					     bench->now_ns);
		if (lengths[n] == 0)
			break;
		n++;
	}
	return n;
}

/* Returns the number of results. */
static uint32_t step(struct bench *bench, uint32_t n, const size_t *lengths,
		     struct sml_pool_answer *results)
{
	uint32_t n_results = 0;

	for (uint32_t i = 0; i < n; i++)
		if (sml_pool_receive(&bench->pool, bench->batch + i * bench->packet_bytes,
				     (uint32_t)lengths[i],
				     &results[n_results]) == SML_VERDICT_COMPLETED)
			n_results++;
	return n_results;
}

/* One super-packet of a rank, and the results that it completes. False: the rank had none. */
static bool turn(struct bench *bench, struct rank *rank)
{
	struct sml_pool_answer results[SML_SUPER_PACKET_PACKETS];
	size_t lengths[SML_SUPER_PACKET_PACKETS];
	double began = seconds(), filled, stepped;
	uint32_t n = fill(bench, rank, lengths), n_results;

	filled = seconds();
	n_results = step(bench, n, lengths, results);
	stepped = seconds();
	bench->now_ns += TURN_NS;
	for (uint32_t r = 0; r < bench->n_ranks; r++)
		for (uint32_t i = 0; i < n_results; i++)
			sml_worker_receive(&bench->ranks[r].worker, results[i].packet,
					   results[i].length, bench->now_ns);
	bench->seconds[FILL] += filled - began;
	bench->seconds[STEP] += stepped - filled;
	bench->seconds[TAKE] += seconds() - stepped;
	bench->packets += n;
	return n > 0;
}

static struct sml_contribution sent_in(const struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = worker->slots[slot].sent;

	in.slot = sml_worker_slot_number(worker, slot);
	in.use = worker->slots[slot].use;
	return in;
}

static void add_up(struct rank *rank)
{
	struct sml_worker *worker = &rank->worker;
	uint8_t differs;

	for (uint16_t slot = worker->in_flight.first; slot != SML_NO_SLOT;
	     slot = worker->send_links[slot].next) {
		struct sml_contribution in = sent_in(worker, slot);

		if (sml_host_look(&rank->host, in.slot, in.use) == SML_HOST_FULL)
			(void)sml_host_add(&rank->host, &in, false, &differs);
	}
}

static bool take_results(struct bench *bench, struct rank *rank)
{
	struct sml_worker *worker = &rank->worker;
	uint16_t slot = worker->in_flight.first, next;
	bool any = false;

	for (; slot != SML_NO_SLOT; slot = next) {
		struct sml_contribution in = sent_in(worker, slot);
		const void *lanes;
		uint32_t ticket;

		next = worker->send_links[slot].next;
		if (sml_host_look(&rank->host, in.slot, in.use) != SML_HOST_DONE)
			continue;
		lanes = sml_host_result(&rank->host, in.slot, in.use, &ticket);
		sml_worker_take(worker, slot, ticket, lanes, bench->now_ns);
		any = true;
	}
	return any;
}

/* As many rows as a rank has slots; then what is complete, as in lib/progress/host_line.c. */
static bool turn_in_memory(struct bench *bench, struct rank *rank)
{
	double began = seconds(), filled, added;
	bool any = false;
	uint16_t slot;

	while ((slot = sml_worker_choose(&rank->worker, bench->now_ns)) != SML_NO_SLOT) {
		struct sml_contribution in = sent_in(&rank->worker, slot);

		sml_worker_fill(&rank->worker, slot, sml_host_row(&rank->host, in.slot, in.use));
		sml_host_arrive(&rank->host, &in, bench->now_ns);
		bench->packets++;
		any = true;
	}
	filled = seconds();
	add_up(rank);
	added = seconds();
	any |= take_results(bench, rank);
	bench->seconds[FILL] += filled - began;
	bench->seconds[STEP] += added - filled;
	bench->seconds[TAKE] += seconds() - added;
	return any;
}

static void submit(struct bench *bench, struct rank *rank)
{
	const struct sml_tensor_spec spec = {
		.collective = SML_ALLREDUCE,
		.type = bench->row->type,
		.op = SML_SUM,
		.wire = bench->row->wire,
		.count = bench->count,
		.send = rank->input,
		.send_count = bench->count,
		.recv = rank->output,
		.recv_count = bench->count,
	};
	const struct sml_shape *shape = &rank->worker.config.shape;

	if (rank->tensor_memory == NULL)
		rank->tensor_memory = memory_of(sml_tensor_memory_bytes(&spec, shape));
	sml_tensor_init(&rank->tensor, &spec, shape, &rank->sequence, rank->tensor_memory);
	sml_worker_submit(&rank->worker, &rank->tensor);
}

/* Not inlined: callgrind's --toggle-collect=call_once counts nothing else. */
static __attribute__((noinline)) void call_once(struct bench *bench)
{
	bool busy = true;

	for (uint32_t r = 0; r < bench->n_ranks; r++)
		submit(bench, &bench->ranks[r]);
	while (busy) {
		busy = false;
		for (uint32_t r = 0; r < bench->n_ranks; r++)
			busy |= (bench->row->in_memory ? turn_in_memory : turn)(bench,
										&bench->ranks[r]);
	}
	for (uint32_t r = 0; r < bench->n_ranks; r++)
		if (sml_worker_retire(&bench->ranks[r].worker) == NULL) {
			fprintf(stderr, "micro_worker: a call did not end\n");
			exit(1);
		}
}

static void open_rank(struct bench *bench, uint32_t r, const struct sml_host_terms *terms)
{
	struct rank *rank = &bench->ranks[r];
	const struct sml_worker_config config = {
		.cookie = bench->pool.rules.cookies[r],
		.shape = {.lanes = (uint16_t)bench->lanes,
			  .rank = (uint16_t)r,
			  .n_ranks = (uint16_t)bench->n_ranks,
			  .rounds = bench->row->rounds,
			  .floats = true},
		.head_slots = terms->head_slots,
		.data_slots = terms->data_slots,
		.n_shards = 1,
		.n_stripes = 1,
		.number = (uint8_t)r,
		.window_max = SML_MAX_SLOTS,
		.local = bench->row->in_memory,
		.no_resume = bench->row->in_memory,
	};

	rank->worker_memory = memory_of(sml_worker_memory_bytes(&config));
	sml_worker_init(&rank->worker, &config, rank->worker_memory);
	rank->host.rank = (uint8_t)r;
	sml_host_lay_out(&rank->host.memory, terms, bench->host_memory);
	rank->host.sleepers = rank->host.memory.head;
	rank->input = memory_of(bench->count * sizeof(float));
	rank->output = memory_of(bench->count * sizeof(float));
	for (uint32_t i = 0; i < bench->count; i++) {
		if (bench->row->type == SML_FLOAT32)
			((float *)rank->input)[i] = (float)((i + 7 * r) % 1000) * 0.001f - 0.4f;
		else
			((uint16_t *)rank->input)[i] = (uint16_t)(0x3c00 + (i + 7 * r) % 1000);
	}
}

static void close_rank(struct rank *rank)
{
	free(rank->input);
	free(rank->output);
	free(rank->tensor_memory);
	free(rank->worker_memory);
	memset(rank, 0, sizeof(*rank));
}

/* All ranks and slots are new. */
static void open_row(struct bench *bench, const struct row *row)
{
	struct sml_host_terms terms = {
		.lanes = (uint16_t)bench->lanes, .n_ranks = (uint8_t)bench->n_ranks, .divisor = 1};
	struct sml_pool_rules rules = {.head_slots = HEAD_SLOTS,
				       .data_slots = DATA_SLOTS,
				       .lanes = (uint16_t)bench->lanes,
				       .n_ranks = (uint8_t)bench->n_ranks,
				       .n_shards = 1,
				       .rounds = row->rounds,
				       .floats = true,
				       .divisor = 1};

	if (row->in_memory) {
		sml_host_choose_slots(&terms, HEAD_SLOTS, DATA_SLOTS);
	} else {
		terms.head_slots = HEAD_SLOTS;
		terms.data_slots = DATA_SLOTS;
	}
	bench->row = row;
	bench->host_memory = memory_of(sml_host_bytes(&terms));
	for (uint32_t r = 0; r < bench->n_ranks; r++)
		rules.cookies[r] = r;
	bench->pool_memory = memory_of(sml_pool_memory_bytes(&rules));
	sml_pool_init(&bench->pool, &rules, bench->pool_memory);
	for (uint32_t r = 0; r < bench->n_ranks; r++)
		open_rank(bench, r, &terms);
}

static void close_row(struct bench *bench)
{
	for (uint32_t r = 0; r < bench->n_ranks; r++)
		close_rank(&bench->ranks[r]);
	free(bench->host_memory);
	free(bench->pool_memory);
}

static void measure(struct bench *bench, const struct row *row)
{
	double best[PARTS] = {1e30, 1e30, 1e30};

	open_row(bench, row);
	for (int i = 0; i < CALLS; i++) {
		memset(bench->seconds, 0, sizeof(bench->seconds));
		bench->packets = 0;
		call_once(bench);
		for (enum part part = FILL; part < PARTS; part++)
			if (bench->seconds[part] < best[part])
				best[part] = bench->seconds[part];
	}
	close_row(bench);
	printf("%-16s %8llu %10.1f %10.1f %10.1f\n", row->name, (unsigned long long)bench->packets,
	       1e9 * best[FILL] / (double)bench->packets, 1e9 * best[TAKE] / (double)bench->packets,
	       1e9 * best[STEP] / (double)bench->packets);
}

/* Argument i, or the usual value if there is none. */
static uint32_t number(int argc, char **argv, int i, uint32_t usual, uint32_t most)
{
	unsigned long value;
	char *end;

	if (i >= argc)
		return usual;
	value = strtoul(argv[i], &end, 10);
	if (*end || value < 1 || value > most)
		errx(2, "'%s': a number from 1 to %u", argv[i], most);
	return (uint32_t)value;
}

int main(int argc, char **argv)
{
	static struct bench bench;
	unsigned measured = 0;

	bench.n_ranks = number(argc, argv, 1, 4, SML_MAX_CHILDREN);
	bench.lanes = number(argc, argv, 2, 352, SML_MAX_LANES);
	bench.count = number(argc, argv, 3, 2500000, 1u << 28);
	bench.packet_bytes = SML_HEADER_BYTES + 4 * bench.lanes;
	bench.batch_packets = SML_SUPER_PACKET_BYTES / bench.packet_bytes;
	if (bench.batch_packets > SML_SUPER_PACKET_PACKETS)
		bench.batch_packets = SML_SUPER_PACKET_PACKETS;
	bench.batch = memory_of(SML_SUPER_PACKET_BYTES);
	bench.ranks = memory_of(bench.n_ranks * sizeof(*bench.ranks));
	printf("%u ranks, %u lanes, %u elements; one core, no kernel; ns a packet\n", bench.n_ranks,
	       bench.lanes, bench.count);
	printf("%-16s %8s %10s %10s %10s\n", "row", "packets", "fill", "take", "slot");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (argc <= 4 || strcmp(argv[4], rows[i].name) == 0) {
			measure(&bench, &rows[i]);
			measured++;
		}
	if (measured == 0)
		fprintf(stderr, "micro_worker: there is no row '%s'\n", argv[4]);
	return measured == 0 ? 2 : 0;
}
