/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor: what a job costs if nobody is woken, switched or waited for. All workers and the
 * switch are one thread, which drives the core and the sockets that the library and the switch
 * use. It has no control plane, no probes and no stalls, and it expects that no packet is lost.
 *
 *	floor SWITCH-NETNS/ADDRESS RANK-0-NETNS/ADDRESS …
 *
 * The wire is int32. Each socket is opened in its network namespace, so packets cross the
 * same links as those of a real job. bench/compare starts it as one rank that answers for all.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/peer.h"
#include "cmd/bench/bench.h"
#include "core/pool.h"
#include "core/worker.h"
#include "lib/transport/transport.h"
#include "net/udp_results.h"

#define TAG	    77
#define JOB	    256
#define COOKIE	    1000
#define MTU	    1500
#define HEAD_SLOTS  64
#define DATA_SLOTS  256
#define INBOX_BYTES (4u << 20)
/* A call that takes longer has lost packets for good. */
#define CALL_NS	     (60 * SML_NS_PER_SEC)
#define LINE_BYTES   128
#define MOST_WORKERS 16

struct floor_worker {
	struct sml_worker worker;
	struct sml_transport *transport;
	struct sml_tensor tensor;
	struct sml_sequence sequence;
	struct sml_batch batch;
	void *tensor_memory;
	size_t tensor_bytes;
	void *input, *output; /* rank 0's are those of bench_serve() */
};

struct floor {
	unsigned n_workers;
	uint16_t lanes;
	struct floor_worker *workers;
	struct sml_path paths[SML_MAX_CHILDREN][SML_MAX_SHARDS]; /* of shard 0, the others unused */
	struct sml_pool pool;
	struct sml_udp_sender sender;
	struct sml_results results;
	struct sml_udp_inbox *inbox;
};

static struct sml_packet packets[SML_RECEIVE_PACKETS];

/* ---- one turn of a worker and of the switch ---- */

static bool send_all(struct floor_worker *from, uint32_t packet_bytes)
{
	bool busy = false;

	for (;;) {
		struct sml_batch *batch = &from->batch;

		if (batch->first == batch->n) {
			uint64_t now = sml_now_ns();

			sml_batch_clear(batch);
			while (sml_batch_has_room(batch, packet_bytes)) {
				size_t length =
					sml_worker_send(&from->worker, sml_batch_next(batch), now);

				if (length == 0)
					break;
				sml_batch_add(batch, (uint32_t)length, 0);
			}
		}
		if (batch->n == 0 || from->transport->ops->send(from->transport, batch) == 0)
			return busy;
		busy = true;
	}
}

static bool worker_turn(struct floor *this, struct floor_worker *worker)
{
	unsigned n = worker->transport->ops->receive(worker->transport, packets);
	uint64_t now = sml_now_ns();

	for (unsigned i = 0; i < n; i++)
		sml_worker_receive(&worker->worker, packets[i].bytes, packets[i].length, now);
	return send_all(worker, SML_HEADER_BYTES + 4u * this->lanes) || n > 0;
}

static bool switch_turn(struct floor *this)
{
	bool drained;
	unsigned n = sml_udp_inbox_receive(this->inbox, packets, &drained);

	for (unsigned i = 0; i < n; i++) {
		struct sml_pool_answer answer;

		if (sml_pool_receive(&this->pool, packets[i].bytes, packets[i].length, &answer) !=
		    SML_VERDICT_COMPLETED)
			continue; /* a repetition is not answered: it would hide a loss */
		if (sml_results_add(&this->results, this, 0, answer.packet, answer.length))
			continue;
		sml_results_flush(&this->results);
		sml_results_begin(&this->results, this, 0, this->paths[0],
				  (uint8_t)this->n_workers);
		sml_results_add(&this->results, this, 0, answer.packet, answer.length);
	}
	sml_results_flush(&this->results);
	return n > 0;
}

/* ---- a call ---- */

