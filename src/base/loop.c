/* SPDX-License-Identifier: BSD-3-Clause */
/* See loop.h. epoll waits for descriptors, and an eventfd wakes it for posts. */
#include "base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"

#define LEAST_POLLED 64
#define MOST_POLLED  4096
#define NEVER	     UINT64_MAX

/* A place in a circular list; alone, it leads to itself. */
struct link {
	struct link *previous, *next;
};

struct sml_watch {
	struct sml_loop *loop;
	int fd;
	unsigned class, wanted; /* of the descriptor */
	bool lingers;		/* nothing is wanted, but epoll has not removed the descriptor */
	unsigned ready;
	uint64_t when_ns, period_ns;
	struct link queued, timed;
	struct link posted; /* under the loop's lock */
	void (*act)(void *self, unsigned what);
	void *self;
};

struct sml_loop {
	int epoll_fd, wake_fd;
	bool stopped;
	unsigned limited_from, most_calls;
	uint64_t most_ns;
	struct link queues[SML_LOOP_CLASSES];
	struct link served; /* those of this turn that have not been served yet */
	struct link timed;
	struct link lingering; /* freed, but epoll may still name them in an event */
	struct epoll_event *polled;
	int n_polled;
	pthread_mutex_t lock;
	struct link posted;
};

/*
 * What wakes all loops of a process, because a job has two, and a process may have a hundred jobs:
 * an eventfd that is always readable. A loop looks at it only when it is to wake. Here are its
 * number, and below that, how many loops have it. A child of fork() has neither.
 */
static _Atomic uint64_t notifier;

#define ONE_WITH(fd) ((uint64_t)(fd) << 32 | 1)
#define FD_OF(seen)  ((int)((seen) >> 32))

/* ---- lists ---- */

static void link_init(struct link *link)
{
	link->previous = link->next = link;
}

static bool link_is_alone(const struct link *link)
{
	return link->next == link;
}

static void link_remove(struct link *link)
{
	link->previous->next = link->next;
	link->next->previous = link->previous;
	link_init(link);
}

/* At the list's end. */
static void link_append(struct link *list, struct link *link)
{
	link->previous = list->previous;
	link->next = list;
	list->previous->next = link;
	list->previous = link;
}

/* All of one list go to the other list's beginning. */
static void link_move_all(struct link *from, struct link *to)
{
	if (link_is_alone(from))
		return;
	from->previous->next = to->next;
	to->next->previous = from->previous;
	to->next = from->next;
	from->next->previous = to;
	link_init(from);
}

#define WATCH_OF(link, member)                                                                     \
	((struct sml_watch *)((uintptr_t)(link)-offsetof(struct sml_watch, member)))

/* ---- what is ready ---- */

static void make_ready(struct sml_watch *watch, unsigned what)
{
	if (watch->ready == 0 && what != 0)
		link_append(&watch->loop->queues[watch->class], &watch->queued);
	watch->ready |= what;
}

static void make_unready(struct sml_watch *watch, unsigned what)
{
	watch->ready &= ~what;
	if (watch->ready == 0)
		link_remove(&watch->queued);
}

static void take_posts(struct sml_loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	while (!link_is_alone(&loop->posted)) {
		struct sml_watch *watch = WATCH_OF(loop->posted.next, posted);

		link_remove(&watch->posted);
		make_ready(watch, SML_WATCH_POST);
	}
	pthread_mutex_unlock(&loop->lock);
}

static unsigned what_of(uint32_t events)
{
	/* The next read or write reports the error. */
	if (events & (EPOLLERR | EPOLLHUP))
		return SML_WATCH_READ | SML_WATCH_WRITE;
	return (events & EPOLLIN ? SML_WATCH_READ : 0) | (events & EPOLLOUT ? SML_WATCH_WRITE : 0);
}

/* False: there is no room for more, or no memory. */
static bool poll_more(struct sml_loop *loop)
{
	struct epoll_event *more;

	if (loop->n_polled >= MOST_POLLED)
		return false;
	more = malloc(2 * (size_t)loop->n_polled * sizeof(*more));
	if (more == NULL)
		return false;
	free(loop->polled);
	loop->polled = more;
	loop->n_polled *= 2;
	return true;
}

static bool poll_once(struct sml_loop *loop, int timeout_ms)
{
	int n = epoll_wait(loop->epoll_fd, loop->polled, loop->n_polled, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct sml_watch *watch = loop->polled[i].data.ptr;

		if (watch == NULL)
			take_posts(loop);
		else
			make_ready(watch, what_of(loop->polled[i].events) & watch->wanted);
	}
	return n == loop->n_polled;
}

/* All that are ready are seen in one turn: otherwise the first class would not be the first. */
static void poll_descriptors(struct sml_loop *loop, int timeout_ms)
{
	while (poll_once(loop, timeout_ms) && poll_more(loop))
		timeout_ms = 0;
}

