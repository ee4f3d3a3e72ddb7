/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of `switchml bench --chaos-ranks` (chaos_ranks.h). The main thread is in one membership
 * after the other. The other thread reads orders, so that it can end a join for which a member is
 * missing. Orders come one by one, so one to abandon a join can never end the next one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cmd/bench/chaos_ranks.h"
#include "sim/gen.h"

/* The first of a membership are small, so that one that lives shortly has some. */
#define SMALL_SUMS  4
#define SMALL_BYTES 4096

static struct chaos_rank {
	const struct bench_options *options;
	struct sml_config config;
	struct chaos_memory *memory;
	unsigned place;
	int fd;
	struct sml_context *context; /* NULL until it has been opened */
	volatile int interrupt;	     /* of sml_open() */
	/* From the thread that reads orders to the main thread. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool has_order;
	struct chaos_order next;  /* read last */
	struct chaos_order order; /* the main thread's */
	struct bench_buffers buffers;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- orders ---- */

static void abandon(const struct chaos_order *order)
{
	struct sml_context *context = __atomic_load_n(&self.context, __ATOMIC_ACQUIRE);

	if (order->membership != self.next.membership)
		return;
	__atomic_store_n(&self.interrupt, 1, __ATOMIC_RELAXED);
	if (context)
		(void)sml_abort(context, "another member died while this one joined");
}

/* The previous order has been obeyed: the keeper waits for that. */
static void pass_on(const struct chaos_order *order)
{
	pthread_mutex_lock(&self.lock);
	__atomic_store_n(&self.interrupt, 0, __ATOMIC_RELAXED);
	self.next = *order;
	self.has_order = true;
	pthread_cond_signal(&self.changed);
	pthread_mutex_unlock(&self.lock);
}

static void *read_orders(void *unused)
{
	struct chaos_order order;

	(void)unused;
	while (read(self.fd, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		if (order.verb == ORDER_ABANDON)
			abandon(&order);
		else
			pass_on(&order);
	}
	_exit(0); /* the keeper has ended */
}

static const struct chaos_order *next_order(void)
{
	pthread_mutex_lock(&self.lock);
	while (!self.has_order)
		pthread_cond_wait(&self.changed, &self.lock);
	self.has_order = false;
	self.order = self.next;
	pthread_mutex_unlock(&self.lock);
	return &self.order;
}

static void answer(struct chaos_answer *what)
{
	what->membership = self.order.membership;
	what->at_ns = bench_now_ns();
	if (write(self.fd, what, sizeof(*what)) != (ssize_t)sizeof(*what))
		_exit(1);
}

static void answer_failed(int error, bool joining, const char *text)
{
	struct chaos_answer what = {.what = ANSWER_FAILED, .error = error, .joining = joining};

	snprintf(what.text, sizeof(what.text), "%s", text);
	answer(&what);
}

/* ---- a membership ---- */

/* Errors are the keeper's to judge, so these lines would only hide its own. */
static void drop_line(void *unused, int level, const char *text)
{
	(void)unused;
	(void)level;
	(void)text;
}

static int join(const struct chaos_order *order)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;
	struct sml_context *context;
	char name[160];
	int error;

	snprintf(name, sizeof(name), "%.120s, membership %u", self.config.job, order->membership);
	next.job = name;
	next.rank = order->rank;
	next.world_size = order->world_size;
	if (self.context)
		return sml_reconfigure(self.context, &next);
	struct sml_config config = self.config;

	config.job = name;
	config.rank = order->rank;
	config.world_size = order->world_size;
	config.interrupt = &self.interrupt;
	if (!getenv("SWITCHML_DEBUG"))
		config.log = drop_line;
	error = sml_open(&context, &config);
	if (error == 0)
		__atomic_store_n(&self.context, context, __ATOMIC_RELEASE);
	return error;
}

/* The n-th set bit, counted from 0. */
static unsigned nth_bit(unsigned bits, unsigned n)
{
	for (; n > 0; n--)
		bits &= bits - 1;
	return (unsigned)__builtin_ctz(bits);
}

/* The same on all members. */
static struct bench_case choose_case(const struct chaos_order *order, uint32_t number)
{
	const struct bench_options *options = self.options;
	uint64_t most = options->max_bytes;
	struct bench_case this = {.collective = BENCH_ALL_REDUCE, .members = order->members};
	static struct gen gen; /* large */

