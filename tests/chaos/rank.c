/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of build/tests/chaos --chaos-ranks (ranks.h). The main thread is in one membership
 * after the other. The other thread reads orders, so that it can end a join for which a member is
 * missing. Orders come one by one, so one to abandon a join can never end the next one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "chaos/sums.h"

/* How long the switch waits for ranks that have not asked. Those that are later begin anew. */
#define ASK_MS 2000
/* Before it is asked again, if there is none. */
#define SWITCHLESS_US 20000

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
	struct chaos_order now;	  /* the membership that this rank is in */
	uint32_t number;	  /* of this process */
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- orders ---- */

static void abandon(const struct chaos_order *order)
{
	struct sml_context *context = __atomic_load_n(&self.context, __ATOMIC_ACQUIRE);

	if (order->membership != self.next.membership)
		return;
	if (order->verb == ORDER_ABANDON)
		__atomic_store_n(&self.interrupt, 1, __ATOMIC_RELAXED);
	if (context)
		(void)sml_abort(context, "another member has died");
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
		if (order.verb == ORDER_ABANDON || order.verb == ORDER_ABORT)
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
	what->membership = self.now.membership;
	what->rank = self.now.rank;
	what->world_size = self.now.world_size;
	memcpy(what->members, self.now.members, sizeof(what->members));
	what->at_ns = sml_now_ns();
	if (write(self.fd, what, sizeof(*what)) != (ssize_t)sizeof(*what))
		_exit(1);
}

/* Joining has failed, or a call. */
static void answer_failed(int error, bool joining, bool goes_on)
{
	struct chaos_answer what = {
		.what = ANSWER_FAILED, .error = error, .joining = joining, .goes_on = goes_on};

	snprintf(what.text, sizeof(what.text), "%s", sml_error_text(joining ? NULL : self.context));
	answer(&what);
}

/* ---- the switch decides ---- */

static bool is_interrupted(void)
{
	return __atomic_load_n(&self.interrupt, __ATOMIC_RELAXED) != 0;
}

/* After this error. */
static int join_decided(int error)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	if (error == SML_ERROR_SWITCH_DIED || error == SML_ERROR_UNREACHABLE)
		usleep(SWITCHLESS_US);
	next.wait_ms = ASK_MS;
	return is_interrupted() ? -EINTR : sml_reconfigure(self.context, &next);
}

