/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection in its own thread, and its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "lib/control/internal.h"
#include "lib/settings/notice.h"

/* How long the end waits until the switch has received an abort. */
#define DRAIN_NS (200 * SML_NS_PER_MS)

static void send_abort(struct sml_control *control)
{
	control->aborts = true;
	sml_session_abort(&control->session, control->abort.error, control->abort.text,
			  control->abort.kinds);
}

static void send_renewals(struct sml_control *control, const uint32_t *numbers)
{
	for (uint8_t shard = 0; shard < SML_MAX_SHARDS; shard++)
		if (numbers[shard])
			sml_session_renew(&control->session, shard, numbers[shard]);
}

/* Leaving, aborting and stopping stay wanted: they are states, and not questions. */
static void take_wanted(struct sml_control *control, struct sml_wanted *wanted)
{
	pthread_mutex_lock(&control->lock);
	*wanted = control->wanted;
	memset(control->wanted.renewals, 0, sizeof(wanted->renewals));
	control->wanted.stalls = control->wanted.mismatch = false;
	pthread_mutex_unlock(&control->lock);
}

void sml_control_on_wake(void *self, unsigned what)
{
	struct sml_control *control = self;
	struct sml_wanted wanted;

	(void)what;
	/* What is wanted before there is a thread waits for it. */
	if (!control->threaded)
		return;
	take_wanted(control, &wanted);
	send_renewals(control, wanted.renewals);
	if (wanted.stalls)
		sml_session_query_stalls(&control->session);
	if (wanted.mismatch)
		sml_session_mismatch(&control->session, &control->mismatch);
	if (wanted.abort)
		send_abort(control);
	else if (wanted.leave)
		sml_session_leave(&control->session, sml_now_ns());
	if (wanted.stop)
		sml_loop_stop(control->loop);
}

static void *thread_main(void *self)
{
	struct sml_control *control = self;

	/* Questions that came before this rank could answer are answered now. */
	sml_session_serve(&control->session, &control->owner.answers, control->owner.lost != NULL);
	sml_loop_run(control->loop);
	return NULL;
}

/* The lock is held. */
static void wake(struct sml_control *control)
{
	if (control->wake)
		sml_watch_post(control->wake);
}

int sml_control_start(struct sml_control *control, const struct sml_control_owner *owner)
{
	int error = sml_control_failure(control);

	if (error)
		return error;
	control->owner = *owner;
	control->threaded = true;
	sml_watch_post(control->wake);
	error = sml_thread_start(&control->thread, "sml-control", thread_main, control);
	if (error) {
		control->threaded = false;
		return sml_error_set(error, "the control thread cannot be started: %s",
				     strerrordesc_np(-error));
	}
	return 0;
}

/* The application's log may take a while: not under the lock, which is held. */
static void report_leaving(struct sml_control *control, const struct sml_notice *notice,
			   uint64_t now_ns, uint64_t deadline_ns)
{
	if (!control->settings->speaks)
		return;
	pthread_mutex_unlock(&control->lock);
	sml_notice_log(notice, now_ns, deadline_ns,
		       "the other ranks of job \"%s\" to close it as this one does",
		       control->settings->config.job);
	pthread_mutex_lock(&control->lock);
}

int sml_control_leave(struct sml_control *control, uint64_t deadline_ns)
{
	uint64_t now_ns = sml_now_ns();
	struct sml_notice notice;

	sml_notice_begin(&notice, control->settings, now_ns);
	pthread_mutex_lock(&control->lock);
	control->wanted.leave = true;
	wake(control);
	for (; sml_control_phase(control) < SML_SESSION_LEFT && now_ns < deadline_ns;
	     now_ns = sml_now_ns()) {
		struct timespec until = sml_timespec(sml_notice_wake(&notice, deadline_ns));

		if (sml_notice_is_due(&notice, now_ns))
			report_leaving(control, &notice, now_ns, deadline_ns);
		else
			pthread_cond_timedwait(&control->changed, &control->lock, &until);
	}
	pthread_mutex_unlock(&control->lock);
	switch (sml_control_phase(control)) {
	case SML_SESSION_LEFT:
		return 0;
	case SML_SESSION_LOST:
		return 1;
	case SML_SESSION_FAILED:
		return sml_error_set(control->session.error, "%s", control->session.text);
	default:
		break;
	}
	return sml_error_set(
		SML_ERROR_TIMEOUT,
		"not every rank closed its context of job \"%s\" within a timeout of %g s",
		control->settings->config.job, sml_timeout_ms(control->settings) / 1e3);
}

