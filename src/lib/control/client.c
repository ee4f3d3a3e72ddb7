/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/thread.h"
#include "control/envelope.h"
#include "control/text.h"
#include "lib/control/internal.h"
#include "lib/settings/notice.h"

/* The rank's own deadline comes first, because its error names the missing ranks. The switch ends a
 * rank that still waits this long after it. */
#define LATE_MS 10000u
/* That a switch that decides waits for ranks, also when most of the time is over. */
#define LEAST_WAIT_MS 500u
/* While the switch has this much to read, its questions wait: the answers would fill memory. */
#define MAX_UNREAD_BYTES (64u << 10)
/* How often a waiting call checks whether to give up. */
#define GIVE_UP_LOOK_NS (50 * SML_NS_PER_MS)

const struct sml_listener sml_listener_switch = {
	false, NULL, "a switch", "the same",
	"have they been started, with the same SWITCHML_JOB, SWITCHML_SWITCH and job key?"};
const struct sml_listener sml_listener_rank_0 = {
	true, "rank 0", "rank 0", "no",
	"have they been started, without SWITCHML_SWITCH as this rank, with the same "
	"SWITCHML_JOB, SWITCHML_MASTER_ADDR and SWITCHML_MASTER_PORT, and is that address one of "
	"rank 0's host?"};

bool sml_control_is_admitted(struct sml_control *control)
{
	enum sml_session_phase phase = control ? sml_control_phase(control) : SML_SESSION_CONNECTED;

	return phase >= SML_SESSION_ADMITTED && phase < SML_SESSION_LEFT;
}

bool sml_control_is_ready(struct sml_control *control)
{
	enum sml_session_phase phase = sml_control_phase(control);

	return phase >= SML_SESSION_READY && phase < SML_SESSION_LEFT;
}

uint64_t sml_control_slowest(struct sml_control *control, const char **text)
{
	*text = control->session.slowest;
	/* From then on, the session does not change. */
	return sml_control_phase(control) == SML_SESSION_LEFT ? control->session.slowest_ms : 0;
}

unsigned sml_control_waiting(struct sml_control *control)
{
	return __atomic_load_n(&control->session.n_joiners, __ATOMIC_RELAXED);
}

void sml_control_hold(struct sml_control *control)
{
	control->holds++;
}

void sml_control_release(struct sml_control *control)
{
	control->holds--;
}

bool sml_control_is_held(const struct sml_control *control)
{
	return control->holds > 0;
}

/* ---- the session (job/rank/session.h): what has come of it ---- */

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
	return sml_channel_send(&((struct sml_control *)self)->channel, message);
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

static void begin_session(struct sml_control *control, const char *where)
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

static void serve(void *self, unsigned what)
{
	(void)sml_channel_serve(&((struct sml_control *)self)->channel, what);
}

