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
#include "cmd/bench/chaos_sums.h"

static struct chaos_rank {
	struct sml_config config;
	struct chaos_sums sums;
	int fd;
	struct sml_context *context; /* NULL until it has been opened */
	volatile int interrupt;	     /* of sml_open() */
	/* From the thread that reads orders to the main thread. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool has_order;
	struct chaos_order next;  /* read last */
	struct chaos_order order; /* the main thread's */
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

/* Rank 0 reads what the keeper wishes, so that all members stop after the same call. */
static int agree_to_stop(const struct chaos_order *order, int32_t *stop)
{
	*stop = order->rank == 0 &&
		__atomic_load_n(&self.sums.memory->stop, __ATOMIC_RELAXED) >= order->membership;
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
		error = chaos_make_sum(&self.sums, self.context, order, number);
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

	self.config = *config;
	self.sums.options = options;
	self.sums.memory = memory;
	self.sums.place = place;
	self.fd = fd;
	self.sums.buffers.input = malloc(options->max_bytes + 8);
	self.sums.buffers.output = malloc(options->max_bytes + 8);
	if (!self.sums.buffers.input || !self.sums.buffers.output ||
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