static void look_at_times(struct sml_loop *loop)
{
	uint64_t now_ns = sml_now_ns();
	struct link *next;

	for (struct link *link = loop->timed.next; link != &loop->timed; link = next) {
		struct sml_watch *watch = WATCH_OF(link, timed);

		next = link->next;
		if (watch->when_ns > now_ns)
			continue;
		make_ready(watch, SML_WATCH_TIME);
		if (watch->period_ns == 0) {
			link_remove(link);
			continue;
		}
		watch->when_ns += watch->period_ns;
		/* After a pause, act once, and not once for each period. */
		if (watch->when_ns <= now_ns)
			watch->when_ns = now_ns + watch->period_ns;
	}
}

/* ---- a turn ---- */

/* SML_LOOP_CLASSES: none. */
static unsigned find_class(const struct sml_loop *loop)
{
	unsigned class = 0;

	while (class < SML_LOOP_CLASSES && link_is_alone(&loop->queues[class]))
		class ++;
	return class;
}

/* -1: forever. */
static int timeout_ms(const struct sml_loop *loop, uint64_t until_ns)
{
	if (until_ns == 0 || find_class(loop) < SML_LOOP_CLASSES)
		return 0;
	for (struct link *link = loop->timed.next; link != &loop->timed; link = link->next)
		if (WATCH_OF(link, timed)->when_ns < until_ns)
			until_ns = WATCH_OF(link, timed)->when_ns;
	return until_ns == NEVER ? -1 : sml_left_ms(until_ns);
}

static void serve_one(struct sml_watch *watch)
{
	unsigned what = watch->ready;

	make_unready(watch, what);
	/* It may free the watch. */
	watch->act(watch->self, what);
}

/* False: there was nothing to serve. */
static bool serve(struct sml_loop *loop)
{
	unsigned class = find_class(loop), n_calls = 0;
	bool limited = class >= loop->limited_from;
	uint64_t end_ns;

	if (class == SML_LOOP_CLASSES)
		return false;
	end_ns = limited ? sml_now_ns() + loop->most_ns : NEVER;
	link_move_all(&loop->queues[class], &loop->served);
	while (!link_is_alone(&loop->served) && !loop->stopped) {
		if (limited && n_calls > 0 &&
		    (n_calls == loop->most_calls || sml_now_ns() >= end_ns))
			break;
		serve_one(WATCH_OF(loop->served.next, queued));
		n_calls++;
	}
	/* The rest comes before those that became ready meanwhile. */
	link_move_all(&loop->served, &loop->queues[class]);
	return true;
}

bool sml_loop_turn(struct sml_loop *loop, uint64_t until_ns)
{
	loop->stopped = false;
	take_posts(loop);
	poll_descriptors(loop, timeout_ms(loop, until_ns));
	look_at_times(loop);
	return serve(loop);
}

void sml_loop_run(struct sml_loop *loop)
{
	do
		(void)sml_loop_turn(loop, NEVER);
	while (!loop->stopped);
}

void sml_loop_stop(struct sml_loop *loop)
{
	loop->stopped = true;
}

/* ---- opening and closing ---- */

static void forget_notifier(void)
{
	atomic_store(&notifier, 0);
}

static void mind_forks(void)
{
	(void)pthread_atfork(NULL, NULL, forget_notifier);
}