static void note_newest(uint32_t membership)
{
	uint32_t *newest = &self.sums.memory->newest;
	uint32_t found = __atomic_load_n(newest, __ATOMIC_RELAXED);

	while (found < membership &&
	       !__atomic_compare_exchange_n(newest, &found, membership, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/*
 * Who the members are. The number of the membership is larger than any that has had a sum: before
 * a rank makes one, all members have made this call.
 */
static int meet_members(void)
{
	int32_t mine[2] = {(int32_t)__atomic_load_n(&self.sums.memory->newest, __ATOMIC_RELAXED),
			   (int32_t)self.number};
	int32_t all[BENCH_MAX_LOCAL][2] = {{0}};
	int32_t newest = 0;
	struct sml_info info = SML_INFO_INIT;
	int error;

	sml_get_info(self.context, &info);
	self.now.rank = info.rank;
	self.now.world_size = info.world_size;
	error = sml_allgather(self.context, mine, all, 2, SML_INT32, NULL, NULL);
	if (error)
		return error;
	for (int rank = 0; rank < self.now.world_size; rank++) {
		newest = all[rank][0] > newest ? all[rank][0] : newest;
		self.now.members[rank] = (uint32_t)all[rank][1];
	}
	self.now.membership = (uint32_t)newest + 1;
	note_newest(self.now.membership);
	return 0;
}

/* ---- a membership ---- */

/* Errors are the keeper's to judge, so these lines would only hide its own. */
static void drop_line(void *unused, enum sml_log_level level, const char *text)
{
	(void)unused;
	(void)level;
	(void)text;
}

static int open_job(const char *name, const struct chaos_order *order)
{
	struct sml_context *context;
	struct sml_config config = self.config;
	int error;

	config.job = name;
	config.rank = order->rank;
	config.world_size = order->world_size;
	config.join = order->waits;
	config.interrupt = &self.interrupt;
	if (!getenv("SWITCHML_DEBUG"))
		config.log = drop_line;
	error = sml_open(&context, &config);
	if (error == 0)
		__atomic_store_n(&self.context, context, __ATOMIC_RELEASE);
	return error;
}

static int join(const struct chaos_order *order)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;
	char name[160];

	self.now = *order;
	self.number = order->members[order->rank];
	snprintf(name, sizeof(name), "%.120s, membership %u", self.config.job, order->membership);
	next.job = name;
	next.rank = order->rank;
	next.world_size = order->world_size;
	return self.context ? sml_reconfigure(self.context, &next) : open_job(name, order);
}

/* Rank 0 reads what the keeper wishes, so that all members stop after the same call. */
enum wish { GO_ON, CHANGE, STOP };

static int agree_on_wish(int32_t *wish)
{
	struct sml_info info = SML_INFO_INIT;

	sml_get_info(self.context, &info);
	*wish = GO_ON;
	if (self.now.rank == 0 && self.sums.options->switch_decides && info.waiting > 0)
		*wish = CHANGE;
	if (self.now.rank == 0 &&
	    __atomic_load_n(&self.sums.memory->stop, __ATOMIC_RELAXED) >= self.now.membership)
		*wish = STOP;
	return sml_allreduce(self.context, wish, wish, 1, SML_INT32, SML_MAX, NULL, NULL);
}

/* Until there is an error or a wish. */
static int sum_on(int32_t *wish)
{
	struct chaos_answer summed = {.what = ANSWER_SUMMED};
	int error = self.sums.options->switch_decides ? meet_members() : 0;

	*wish = GO_ON;
	for (uint32_t number = 0; error == 0 && *wish == GO_ON; number++) {
		error = chaos_make_sum(&self.sums, self.context, &self.now, number);
		if (error == 0 && number == 0)
			answer(&summed);
		if (error == 0)
			error = agree_on_wish(wish);
	}
	return error;
}

/* Does this rank ask the switch for the next membership? If not, the keeper has to decide. */
static bool requests_next(int error, bool joining)
{
	if (!self.sums.options->switch_decides || !self.context || is_interrupted())
		return false;
	return !joining || (error != SML_ERROR_TIMEOUT && error != SML_ERROR_REFUSED);
}

static void be_member(const struct chaos_order *order)
{
	struct chaos_answer stopped = {.what = ANSWER_STOPPED};
	bool joining, goes_on;
	int32_t wish = GO_ON;
	int error = join(order);

	for (;; error = join_decided(error)) {
		joining = error != 0;
		if (error == 0)
			error = sum_on(&wish);
		if (error == 0 && wish == STOP) {
			answer(&stopped);
			return;
		}
		goes_on = requests_next(error, joining);
		/* The keeper waits for an answer even if it has called this join off. */
		if (!goes_on && error == 0)
			error = -EINTR;
		if (error)
			answer_failed(error, joining, goes_on);
		if (!goes_on)
			return;
	}
}

static void leave(void)
{
	struct chaos_answer closed = {.what = ANSWER_CLOSED, .error = sml_close(self.context)};

	if (closed.error)
		snprintf(closed.text, sizeof(closed.text), "%s", sml_strerror(closed.error));
	answer(&closed);
}

void chaos_rank(const struct chaos_options *options, const struct sml_config *config,
		struct chaos_memory *memory, unsigned place, int fd)
{
	const struct chaos_order *order;
	pthread_t reader;

	self.config = *config;
	self.sums.options = options;
	self.sums.memory = memory;
	self.sums.place = place;
	self.fd = fd;
	self.sums.buffers.input = malloc(options->bench.max_bytes + 8);
	self.sums.buffers.output = malloc(options->bench.max_bytes + 8);
	if (!self.sums.buffers.input || !self.sums.buffers.output ||
	    sml_thread_start(&reader, "orders", read_orders, NULL) < 0) {
		fprintf(stderr, "chaos: no memory for a rank\n");
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