static bool submit(struct floor *this, unsigned rank, enum sml_type type, const void *input,
		   void *output, size_t count)
{
	struct floor_worker *worker = &this->workers[rank];
	const struct sml_tensor_spec spec = {
		.collective = SML_ALLREDUCE,
		.type = type,
		.op = SML_SUM,
		.wire = SML_WIRE_INT32,
		.count = count,
		.send = input,
		.send_count = count,
		.recv = output,
		.recv_count = count,
	};
	const struct sml_shape shape = {
		.lanes = this->lanes, .rank = (uint16_t)rank, .n_ranks = (uint16_t)this->n_workers};
	size_t bytes = sml_tensor_memory_bytes(&spec, &shape);

	if (bytes > worker->tensor_bytes) {
		free(worker->tensor_memory);
		worker->tensor_bytes = bytes;
		worker->tensor_memory = malloc(bytes);
	}
	if (worker->tensor_memory == NULL) {
		worker->tensor_bytes = 0;
		return false;
	}
	sml_tensor_init(&worker->tensor, &spec, &shape, &worker->sequence, worker->tensor_memory);
	return sml_worker_submit(&worker->worker, &worker->tensor);
}

static bool all_done(const struct floor *this)
{
	for (unsigned i = 0; i < this->n_workers; i++)
		if (!sml_tensor_is_done(&this->workers[i].tensor))
			return false;
	return true;
}

static int allreduce(void *state, enum sml_type type, const void *input, void *output, size_t count,
		     const char **why)
{
	struct floor *this = state;
	uint64_t began = sml_now_ns();

	*why = "no memory for a tensor";
	for (unsigned i = 0; i < this->n_workers; i++)
		if (!submit(this, i, type, i ? this->workers[i].input : input,
			    i ? this->workers[i].output : output, count))
			return -1;
	*why = "packets were lost, and the floor does not repeat them";
	while (!all_done(this)) {
		bool busy = false;

		for (unsigned i = 0; i < this->n_workers; i++)
			busy |= worker_turn(this, &this->workers[i]);
		while (switch_turn(this))
			busy = true;
		/* Shaped links still hold packets. */
		if (!busy && sml_now_ns() - began > CALL_NS)
			return -1;
	}
	for (unsigned i = 0; i < this->n_workers; i++)
		while (sml_worker_retire(&this->workers[i].worker))
			;
	return 0;
}

/* The other workers' inputs. */
static int prepare(void *state, const struct bench_case *what)
{
	struct floor *this = state;

	for (unsigned i = 1; i < this->n_workers; i++) {
		struct floor_worker *worker = &this->workers[i];
		size_t bytes = (what->count * sml_type_size(what->type) + 63) / 64 * 64;

		free(worker->input);
		free(worker->output);
		worker->input = aligned_alloc(64, bytes);
		worker->output = aligned_alloc(64, bytes);
		if (worker->input == NULL || worker->output == NULL)
			return -1;
		bench_fill(what, i, worker->input);
		memset(worker->output, 0xa5, bytes);
	}
	return 0;
}

/* ---- setting up ---- */

/* Everything opened from here on is in this namespace. Returns the address in "NETNS/ADDRESS". */
static const char *enter(const char *place)
{
	const char *slash = strchr(place, '/');
	char path[LINE_BYTES];
	int fd;

	if (slash == NULL)
		errx(2, "\"%s\" is not NETNS/ADDRESS", place);
	snprintf(path, sizeof(path), "/run/netns/%.*s", (int)(slash - place), place);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		err(1, "%s", path);
	close(fd);
	return slash + 1;
}

static void *need(void *memory)
{
	if (memory == NULL)
		errx(1, "no memory");
	return memory;
}

