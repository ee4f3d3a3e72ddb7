/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects the session (job/rank/session.h) with its channel: its outputs, and its inputs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "control/envelope.h"
#include "lib/control/internal.h"

/* ---- what has come of it ---- */

/*
 * Rank 0 has ended, and nobody is left to say what the slots wait for, or who the ranks are; the
 * admission said who they are. The lock is held.
 */
static void keep_names(struct sml_control *control)
{
	const struct sml_peer_ranks *peer_ranks = control->session.peer_ranks;
	struct sml_stall_report *words;

	if (peer_ranks == NULL || control->last_words ||
	    control->session.error != SML_ERROR_RANK_DIED)
		return;
	words = sml_stall_report_open(0, control->settings->world_size);
	for (unsigned rank = 0; words && rank < control->settings->world_size; rank++) {
		struct sml_stall_rank *about = &words->ranks[rank];

		snprintf(about->host, sizeof(about->host), "%s", peer_ranks->ranks[rank].name);
		about->pid = peer_ranks->ranks[rank].pid;
		about->connected = rank != 0;
	}
	control->last_words = words;
}

/* Tell the waiter and the owner. */
static void entered(void *self)
{
	struct sml_control *control = self;
	const struct sml_session *session = &control->session;

	pthread_mutex_lock(&control->lock);
	if (session->phase == SML_SESSION_FAILED)
		keep_names(control);
	pthread_cond_broadcast(&control->changed);
	pthread_mutex_unlock(&control->lock);
	if (session->phase < SML_SESSION_LEFT)
		return;
	sml_watch_at(control->tick, UINT64_MAX);
	if (session->phase == SML_SESSION_FAILED && control->threaded && !control->aborts)
		control->owner.failed(control->owner.answers.self, session->error, session->text,
				      session->planned);
	if (session->phase == SML_SESSION_LOST) {
		sml_loop_stop(control->loop);
		control->owner.lost(control->owner.answers.self, session->text);
	}
}

/* ---- what the session says ---- */

static int send_out(void *self, const SmlControl__Envelope *message)
{
	return sml_channel_send(((struct sml_control *)self)->channel, message);
}

/* NULL: no memory, or this rank has no slots. */
static struct sml_stall_report *unpack(const struct sml_control *control,
				       const SmlControl__StallReport *message)
{
	const struct sml_admission *admission = &control->session.admission;
	uint32_t n_slots = (uint32_t)admission->head_slots + admission->data_slots;

	return n_slots ? sml_stall_report_new(message, n_slots, control->settings->world_size)
		       : NULL;
}

/* An answer of what has slots, and could not look at them. */
static bool says_nothing(const SmlControl__StallReport *report)
{
	return report->partial && report->n_slots == 0;
}

/* The first answer to a question counts; after a failure, the first that says something. */
static void keep_report(struct sml_control *control, const SmlControl__StallReport *message,
			bool last_words, struct sml_stall_report **place)
{
	struct sml_stall_report *report = unpack(control, message);

	pthread_mutex_lock(&control->lock);
	if (*place == NULL && (last_words || !control->keeps_stalls || !says_nothing(message))) {
		*place = report;
		report = NULL;
		pthread_cond_broadcast(&control->changed);
	}
	pthread_mutex_unlock(&control->lock);
	sml_stall_report_close(report);
}

static void stalls_reported(void *self, const SmlControl__StallReport *report, bool last_words)
{
	struct sml_control *control = self;
	bool has_slots = control->session.has_slots;
	uint32_t stripe = has_slots && !last_words ? report->stripe : 0;

	if (stripe >= SML_MAX_STRIPES)
		return;
	if (last_words)
		sml_control_keep_stalls(control);
	keep_report(control, report, last_words,
		    has_slots && last_words ? &control->last_words : &control->stalls[stripe]);
	if (control->threaded && !last_words)
		control->owner.ticked(control->owner.answers.self);
}

static const struct sml_session_output output = {send_out, entered, stalls_reported};

void sml_control_begin_session(struct sml_control *control, const char *where)
{
	const struct sml_settings *settings = control->settings;
	const struct sml_listener *listener = control->place.listener;
	bool keyed = settings->tls && sml_tls_is_keyed(settings->tls);
	const struct sml_session_config config = {
		.what = listener->name,
		.where = where,
		.rank = settings->rank,
		.world_size = settings->world_size,
		.heartbeat_ms = (uint32_t)settings->config.heartbeat_ms,
		.rank_0_runs_it = listener->is_rank_0 && settings->rank != 0,
		.proof = keyed ? "--key-file" : "--tls-certificate",
		.unset = keyed ? "SWITCHML_JOB_KEY_FILE"
			       : "SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
				 "SWITCHML_TLS_AUTHORITY",
		.output = &output,
		.self = control,
	};

	sml_session_init(&control->session, &config);
}

/* ---- what it hears ---- */

bool sml_control_objects(void *self, const struct sml_head *head)
{
	struct sml_control *control = self;

	return sml_session_reject(&control->session, head);
}

/* Logged at once: the output of the refused rank may be on another terminal, or on none. */
static void log_refused(struct sml_control *control)
{
	const char *why = control->session.refused;

	if (strcmp(why, control->refused_logged) == 0)
		return;
	snprintf(control->refused_logged, sizeof(control->refused_logged), "%s", why);
	sml_log(&control->settings->log, SML_LOG_WARN,
		"still waiting for other ranks of job \"%s\"; the last rank that tried to join "
		"was refused: %s",
		control->settings->config.job, why);
}

void sml_control_received(void *self, const SmlControl__Envelope *message)
{
	struct sml_control *control = self;

	sml_session_message(&control->session, message);
	log_refused(control);
}

void sml_control_ended(void *self, int error)
{
	struct sml_control *control = self;
	struct sml_session *session = &control->session;
	const char *reason = sml_channel_tls_reason(control->channel);
	bool known = sml_channel_is_known(control->channel);
	char how[SML_TEXT_BYTES / 2];

	snprintf(how, sizeof(how), "%s", "closed the connection");
	if (error)
		snprintf(how, sizeof(how), "lost the connection (%s)", strerrordesc_np(-error));
	if (reason)
		snprintf(how, sizeof(how), "broke TLS: %.200s", reason);
	if (reason && session->phase < SML_SESSION_ADMITTED)
		sml_session_fail(session, SML_ERROR_TLS, "TLS with what listens at %s failed: %s",
				 session->config.where, reason);
	else if (!reason && error == -EPROTO)
		sml_session_fail(
			session, SML_ERROR_PROTOCOL,
			"what answers at %s does not speak the SwitchML protocol: check the "
			"address and the port",
			session->config.where);
	else
		sml_session_ended(session, how, known);
}

static uint64_t count_results(const struct sml_control *control)
{
	const struct sml_control_owner *owner = &control->owner;

	return control->threaded && owner->results ? owner->results(owner->answers.self) : 0;
}

void sml_control_on_tick(void *self, unsigned what)
{
	struct sml_control *control = self;

	(void)what;
	if (control->threaded) {
		control->owner.ticked(control->owner.answers.self);
		sml_thread_take_signals();
	}
	sml_session_tick(&control->session, sml_channel_heard_ns(control->channel),
			 count_results(control), sml_channel_is_known(control->channel),
			 sml_now_ns());
}