void sml_control_mismatch(struct sml_control *control, const struct sml_disagreement *found)
{
	if (__atomic_exchange_n(&control->mismatch_reported, true, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&control->lock);
	control->mismatch = *found;
	control->wanted.mismatch = true;
	wake(control);
	pthread_mutex_unlock(&control->lock);
}

void sml_control_renew(struct sml_control *control, uint8_t shard, uint32_t number)
{
	pthread_mutex_lock(&control->lock);
	control->wanted.renewals[shard] = number;
	wake(control);
	pthread_mutex_unlock(&control->lock);
}

void sml_control_abort(struct sml_control *control, int error, const char *text, unsigned kinds)
{
	pthread_mutex_lock(&control->lock);
	if (control->abort.error == 0 && sml_control_phase(control) < SML_SESSION_LEFT) {
		control->abort.error = error;
		control->wanted.abort = true;
		control->abort.kinds = kinds;
		snprintf(control->abort.text, sizeof(control->abort.text), "%s", text);
	}
	wake(control);
	pthread_mutex_unlock(&control->lock);
}

void sml_control_retreat(struct sml_control *control)
{
	control->retreats = true;
}

/* Why there is no report. The lock is held. */
static void explain_no_stalls(const struct sml_control *control, unsigned stripe, char *text,
			      size_t text_bytes)
{
	if (sml_control_phase(control) == SML_SESSION_FAILED && control->abort.error == 0)
		/* Another rank was faster; its text says what it found out. */
		snprintf(text, text_bytes, "%s", control->session.text);
	else if (sml_control_phase(control) >= SML_SESSION_LEFT)
		snprintf(text, text_bytes, "the connection to %s at %s has ended",
			 control->session.config.what, control->session.config.where);
	else if (!control->session.admission.stall_reports)
		snprintf(text, text_bytes, "%s at %s is too old to report it",
			 control->session.config.what, control->session.config.where);
	else if (control->session.has_slots)
		snprintf(text, text_bytes, "rank %u does not answer", stripe);
	else
		snprintf(text, text_bytes, "%s at %s does not answer", control->session.config.what,
			 control->session.config.where);
}

struct sml_stall_report *sml_control_stalls(struct sml_control *control, unsigned stripe,
					    uint64_t until_ns, char *text, size_t text_bytes)
{
	struct timespec until = sml_timespec(until_ns);
	struct sml_stall_report *stalls;
	int late = 0;

	pthread_mutex_lock(&control->lock);
	while (until_ns > 0 && control->session.admission.stall_reports &&
	       !control->stalls[stripe] && sml_control_phase(control) < SML_SESSION_LEFT && !late)
		late = pthread_cond_timedwait(&control->changed, &control->lock, &until);
	stalls = sml_stall_report_hold(control->stalls[stripe]);
	if (stalls == NULL)
		explain_no_stalls(control, stripe, text, text_bytes);
	pthread_mutex_unlock(&control->lock);
	return stalls;
}

struct sml_stall_report *sml_control_last_words(struct sml_control *control)
{
	struct sml_stall_report *words;

	pthread_mutex_lock(&control->lock);
	words = sml_stall_report_hold(control->last_words);
	pthread_mutex_unlock(&control->lock);
	return words;
}

/* The lock is held. */
static void forget_stalls(struct sml_control *control)
{
	for (unsigned i = 0; i < SML_MAX_STRIPES && !control->keeps_stalls; i++) {
		sml_stall_report_close(control->stalls[i]);
		control->stalls[i] = NULL;
	}
}

void sml_control_query(struct sml_control *control)
{
	pthread_mutex_lock(&control->lock);
	forget_stalls(control);
	if (control->session.admission.stall_reports) {
		control->wanted.stalls = true;
		wake(control);
	}
	pthread_mutex_unlock(&control->lock);
}

void sml_control_keep_stalls(struct sml_control *control)
{
	pthread_mutex_lock(&control->lock);
	forget_stalls(control);
	control->keeps_stalls = true;
	pthread_mutex_unlock(&control->lock);
}

/* If so, the reason does not change any more. */
static bool is_aborted(struct sml_control *control)
{
	bool aborted;

	pthread_mutex_lock(&control->lock);
	aborted = control->abort.error != 0;
	pthread_mutex_unlock(&control->lock);
	return aborted;
}

/* True: the others should learn the reason before they see only the connection's end. */
static bool stop_thread(struct sml_control *control)
{
	if (!control->threaded)
		return false;
	pthread_mutex_lock(&control->lock);
	control->wanted.stop = true;
	wake(control);
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->thread, NULL);
	return is_aborted(control);
}

/* Without a thread yet: what sml_control_abort() noted is said now. True: something is said. */
static bool take_leave(struct sml_control *control)
{
	if (control->threaded || !control->loop || sml_control_phase(control) >= SML_SESSION_LEFT)
		return false;
	if (is_aborted(control))
		send_abort(control);
	else if (control->retreats)
		sml_session_retreat(&control->session);
	else
		return sml_session_give_up(&control->session);
	return true;
}

void sml_control_go_on(struct sml_control *control)
{
	control->goes_on = true;
}

/* The loop and all that it watches. Other threads may still want to wake it. */
static void close_loop(struct sml_control *control)
{
	struct sml_watch *wake;

	pthread_mutex_lock(&control->lock);
	wake = control->wake;
	control->wake = NULL;
	pthread_mutex_unlock(&control->lock);
	sml_watch_free(wake);
	sml_watch_free(control->tick);
	control->tick = NULL;
	sml_channel_close(&control->channel);
	if (control->own_loop)
		sml_loop_close(control->loop);
	control->loop = NULL;
}

void sml_control_retire(struct sml_control *control)
{
	bool said = take_leave(control);

	said |= stop_thread(control);
	if (control->goes_on && control->loop)
		said |= sml_session_go_on(&control->session);
	/* A silent switch has been told that it is given up, and is not waited for. */
	if (control->loop)
		sml_channel_drain(&control->channel, said ? sml_now_ns() + DRAIN_NS : 0);
	control->threaded = false;
	close_loop(control);
}

void sml_control_close(struct sml_control *control)
{
	if (control == NULL)
		return;
	sml_control_retire(control);
	sml_session_fini(&control->session);
	for (unsigned i = 0; i < SML_MAX_STRIPES; i++)
		sml_stall_report_close(control->stalls[i]);
	sml_stall_report_close(control->last_words);
	pthread_mutex_destroy(&control->lock);
	pthread_cond_destroy(&control->changed);
	free(control);
}