	gen_from_seed(&gen,
		      options->seed ^ (uint64_t)order->membership << 32 ^ (uint64_t)number << 8);
	this.seed = (uint32_t)gen_u64(&gen);
	this.type = (enum sml_type)nth_bit(
		options->types, gen_below(&gen, (unsigned)__builtin_popcount(options->types)));
	this.op = (enum sml_op)nth_bit(options->ops,
				       gen_below(&gen, (unsigned)__builtin_popcount(options->ops)));
	if (!bench_type_has_op(this.type, this.op))
		this.op = SML_SUM;
	this.wire = options->wire || bench_has_own_wire(this.type) ? options->wire : SML_WIRE_INT32;
	this.n_ranks = (unsigned)order->world_size;
	if (number < SMALL_SUMS && most > SMALL_BYTES)
		most = SMALL_BYTES > options->min_bytes ? SMALL_BYTES : options->min_bytes;
	/* All sizes are about as frequent on a scale of powers of two. */
	while (most > 2 * options->min_bytes && gen_chance(&gen, 3, 4))
		most /= 2;
	most -= gen_below(&gen, (uint32_t)(most / 2 + 1));
	this.count = most / sml_type_size(this.type);
	this.count += this.count == 0;
	return this;
}

/* Do all members have the same bits? The first one that comes here leaves its hash. */
static bool has_same_bits(uint32_t membership, uint32_t number, uint64_t hash)
{
	uint64_t *place = &self.memory->results[number % CHAOS_SUMS];
	uint64_t which = (uint64_t)(membership * 65536 + number) << 32;
	uint64_t mine = which | (uint32_t)(hash ^ hash >> 32);
	uint64_t found = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	while (found >> 32 != which >> 32)
		if (__atomic_compare_exchange_n(place, &found, mine, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return true;
	return found == mine;
}

static int make_sum(const struct chaos_order *order, uint32_t number)
{
	const struct bench_case this = choose_case(order, number);
	uint64_t unused, wrong;
	int error;

	self.buffers.place = number % 3 == 2 ? BENCH_IN_PLACE : BENCH_OUT_OF_PLACE;
	bench_collective_fill(&this, (unsigned)order->rank, self.buffers.input);
	/* Elements that a call does not write must look wrong. */
	memset(self.buffers.output, 0xa5, bench_bytes(&this));
	error = bench_collective_call(self.context, &this, &self.buffers, &unused);
	if (error)
		return error;
	wrong = bench_count_wrong(&this, self.buffers.recv);
	wrong += !has_same_bits(order->membership, number, bench_hash(&this, self.buffers.recv));
	if (wrong > 0)
		fprintf(stderr,
			"switchml bench: rank %d (process %u) of membership %u: sum %u of %zu %s "
			"has %llu wrong elements\n",
			order->rank, order->members[order->rank], order->membership, number,
			this.count, bench_type_name(this.type), (unsigned long long)wrong);
	__atomic_fetch_add(&self.memory->sums, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&self.memory->wrong, wrong > 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&self.memory->progress[self.place], 1, __ATOMIC_RELAXED);
	return 0;
}

/* Rank 0 reads what the keeper wishes, so that all members stop after the same call. */
static int agree_to_stop(const struct chaos_order *order, int32_t *stop)
{
	*stop = order->rank == 0 &&
		__atomic_load_n(&self.memory->stop, __ATOMIC_RELAXED) >= order->membership;
	return sml_allreduce(self.context, stop, stop, 1, SML_INT32, SML_MAX, NULL);
}

static void be_member(const struct chaos_order *order)
{
	struct chaos_answer summed = {.what = ANSWER_SUMMED};
	struct chaos_answer stopped = {.what = ANSWER_STOPPED};
	int32_t stop = 0;
	int error = join(order);

	if (error) {
		answer_failed(error, true, sml_error_text(NULL));
		return;
	}
	for (uint32_t number = 0; error == 0 && !stop; number++) {
		error = make_sum(order, number);
		if (error == 0 && number == 0)
			answer(&summed);
		if (error == 0)
			error = agree_to_stop(order, &stop);
	}
	if (error)
		answer_failed(error, false, sml_error_text(self.context));
	else
		answer(&stopped);
}

static void leave(void)
{
	struct chaos_answer closed = {.what = ANSWER_CLOSED, .error = sml_close(self.context)};

	if (closed.error)
		snprintf(closed.text, sizeof(closed.text), "%s", sml_strerror(closed.error));
	answer(&closed);
}

void bench_chaos_rank(const struct bench_options *options, const struct sml_config *config,
		      struct chaos_memory *memory, unsigned place, int fd)
{
	const struct chaos_order *order;
	pthread_t reader;

	self.options = options;
	self.config = *config;
	self.memory = memory;
	self.place = place;
	self.fd = fd;
	self.buffers.input = malloc(options->max_bytes + 8);
	self.buffers.output = malloc(options->max_bytes + 8);
	if (!self.buffers.input || !self.buffers.output ||
	    sml_thread_start(&reader, "orders", read_orders, NULL) < 0) {
		fprintf(stderr, "switchml bench: no memory for a rank\n");
		_exit(1);
	}
	for (;;) {
		order = next_order();
		if (order->verb == ORDER_JOIN)
			be_member(order);
		else
			leave();
	}
}
