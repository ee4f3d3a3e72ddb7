/* SPDX-License-Identifier: BSD-3-Clause */
/* Callers that do the progress thread's work, where ranks share memory: see progress.h. */
#include "lib/progress/progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/host/slots.h"
#include "lib/progress/threads.h"

/* While another thread drives and the threads stop: it is in the middle of a round. */
#define LOOK_AGAIN_NS 50000

static bool begin_driving(struct sml_progress *progress)
{
	uint32_t nobody = 0;

	return __atomic_compare_exchange_n(&progress->driven, &nobody, 1, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

static bool is_outstanding(const struct sml_progress *progress)
{
	return __atomic_load_n(&progress->outstanding, __ATOMIC_SEQ_CST) > 0;
}

/* Shards to park, or to take back. */
static bool has_events(const struct sml_progress *progress)
{
	return __atomic_load_n(&progress->threads->events, __ATOMIC_SEQ_CST) !=
	       __atomic_load_n(&progress->events_known, __ATOMIC_SEQ_CST);
}

static bool is_driven(const struct sml_progress *progress)
{
	return __atomic_load_n(&progress->driven, __ATOMIC_SEQ_CST) != 0;
}

/* tensor: NULL: until none is outstanding. */
static bool is_over(const struct sml_progress *progress, const struct sml_tensor *tensor,
		    uint64_t deadline_ns)
{
	if (sml_threads_is_stopping(progress->threads) || sml_now_ns() >= deadline_ns)
		return true;
	return tensor ? sml_tensor_is_done(tensor) : !is_outstanding(progress);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Nothing was found to do for a while. True: something was, at last. */
static bool sleep_soundly(struct sml_progress *progress, const struct sml_tensor *tensor,
			  uint64_t deadline_ns)
{
	struct sml_host *host = progress->threads->host;
	uint32_t ready = sml_host_get_ready(host);
	bool busy = sml_progress_step(progress);
	uint64_t now_ns;

	if (!busy && !is_over(progress, tensor, deadline_ns)) {
		now_ns = sml_now_ns();
		sml_host_sleep(host, ready, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
	}
	sml_host_wake_up(host);
	return busy;
}

/* Look once more, or sleep. True: there was something to do. */
static bool wait_for_news(struct sml_progress *progress, const struct sml_tensor *tensor,
			  uint64_t waited_ns, uint64_t deadline_ns)
{
	const struct sml_host *host = progress->threads->host;

	if (waited_ns >= host->patience_ns && !progress->threads->spin)
		return sleep_soundly(progress, tensor, deadline_ns);
	if (host->has_cores)
		relax();
	else
		sched_yield();
	return sml_progress_step(progress);
}

static void drive(struct sml_progress *progress, const struct sml_tensor *tensor,
		  uint64_t deadline_ns)
{
	uint64_t since_ns;
	bool busy;

	while (!is_over(progress, tensor, deadline_ns)) {
		if (sml_progress_step(progress))
			continue;
		since_ns = sml_now_ns();
		do
			busy = wait_for_news(progress, tensor, sml_now_ns() - since_ns,
					     deadline_ns);
		while (!busy && !is_over(progress, tensor, deadline_ns));
		if (busy)
			sml_host_note_news(progress->threads->host, since_ns);
	}
}

void sml_progress_drive(struct sml_progress *progress, const struct sml_tensor *tensor,
			uint64_t deadline_ns)
{
	if (!begin_driving(progress))
		return;
	drive(progress, tensor, deadline_ns);
	__atomic_store_n(&progress->driven, 0, __ATOMIC_SEQ_CST);
	/* Of another call, or the threads stop: the thread waits for this one. */
	if (is_outstanding(progress) || has_events(progress))
		sml_progress_wake(progress);
}

void sml_progress_notify(struct sml_progress *progress, bool waits)
{
	if (is_driven(progress))
		sml_host_wake_self(progress->threads->host);
	else if (!waits)
		sml_progress_wake(progress);
}

void sml_progress_leave_alone(struct sml_progress *progress)
{
	if (!is_driven(progress))
		sml_progress_wake(progress);
}

/* ---- the thread ---- */

static void sleep_until_woken(struct sml_progress *progress)
{
	struct pollfd woken = {.fd = progress->wake_fd, .events = POLLIN};
	uint64_t ignored;

	__atomic_store_n(&progress->resting, SML_RESTING, __ATOMIC_SEQ_CST);
	if (!sml_threads_is_stopping(progress->threads) &&
	    (is_driven(progress) || (!is_outstanding(progress) && !has_events(progress))))
		(void)poll(&woken, 1, -1);
	__atomic_store_n(&progress->resting, SML_AWAKE, __ATOMIC_SEQ_CST);
	/* If a waker has not written yet, it only shortens the next rest. */
	if (woken.revents && read(progress->wake_fd, &ignored, sizeof(ignored)) < 0)
		sml_assert(errno == EAGAIN);
}

void sml_progress_drive_alone(struct sml_progress *progress)
{
	const struct timespec moment = {.tv_nsec = LOOK_AGAIN_NS};

	while (!sml_threads_is_stopping(progress->threads)) {
		if ((is_outstanding(progress) || has_events(progress)) && begin_driving(progress)) {
			__atomic_store_n(
				&progress->events_known,
				__atomic_load_n(&progress->threads->events, __ATOMIC_SEQ_CST),
				__ATOMIC_SEQ_CST);
			(void)sml_progress_step(progress);
			drive(progress, NULL, UINT64_MAX);
			__atomic_store_n(&progress->driven, 0, __ATOMIC_SEQ_CST);
		}
		sleep_until_woken(progress);
	}
	/* For good. */
	while (!begin_driving(progress))
		(void)nanosleep(&moment, NULL);
}