/* The session has failed then, and ended() changes nothing. */
static const char *objects(void *self, const struct sml_head *head, char *text, size_t bytes)
{
	struct sml_control *control = self;

	(void)text;
	(void)bytes;
	return sml_session_reject(&control->session, head) ? control->session.text : NULL;
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

/* For what a rank's slots wait for, it looks at all of them. */
static bool received(void *self, SmlControl__Envelope *message)
{
	sml_text_clean_message(&message->base);
	sml_control_received(self, message);
	return message->body_case != SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST;
}

static void ended(void *self, int error, const char *why)
{
	struct sml_control *control = self;
	struct sml_session *session = &control->session;
	const char *reason = sml_stream_tls_reason(&control->channel.stream);
	bool known = sml_stream_is_known(&control->channel.stream);
	char how[SML_TEXT_BYTES / 2];

	(void)why;
	snprintf(how, sizeof(how), "%s", "closed the connection");
	if (error)
		snprintf(how, sizeof(how), "lost the connection (%s)", strerrordesc_np(-error));
	if (*reason)
		snprintf(how, sizeof(how), "broke TLS: %.200s", reason);
	if (*reason && session->phase < SML_SESSION_ADMITTED)
		sml_session_fail(session, SML_ERROR_TLS, "TLS with what listens at %s failed: %s",
				 session->config.where, reason);
	else if (!*reason && error == -EPROTO)
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

static void on_tick(void *self, unsigned what)
{
	struct sml_control *control = self;

	(void)what;
	if (control->threaded) {
		control->owner.ticked(control->owner.answers.self);
		sml_thread_take_signals();
	}
	sml_session_tick(&control->session, control->channel.heard_ns, count_results(control),
			 sml_stream_is_known(&control->channel.stream), sml_now_ns());
}

/* ---- set-up ---- */

int sml_control_open(struct sml_control **opened, const struct sml_settings *settings,
		     const struct sml_reached *connection, const struct sml_stripe_index *place,
		     struct sml_loop *loop)
{
	struct sml_control *control = calloc(1, sizeof(*control));
	const struct sml_channel_owner owner = {.self = control,
						.serve = serve,
						.objects = objects,
						.received = received,
						.ended = ended,
						.max_unsent = MAX_UNREAD_BYTES};
	int error = -ENOMEM;

	if (control == NULL) {
		sml_fd_shut(connection->fd);
		goto err_memory;
	}
	control->channel.fd = -1;
	control->settings = settings;
	control->place = *place;
	begin_session(control, connection->endpoint->name);
	pthread_mutex_init(&control->lock, NULL);
	sml_cond_init(&control->changed);
	control->own_loop = loop == NULL;
	control->loop = loop;
	error = loop ? 0 : sml_loop_open(&control->loop);
	if (error) {
		sml_fd_shut(connection->fd);
		goto err_close;
	}
	error = sml_channel_open(&control->channel, control->loop, connection->fd, settings->tls,
				 connection->endpoint->host, &owner);
	control->tick = sml_watch_new(control->loop, -1, on_tick, control);
	control->wake = sml_watch_new(control->loop, -1, sml_control_on_wake, control);
	if (!control->tick || !control->wake)
		error = -ENOMEM;
	if (error)
		goto err_close;
	sml_watch_every(control->tick,
			sml_session_tick_ms((uint32_t)settings->config.heartbeat_ms) *
				SML_NS_PER_MS);
	/* Another stripe's thread may read it when it fails the context. */
	__atomic_store_n(opened, control, __ATOMIC_RELEASE);
	return 0;

err_close:
	sml_control_close(control);
err_memory:
	return sml_error_set(error,
			     "no memory or file descriptors for the control connection: %s "
			     "(the limit of descriptors: ulimit -n)",
			     strerrordesc_np(-error));
}

void sml_control_own_loop(struct sml_control *control)
{
	control->own_loop = true;
}

/* ---- while the context opens ---- */

void sml_control_watch(struct sml_control *control, const bool *give_up)
{
	control->give_up = give_up;
}

int sml_control_set_interrupted(void)
{
	return sml_error_set(-EINTR, "sml_open() was interrupted by the program "
				     "(struct sml_config's interrupt) before the job had begun");
}

int sml_control_failure(struct sml_control *control)
{
	int aborted;

	pthread_mutex_lock(&control->lock);
	aborted = control->threaded ? 0 : control->abort.error;
	pthread_mutex_unlock(&control->lock);
	if (sml_control_phase(control) == SML_SESSION_FAILED)
		return sml_error_set(control->session.error, "%s", control->session.text);
	if (aborted)
		return sml_error_set(aborted, "%s", control->abort.text);
	if (control->give_up && __atomic_load_n(control->give_up, __ATOMIC_SEQ_CST))
		return sml_error_set(SML_ERROR_CLOSED, "the context is being closed");
	if (control->give_up && sml_is_interrupted(control->settings->config.interrupt))
		return sml_control_set_interrupted();
	return 0;
}

/* The caller reads it. */
static void on_readable(void *self, unsigned what)
{
	(void)self;
	(void)what;
}

int sml_control_pump(struct sml_control *control, const int *fds, unsigned n_fds, uint64_t until_ns)
{
	struct sml_watch *watches[2 * SML_MAX_SHARDS] = {NULL};
	uint64_t now_ns = sml_now_ns();

	if (control->give_up && until_ns > now_ns + GIVE_UP_LOOK_NS)
		until_ns = now_ns + GIVE_UP_LOOK_NS;
	for (unsigned i = 0; i < n_fds; i++) {
		watches[i] = sml_watch_new(control->loop, fds[i], on_readable, NULL);
		if (watches[i])
			(void)sml_watch_set(watches[i], SML_WATCH_READ);
	}
	(void)sml_loop_turn(control->loop, until_ns);
	for (unsigned i = 0; i < n_fds; i++)
		sml_watch_free(watches[i]);
	return sml_control_failure(control);
}

static int too_late(struct sml_control *control)
{
	const struct sml_settings *settings = control->settings;
	const char *what = control->session.config.what;
	char ranks[SML_RANKS_TEXT_BYTES];
	unsigned n_missing = sml_ranks_count(&control->session.missing) + control->session.n_more;

	if (sml_control_phase(control) == SML_SESSION_JOINING && control->session.asks &&
	    control->session.heard)
		return sml_error_set(
			SML_ERROR_TIMEOUT,
			"%s at %s formed no membership of job \"%s\" with this process within "
			"%g s: its ranks let new processes in when they call sml_reconfigure() "
			"(the timeout is SWITCHML_TIMEOUT)",
			what, control->session.config.where, settings->line,
			settings->join_timeout_ms / 1e3);
	if (sml_control_phase(control) == SML_SESSION_JOINING && n_missing > 0) {
		sml_ranks_text(&control->session.missing, control->session.n_more, ranks,
			       sizeof(ranks));
		return sml_error_set(
			SML_ERROR_TIMEOUT,
			"rank%s %s of %u did not join job \"%s\" (%s at %s) "
			"within %g s: %s%s (the timeout is SWITCHML_TIMEOUT)",
			sml_plural(n_missing), ranks, settings->world_size, settings->config.job,
			what, control->session.config.where, settings->join_timeout_ms / 1e3,
			control->session.refused[0] ? "the last rank that tried was refused: "
						    : control->place.listener->remedy,
			control->session.refused);
	}
	return sml_error_set(
		SML_ERROR_TIMEOUT,
		sml_control_phase(control) == SML_SESSION_JOINING
			? "%s at %s did not answer within a timeout of %g s: does something "
			  "other than SwitchML listen there?"
			: "%s at %s did not start the job within a timeout of %g s: is "
			  "another rank's UDP path blocked?",
		what, control->session.config.where, settings->join_timeout_ms / 1e3);
}

/* ---- what a rank that waits says ---- */

bool sml_control_is_speaker(const struct sml_control *control)
{
	return !sml_ranks_is_empty(&control->session.missing) &&
	       sml_notice_is_speaker(control->settings, &control->session.missing);
}

bool sml_control_misses(const struct sml_control *control, unsigned rank)
{
	return sml_ranks_has(&control->session.missing, rank);
}

/* Of a job that begins. */
static void log_missing(const struct sml_control *control, const struct sml_notice *notice,
			uint64_t now_ns, uint64_t deadline_ns)
{
	const struct sml_session *session = &control->session;
	unsigned n_missing = sml_ranks_count(&session->missing) + session->n_more;
	unsigned n_here = control->settings->world_size - n_missing;
	char ranks[SML_RANKS_TEXT_BYTES];

	sml_ranks_text(&session->missing, session->n_more, ranks, sizeof(ranks));
	sml_notice_log(notice, now_ns, deadline_ns,
		       "rank%s %s of %u to join job \"%s\" (%s at %s); %u %s joined%s%s; have the "
		       "others the same SWITCHML_JOB, and %s SWITCHML_SWITCH?",
		       sml_plural(n_missing), ranks, control->settings->world_size,
		       control->settings->config.job, session->config.what, session->config.where,
		       n_here, n_here == 1 ? "has" : "have", session->hosts[0] ? ": " : "",
		       session->hosts, control->place.listener->same);
}

static void log_wait(struct sml_control *control, const struct sml_notice *notice, uint64_t now_ns,
		     uint64_t deadline_ns)
{
	const struct sml_session_config *config = &control->session.config;
	enum sml_session_phase phase = sml_control_phase(control);

	if (!sml_notice_is_speaker(control->settings, &control->session.missing) &&
	    !control->session.asks)
		return;
	if (phase == SML_SESSION_JOINING && control->session.asks)
		sml_notice_log(notice, now_ns, deadline_ns,
			       "%s at %s to form the next membership of job \"%s\"", config->what,
			       config->where, control->settings->line);
	else if (phase == SML_SESSION_JOINING && !sml_ranks_is_empty(&control->session.missing))
		log_missing(control, notice, now_ns, deadline_ns);
	else
		sml_notice_log(notice, now_ns, deadline_ns,
			       phase == SML_SESSION_JOINING
				       ? "%s at %s to answer"
				       : "%s at %s to start the job: other ranks still test "
					 "their UDP paths",
			       config->what, config->where);
}

/* After Ready, the job may also be admitted again. */
static bool has_come(struct sml_control *control, enum sml_session_phase wanted)
{
	enum sml_session_phase phase = sml_control_phase(control);

	return phase == wanted || (wanted == SML_SESSION_RUNNING && phase == SML_SESSION_ADMITTED);
}

static int wait_for(struct sml_control *control, enum sml_session_phase wanted,
		    const struct sml_meanwhile *meanwhile, uint64_t deadline_ns)
{
	int error = sml_control_failure(control);
	uint64_t now_ns = sml_now_ns();
	struct sml_notice notice;

	sml_notice_begin(&notice, control->settings, now_ns);
	for (; error == 0 && !has_come(control, wanted); now_ns = sml_now_ns()) {
		if (now_ns >= deadline_ns)
			return too_late(control);
		if (sml_notice_is_due(&notice, now_ns))
			log_wait(control, &notice, now_ns, deadline_ns);
		error = sml_control_pump(control, meanwhile ? meanwhile->fds : NULL,
					 meanwhile ? meanwhile->n_fds : 0,
					 sml_notice_wake(&notice, deadline_ns));
		if (meanwhile)
			meanwhile->act(meanwhile->self);
	}
	return error;
}

/*
 * A switch that has died took its wait with it: the next one waits for what is left, but for a
 * moment at least, because the other ranks are on their way there, too.
 */
static uint32_t wait_left_ms(const struct sml_settings *settings)
{
	uint64_t passed_ms = (sml_now_ns() - settings->asked_ns) / SML_NS_PER_MS;
	uint32_t whole_ms = settings->request_wait_ms;
	uint32_t least_ms = whole_ms < LEAST_WAIT_MS ? whole_ms : LEAST_WAIT_MS;

	return passed_ms + least_ms < whole_ms ? whole_ms - (uint32_t)passed_ms : least_ms;
}

/* The switch decides: as which rank of which job. */
static void request_membership(const struct sml_settings *settings,
			       struct sml_membership_request *ask, SmlControl__Join *join)
{
	sml_past_ranks_request(&settings->past, ask);
	ask->ask.min_ranks = settings->request_min_ranks;
	ask->ask.max_ranks = settings->request_max_ranks;
	ask->ask.wait_ms = wait_left_ms(settings);
	join->job = (char *)(uintptr_t)settings->line;
	join->ask = &ask->ask;
}

/* The caller has decided: the switch learns that this rank will not ask. */
static void list_past_ranks(const struct sml_settings *settings, struct sml_membership_request *ask,
			    SmlControl__Join *join)
{
	sml_past_ranks_request(&settings->past, ask);
	join->left = ask->list;
	join->n_left = ask->ask.n_past_ranks;
}

void sml_control_request_join(struct sml_control *control,
			      const struct sml_application *application)
{
	const struct sml_settings *settings = control->settings;
	uint32_t ports[SML_MAX_SHARDS];
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	struct sml_membership_request ask;
	char host[256] = "?", version[] = SML_VERSION_STRING;

	gethostname(host, sizeof(host) - 1);
	join.library_version = version;
	join.job = (char *)(uintptr_t)settings->config.job;
	if (control->place.stripe == 0 && application->resumption == NULL && settings->asks)
		request_membership(settings, &ask, &join);
	else if (control->place.stripe == 0 && application->resumption == NULL)
		list_past_ranks(settings, &ask, &join);
	join.elsewhere = application->elsewhere;
	if (settings->config.switch_address)
		join.switches = sml_endpoints_digest(settings->config.switch_address);
	join.process = settings->process;
	join.time_ns = sml_now_ns();
	join.host = host;
	join.pid = (uint32_t)getpid();
	join.lanes = application->lanes;
	join.head_slots = settings->head_slots;
	join.data_slots = settings->data_slots;
	join.shards = settings->threads;
	join.shards_set = settings->config.threads != 0;
	join.wait_ms = settings->join_timeout_ms + LATE_MS;
	join.no_tickets = settings->faults.no_tickets;
	join.wire = settings->config.wire;
	join.follows_tag = settings->stripe_tags[control->place.stripe];
	if (settings->follows.name) {
		join.follows = settings->follows.name;
		join.follows_ranks = settings->follows.n_ranks;
		join.follows_changes = settings->follows.changes;
	}
	join.stripe = control->place.stripe;
	join.stripes = control->place.n_stripes;
	for (unsigned i = 0; application->ports && i < settings->threads; i++)
		ports[i] = application->ports[i];
	join.stripe_ports = ports;
	join.n_stripe_ports = application->ports ? settings->threads : 0;
	if (application->machine) {
		join.machine.data = (uint8_t *)(uintptr_t)application->machine;
		join.machine.len = strlen(application->machine);
		join.host_token.data = (uint8_t *)(uintptr_t)application->host_token;
		join.host_token.len = SML_SESSION_TOKEN_BYTES;
	}
	sml_session_join(&control->session, &join, application->resumption);
}

int sml_control_admission(struct sml_control *control, const struct sml_meanwhile *meanwhile,
			  struct sml_admission *admission, uint64_t deadline_ns)
{
	int error = wait_for(control, SML_SESSION_ADMITTED, meanwhile, deadline_ns);

	*admission = control->session.admission;
	return error;
}

int sml_control_join(struct sml_control *control, const struct sml_application *application,
		     struct sml_admission *admission, uint64_t deadline_ns)
{
	sml_control_request_join(control, application);
	return sml_control_admission(control, NULL, admission, deadline_ns);
}

int sml_control_ready(struct sml_control *control, struct sml_readiness *found,
		      const struct sml_meanwhile *meanwhile, uint64_t deadline_ns)
{
	int error;

	sml_session_ready(&control->session, found);
	error = wait_for(control, SML_SESSION_RUNNING, meanwhile, deadline_ns);
	found->admitted_again = error == 0 && sml_control_phase(control) == SML_SESSION_ADMITTED;
	if (found->admitted_again)
		return 0;
	found->lanes = control->session.start_lanes;
	found->shares_memory = control->session.shares_memory;
	return error;
}