/* Returns a descriptor that is always readable, or a negative error. */
static int take_notifier(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t seen;
	int fd = -1;

	pthread_once(&once, mind_forks);
	seen = atomic_load(&notifier);

	for (;;) {
		if (seen == 0 && fd < 0) {
			fd = sml_fd_own(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
			if (fd < 0)
				return -errno;
		}
		if (seen == 0 && atomic_compare_exchange_strong(&notifier, &seen, ONE_WITH(fd)))
			return fd;
		if (seen && atomic_compare_exchange_strong(&notifier, &seen, seen + 1))
			break;
	}
	if (fd >= 0) /* another thread was faster */
		sml_fd_close(fd);
	return FD_OF(seen);
}

static void give_notifier(void)
{
	uint64_t seen = atomic_load(&notifier), left;

	do {
		if (seen == 0) /* a parent's loop */
			return;
		left = seen == ONE_WITH(FD_OF(seen)) ? 0 : seen - 1;
	} while (!atomic_compare_exchange_strong(&notifier, &seen, left));
	if (left == 0)
		sml_fd_close(FD_OF(seen));
}

static int open_descriptors(struct sml_loop *loop)
{
	struct epoll_event event = {.events = 0};

	loop->epoll_fd = sml_fd_own(epoll_create1(EPOLL_CLOEXEC));
	if (loop->epoll_fd < 0)
		return -errno;
	loop->wake_fd = take_notifier();
	if (loop->wake_fd < 0)
		return loop->wake_fd;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0 ? -errno : 0;
}

int sml_loop_open(struct sml_loop **opened)
{
	struct sml_loop *loop = calloc(1, sizeof(*loop));
	int error = -ENOMEM;

	if (loop == NULL)
		return -ENOMEM;
	loop->epoll_fd = loop->wake_fd = -1;
	loop->limited_from = SML_LOOP_CLASSES;
	for (unsigned class = 0; class < SML_LOOP_CLASSES; class ++)
		link_init(&loop->queues[class]);
	link_init(&loop->served);
	link_init(&loop->timed);
	link_init(&loop->lingering);
	link_init(&loop->posted);
	pthread_mutex_init(&loop->lock, NULL);
	loop->n_polled = LEAST_POLLED;
	loop->polled = malloc(LEAST_POLLED * sizeof(*loop->polled));
	if (loop->polled)
		error = open_descriptors(loop);
	if (error) {
		sml_loop_close(loop);
		return error;
	}
	*opened = loop;
	return 0;
}

void sml_loop_close(struct sml_loop *loop)
{
	if (loop == NULL)
		return;
	if (loop->epoll_fd >= 0)
		sml_fd_close(loop->epoll_fd);
	if (loop->wake_fd >= 0)
		give_notifier();
	while (!link_is_alone(&loop->lingering)) {
		struct sml_watch *watch = WATCH_OF(loop->lingering.next, queued);

		link_remove(&watch->queued);
		free(watch);
	}
	pthread_mutex_destroy(&loop->lock);
	free(loop->polled);
	free(loop);
}

void sml_loop_limit(struct sml_loop *loop, unsigned first, unsigned most_calls, uint64_t most_ns)
{
	loop->limited_from = first;
	loop->most_calls = most_calls;
	loop->most_ns = most_ns;
}

/* ---- watches ---- */

struct sml_watch *sml_watch_new(struct sml_loop *loop, int fd,
				void (*act)(void *self, unsigned what), void *self)
{
	struct sml_watch *watch = calloc(1, sizeof(*watch));

	if (watch == NULL)
		return NULL;
	watch->loop = loop;
	watch->fd = fd;
	watch->act = act;
	watch->self = self;
	link_init(&watch->queued);
	link_init(&watch->timed);
	link_init(&watch->posted);
	return watch;
}

void sml_watch_free(struct sml_watch *watch)
{
	if (watch == NULL)
		return;
	(void)sml_watch_set(watch, 0);
	link_remove(&watch->queued);
	link_remove(&watch->timed);
	pthread_mutex_lock(&watch->loop->lock);
	link_remove(&watch->posted);
	pthread_mutex_unlock(&watch->loop->lock);
	if (watch->lingers)
		link_append(&watch->loop->lingering, &watch->queued);
	else
		free(watch);
}

void sml_watch_set_class(struct sml_watch *watch, unsigned class)
{
	watch->class = class;
	if (watch->ready == 0)
		return;
	link_remove(&watch->queued);
	link_append(&watch->loop->queues[class], &watch->queued);
}

int sml_watch_set(struct sml_watch *watch, unsigned what)
{
	struct epoll_event event = {.events = (what & SML_WATCH_READ ? EPOLLIN : 0u) |
					      (what & SML_WATCH_WRITE ? EPOLLOUT : 0u),
				    .data.ptr = watch};
	bool is_there = watch->wanted != 0 || watch->lingers;
	int verb = what == 0 ? EPOLL_CTL_DEL : is_there ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	bool failed;

	if (what == watch->wanted)
		return 0;
	failed = epoll_ctl(watch->loop->epoll_fd, verb, watch->fd, &event) < 0;
	if (failed && what != 0)
		return -errno;
	watch->lingers = failed && errno != ENOENT && errno != EBADF;
	watch->wanted = what;
	make_unready(watch, (SML_WATCH_READ | SML_WATCH_WRITE) & ~what);
	return 0;
}

void sml_watch_at(struct sml_watch *watch, uint64_t when_ns)
{
	link_remove(&watch->timed);
	make_unready(watch, SML_WATCH_TIME);
	watch->when_ns = when_ns;
	watch->period_ns = 0;
	if (when_ns != NEVER)
		link_append(&watch->loop->timed, &watch->timed);
}

void sml_watch_every(struct sml_watch *watch, uint64_t period_ns)
{
	sml_watch_at(watch, sml_now_ns() + period_ns);
	watch->period_ns = period_ns;
}

void sml_watch_post(struct sml_watch *watch)
{
	struct sml_loop *loop = watch->loop;
	struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT};

	pthread_mutex_lock(&loop->lock);
	if (link_is_alone(&watch->posted))
		link_append(&loop->posted, &watch->posted);
	pthread_mutex_unlock(&loop->lock);
	/* No wake-up may be lost. This takes no memory, so it does not fail twice. */
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->wake_fd, &once) < 0)
		(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->wake_fd, &once);
}