static union sml_sockaddr open_switch(struct floor *this, const char *place)
{
	const struct sml_udp_options options = {.address = enter(place), .n_threads = 1};
	struct sml_udp_inbox_config inbox = {.bytes = INBOX_BYTES, .gro = true};
	struct sml_pool_rules rules = {
		.tag = TAG,
		.job = JOB,
		.epoch = 1,
		.head_slots = HEAD_SLOTS,
		.data_slots = DATA_SLOTS,
		.lanes = this->lanes,
		.n_ranks = (uint8_t)this->n_workers,
		.n_shards = 1,
	};
	union sml_sockaddr address;
	socklen_t length = sizeof(address);
	uint32_t buffer_bytes;

	for (unsigned i = 0; i < this->n_workers; i++)
		rules.cookies[i] = COOKIE + i;
	sml_pool_init(&this->pool, &rules,
		      need(aligned_alloc(64, (sml_pool_memory_bytes(&rules) + 63) / 64 * 64)));
	inbox.fd = sml_udp_socket_open(&options, true, &buffer_bytes);
	if (inbox.fd < 0 || getsockname(inbox.fd, &address.any, &length) < 0)
		errx(1, "the switch's socket at %s: %s", place, strerrordesc_np(-inbox.fd));
	sml_udp_sender_init(&this->sender, inbox.fd, true);
	sml_results_init(&this->results, &this->sender, UINT8_MAX);
	this->inbox = need(sml_udp_inbox_new(&inbox));
	return address;
}

static void open_worker(struct floor *this, unsigned rank, const char *place,
			const union sml_sockaddr *peer)
{
	const struct sml_interface any = {.source.any.sa_family = peer->any.sa_family};
	const struct sml_transport_config transport = {.interface = &any, .peer = *peer};
	struct sml_worker_config config = {
		.cookie = COOKIE + rank,
		.tag = TAG,
		.job = JOB,
		.epoch = 1,
		.shape = {.lanes = this->lanes,
			  .rank = (uint16_t)rank,
			  .n_ranks = (uint16_t)this->n_workers},
		.number = (uint8_t)rank,
		.head_slots = HEAD_SLOTS,
		.data_slots = DATA_SLOTS,
		.n_shards = 1,
		.n_stripes = 1,
		.window_max = SML_MAX_SLOTS,
	};
	struct floor_worker *worker = &this->workers[rank];
	socklen_t length = sizeof(this->paths[rank][0].to);

	enter(place);
	if (sml_transport_udp.open(&worker->transport, &transport) < 0 ||
	    getsockname(worker->transport->poll_fd, (struct sockaddr *)&this->paths[rank][0].to,
			&length) < 0)
		errx(1, "rank %u's socket at %s cannot be opened", rank, place);
	sml_worker_init(&worker->worker, &config,
			need(aligned_alloc(64, (sml_worker_memory_bytes(&config) + 63) / 64 * 64)));
	worker->batch.bytes = need(aligned_alloc(64, SML_BATCH_BYTES));
}

int main(int argc, char **argv)
{
	static struct floor this;
	struct bench_library library = {
		.state = &this, .n_stripes = 1, .prepare = prepare, .allreduce = allreduce};
	union sml_sockaddr address;

	if (argc < 3 || argc - 2 > MOST_WORKERS)
		errx(2,
		     "usage: floor SWITCH-NETNS/ADDRESS RANK-NETNS/ADDRESS… (at most %d ranks); "
		     "bench/compare starts it",
		     MOST_WORKERS);
	this.n_workers = (unsigned)(argc - 2);
	this.lanes = sml_lanes_of_mtu(MTU, AF_INET);
	this.workers = need(aligned_alloc(64, this.n_workers * sizeof(*this.workers)));
	memset(this.workers, 0, this.n_workers * sizeof(*this.workers));
	address = open_switch(&this, argv[1]);
	for (unsigned i = 0; i < this.n_workers; i++)
		open_worker(&this, i, argv[2 + i], &address);
	library.n_ranks = (int)this.n_workers;
	library.wire = SML_WIRE_INT32;
	return bench_serve(&library);
}
