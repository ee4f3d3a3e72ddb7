/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control_client.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/channel.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/thread.h"

#define PING_MAX_MS  1000
#define DRAIN_NS     (200 * SML_NS_PER_MS)

enum phase { CONNECTED, JOINING, ADMITTED, READY, RUNNING, LEAVING, LEFT, FAILED };

struct sml_control {
	const struct sml_settings *settings;
	const char *where; /* the switch, for texts */
	struct event_base *base;
	struct sml_channel *channel;
	struct event *tick, *wake, *pump_timer;
	bool silent; /* the last tick found that nothing had come for too long */
	uint64_t missing; /* ranks that had not joined when we last heard */
	struct sml_admission admission;
	uint16_t start_lanes;
	struct sml_control_owner owner;
	pthread_t thread;
	bool threaded;

	/* Shared with callers once the thread runs. */
	int wake_fd;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum phase phase;
	bool leave_wanted, stop_wanted;
	int abort_error; /* 0: none wanted */
	char abort_text[SML_TEXT_BYTES];
	int error;
	char text[SML_TEXT_BYTES];
};

static enum phase phase_of(struct sml_control *control)
{
	enum phase phase;

	pthread_mutex_lock(&control->lock);
	phase = control->phase;
	pthread_mutex_unlock(&control->lock);
	return phase;
}

static void set_phase(struct sml_control *control, enum phase phase)
{
	pthread_mutex_lock(&control->lock);
	control->phase = phase;
	pthread_cond_broadcast(&control->changed);
	pthread_mutex_unlock(&control->lock);
}

/* The connection is of no more use. The first reason counts. */
__attribute__((format(printf, 3, 4))) static void fail(struct sml_control *control, int error,
						       const char *format, ...)
{
	enum phase before = phase_of(control);
	va_list arguments;

	if (before == FAILED || before == LEFT)
		return;
	pthread_mutex_lock(&control->lock);
	control->error = error;
	va_start(arguments, format);
	vsnprintf(control->text, sizeof(control->text), format, arguments);
	va_end(arguments);
	pthread_mutex_unlock(&control->lock);
	set_phase(control, FAILED);
	event_del(control->tick);
	if (control->threaded)
		control->owner.failed(control->owner.self, error, control->text);
}

static void send_message(struct sml_control *control, const SmlControl__Envelope *message)
{
	if (sml_channel_send(control->channel, message) < 0)
		fail(control, -ENOMEM, "no memory for a control message");
}

/* ---- what comes ---- */

static void on_waiting(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Waiting *waiting = message->waiting;

	control->missing = 0;
	for (size_t i = 0; i < waiting->n_missing; i++)
		control->missing |= (uint64_t)1 << (waiting->missing[i] & 63);
}

static void on_admitted(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Admitted *in = message->admitted;

	if (in->lanes == 0 || in->lanes > SML_MAX_LANES || in->shards == 0 ||
	    in->shards > SML_MAX_SHARDS || in->data_port == 0 || in->data_port > 65535 ||
	    in->head_slots < in->shards || in->data_slots < in->shards ||
	    in->head_slots > SML_MAX_SLOTS || in->data_slots > SML_MAX_SLOTS) {
		fail(control, SML_ERROR_PROTOCOL,
		     "the switch at %s admits the job with impossible numbers: %" PRIu32
		     " lanes, %" PRIu32 " shards, port %" PRIu32 ", %" PRIu32 " + %" PRIu32
		     " slots",
		     control->where, in->lanes, in->shards, in->data_port, in->head_slots,
		     in->data_slots);
		return;
	}
	control->admission = (struct sml_admission){
		.cookie = in->cookie,
		.tag = in->tag,
		.job_number = in->job_number,
		.epoch = in->epoch,
		.window_packets = in->window_packets,
		.lanes = (uint16_t)in->lanes,
		.head_slots = (uint16_t)in->head_slots,
		.data_slots = (uint16_t)in->data_slots,
		.data_port = (uint16_t)in->data_port,
		.shards = (uint8_t)in->shards,
	};
	snprintf(control->admission.dataplane, sizeof(control->admission.dataplane), "%s",
		 in->dataplane);
	set_phase(control, ADMITTED);
}

static void on_start(struct sml_control *control, const SmlControl__Envelope *message)
{
	if (message->start->lanes == 0 || message->start->lanes > control->admission.lanes) {
		fail(control, SML_ERROR_PROTOCOL,
		     "the switch at %s starts the job with %" PRIu32 " lanes, of %u", control->where,
		     message->start->lanes, control->admission.lanes);
		return;
	}
	control->start_lanes = (uint16_t)message->start->lanes;
	set_phase(control, RUNNING);
}

static void on_describe(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Describe *question = message->describe;
	char text[SML_TEXT_BYTES / 2];
	SmlControl__Description answer = SML_CONTROL__DESCRIPTION__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	control->owner.describe(control->owner.self,
				question->slot < control->admission.head_slots ? SML_HEAD
									       : SML_DATA,
				question->chunk, text, sizeof(text));
	answer.slot = question->slot;
	answer.use = question->use;
	answer.text = text;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_DESCRIPTION;
	envelope.description = &answer;
	send_message(control, &envelope);
}

static void on_abort(struct sml_control *control, const SmlControl__Envelope *message)
{
	int error = message->abort->error;

	fail(control, error < 0 ? error : SML_ERROR_PROTOCOL, "%s", message->abort->text);
}

static void on_left(struct sml_control *control, const SmlControl__Envelope *message)
{
	(void)message;
	set_phase(control, LEFT);
	event_del(control->tick);
}

static void on_nothing(struct sml_control *control, const SmlControl__Envelope *message)
{
	(void)control;
	(void)message;
}

/* Who says what, and when: anything else is not our protocol. */
static const struct {
	SmlControl__Envelope__BodyCase body;
	unsigned phases; /* bits of enum phase */
	void (*act)(struct sml_control *control, const SmlControl__Envelope *message);
} reactions[] = {
	{SML_CONTROL__ENVELOPE__BODY_WAITING, 1 << JOINING, on_waiting},
	{SML_CONTROL__ENVELOPE__BODY_ADMITTED, 1 << JOINING, on_admitted},
	{SML_CONTROL__ENVELOPE__BODY_START, 1 << READY, on_start},
	{SML_CONTROL__ENVELOPE__BODY_DESCRIBE, 1 << RUNNING | 1 << LEAVING, on_describe},
	{SML_CONTROL__ENVELOPE__BODY_ABORT, ~0u, on_abort},
	{SML_CONTROL__ENVELOPE__BODY_LEFT, 1 << LEAVING, on_left},
	{SML_CONTROL__ENVELOPE__BODY_PONG, ~0u, on_nothing},
};

static void received(void *self, const SmlControl__Envelope *message)
{
	struct sml_control *control = self;
	enum phase phase = phase_of(control);

	control->silent = false;
	if (phase == FAILED || phase == LEFT)
		return;
	for (size_t i = 0; i < sizeof(reactions) / sizeof(reactions[0]); i++) {
		if (reactions[i].body != message->body_case)
			continue;
		if (!(reactions[i].phases & 1u << phase))
			break;
		reactions[i].act(control, message);
		return;
	}
	fail(control, SML_ERROR_PROTOCOL, "the switch at %s sent message %d out of turn (phase %d)",
	     control->where, (int)message->body_case, (int)phase);
}

/* ---- the end, and silence ---- */

static bool is_embedded_elsewhere(const struct sml_control *control)
{
	return control->settings->switch_address == NULL && control->settings->rank != 0;
}

static void lost(struct sml_control *control, const char *how)
{
	if (phase_of(control) < ADMITTED)
		fail(control, SML_ERROR_UNREACHABLE,
		     "what listens at %s %s: is it a SwitchML switch? Check the address and the "
		     "port",
		     control->where, how);
	else if (is_embedded_elsewhere(control))
		fail(control, SML_ERROR_RANK_DIED,
		     "rank 0, which runs the switch at %s, %s: that process has ended or hangs",
		     control->where, how);
	else
		fail(control, SML_ERROR_SWITCH_DIED,
		     "the switch at %s %s: it was stopped, has crashed, or the network is down",
		     control->where, how);
}

static void ended(void *self, int error)
{
	struct sml_control *control = self;
	char how[128];

	if (error == -EPROTO) {
		fail(control, SML_ERROR_PROTOCOL,
		     "what answers at %s doesn't speak the SwitchML protocol: check the address "
		     "and the port",
		     control->where);
		return;
	}
	snprintf(how, sizeof(how), "%s", "closed the connection");
	if (error)
		snprintf(how, sizeof(how), "lost the connection (%s)", strerrordesc_np(-error));
	lost(control, how);
}

static void send_ping(struct sml_control *control)
{
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	ping.time_ns = sml_now_ns();
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_PING;
	envelope.ping = &ping;
	send_message(control, &envelope);
}

static void on_tick(evutil_socket_t fd, short what, void *self)
{
	struct sml_control *control = self;
	uint64_t bound_ns = control->settings->heartbeat_ms * SML_NS_PER_MS;
	char how[64];

	(void)fd;
	(void)what;
	if (sml_now_ns() - sml_channel_heard_ns(control->channel) <= bound_ns) {
		control->silent = false;
	} else if (!control->silent) {
		/* It may be us who slept: what came meanwhile is read before the next tick. */
		control->silent = true;
	} else {
		snprintf(how, sizeof(how), "has been silent for %u ms",
			 control->settings->heartbeat_ms);
		lost(control, how);
		return;
	}
	send_ping(control);
}

/* ---- set-up ---- */

static void on_pump_timer(evutil_socket_t fd, short what, void *self)
{
	(void)fd;
	(void)what;
	(void)self;
}

static void on_wake(evutil_socket_t fd, short what, void *self);

static struct timeval timeval_of(uint64_t ns)
{
	return (struct timeval){.tv_sec = (time_t)(ns / SML_NS_PER_SEC),
				.tv_usec = (suseconds_t)(ns % SML_NS_PER_SEC / 1000)};
}

static int start_ticking(struct sml_control *control)
{
	uint64_t every_ms = control->settings->heartbeat_ms / 4;
	struct timeval every = timeval_of((every_ms < PING_MAX_MS ? every_ms : PING_MAX_MS) *
					  SML_NS_PER_MS);

	return event_add(control->tick, &every);
}

int sml_control_open(struct sml_control **opened, const struct sml_settings *settings,
		     const struct sml_connection *connection)
{
	struct sml_control *control = calloc(1, sizeof(*control));
	struct sml_channel_owner owner = {control, received, ended};

	if (control == NULL) {
		close(connection->fd);
		goto err_memory;
	}
	control->settings = settings;
	control->where = connection->endpoint->name;
	pthread_mutex_init(&control->lock, NULL);
	sml_cond_init(&control->changed);
	control->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control->base = event_base_new();
	if (control->wake_fd < 0 || control->base == NULL) {
		close(connection->fd);
		goto err_close;
	}
	control->channel = sml_channel_open(control->base, connection->fd, &owner);
	control->tick = event_new(control->base, -1, EV_PERSIST, on_tick, control);
	control->wake = event_new(control->base, control->wake_fd, EV_READ | EV_PERSIST, on_wake,
				  control);
	control->pump_timer = evtimer_new(control->base, on_pump_timer, control);
	if (!control->channel || !control->tick || !control->wake || !control->pump_timer ||
	    start_ticking(control) < 0)
		goto err_close;
	*opened = control;
	return 0;

err_close:
	sml_control_close(control);
err_memory:
	return sml_error_set(-ENOMEM, "no memory or files for the control connection");
}

/* ---- while the context opens ---- */

static int failure(struct sml_control *control)
{
	return phase_of(control) == FAILED ? sml_error_set(control->error, "%s", control->text) : 0;
}

int sml_control_pump(struct sml_control *control, const int *fds, unsigned n_fds, uint64_t until_ns)
{
	struct event *events[SML_MAX_SHARDS] = {NULL};
	uint64_t now_ns = sml_now_ns();
	struct timeval until = timeval_of(until_ns > now_ns ? until_ns - now_ns : 0);

	for (unsigned i = 0; i < n_fds; i++) {
		events[i] = event_new(control->base, fds[i], EV_READ, on_pump_timer, control);
		if (events[i])
			event_add(events[i], NULL);
	}
	event_add(control->pump_timer, &until);
	event_base_loop(control->base, EVLOOP_ONCE);
	event_del(control->pump_timer);
	for (unsigned i = 0; i < n_fds; i++)
		if (events[i])
			event_free(events[i]);
	return failure(control);
}

/* "2, 3 and 5", as far as there is room. */
static void list_ranks(uint64_t ranks, char *text, size_t bytes)
{
	size_t length = 0;

	text[0] = '\0';
	for (unsigned r = 0; ranks >> r && length < bytes; r++) {
		uint64_t rest = r == 63 ? 0 : ranks >> (r + 1);

		if (!(ranks >> r & 1))
			continue;
		length += (size_t)snprintf(text + length, bytes - length, "%s%u",
					   length == 0 ? ""
					   : rest      ? ", "
						       : " and ",
					   r);
		if (rest == 0)
			break;
	}
}

static int too_late(struct sml_control *control)
{
	const struct sml_settings *settings = control->settings;
	char ranks[256];

	if (phase_of(control) == JOINING && control->missing) {
		list_ranks(control->missing, ranks, sizeof(ranks));
		return sml_error_set(SML_ERROR_TIMEOUT,
				     "rank%s %s of %u did not join job \"%s\" at the switch %s "
				     "within %u ms: have they been started, with the same job name "
				     "and switch? (SWITCHML_TIMEOUT)",
				     (control->missing & (control->missing - 1)) ? "s" : "", ranks,
				     settings->world_size, settings->job, control->where,
				     settings->timeout_ms);
	}
	return sml_error_set(SML_ERROR_TIMEOUT,
			     phase_of(control) == JOINING
				     ? "the switch at %s did not answer within %u ms: is it a "
				       "SwitchML switch?"
				     : "the switch at %s did not start the job within %u ms: is "
				       "another rank's UDP path blocked?",
			     control->where, settings->timeout_ms);
}

static int wait_for(struct sml_control *control, enum phase wanted, uint64_t deadline_ns)
{
	int error = failure(control);

	while (error == 0 && phase_of(control) != wanted) {
		if (sml_now_ns() >= deadline_ns)
			return too_late(control);
		error = sml_control_pump(control, NULL, 0, deadline_ns);
	}
	return error;
}

int sml_control_join(struct sml_control *control, uint16_t lanes, struct sml_admission *admission,
		     uint64_t deadline_ns)
{
	const struct sml_settings *settings = control->settings;
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	char host[256] = "?", version[] = SML_VERSION_STRING;
	int error;

	gethostname(host, sizeof(host) - 1);
	join.protocol = SML_CONTROL_PROTOCOL;
	join.library_version = version;
	join.job = settings->job;
	join.rank = settings->rank;
	join.world_size = settings->world_size;
	join.host = host;
	join.pid = (uint32_t)getpid();
	join.lanes = lanes;
	join.head_slots = settings->head_slots;
	join.data_slots = settings->data_slots;
	join.shards = settings->threads;
	join.heartbeat_ms = settings->heartbeat_ms;
	join.stripes = 1;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_JOIN;
	envelope.join = &join;
	set_phase(control, JOINING);
	send_message(control, &envelope);
	error = wait_for(control, ADMITTED, deadline_ns);
	*admission = control->admission;
	return error;
}

int sml_control_ready(struct sml_control *control, uint16_t *lanes, uint64_t deadline_ns)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	int error;

	ready.lanes = *lanes;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_READY;
	envelope.ready = &ready;
	set_phase(control, READY);
	send_message(control, &envelope);
	error = wait_for(control, RUNNING, deadline_ns);
	*lanes = control->start_lanes;
	return error;
}

/* ---- with a thread of its own ---- */

static void send_abort(struct sml_control *control)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	message.error = control->abort_error;
	message.text = control->abort_text;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_ABORT;
	envelope.abort = &message;
	sml_channel_send(control->channel, &envelope);
	/* Whoever asked for it knows that the job has failed. */
	pthread_mutex_lock(&control->lock);
	control->error = control->abort_error;
	memcpy(control->text, control->abort_text, sizeof(control->text));
	pthread_mutex_unlock(&control->lock);
	set_phase(control, FAILED);
	event_del(control->tick);
}

static void send_leave(struct sml_control *control)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_LEAVE;
	envelope.leave = &leave;
	set_phase(control, LEAVING);
	send_message(control, &envelope);
}

static void on_wake(evutil_socket_t fd, short what, void *self)
{
	struct sml_control *control = self;
	bool leave, stop, abort;
	uint64_t ignored;

	(void)what;
	if (read(fd, &ignored, sizeof(ignored)) < 0)
		return;
	pthread_mutex_lock(&control->lock);
	leave = control->leave_wanted && control->phase == RUNNING;
	stop = control->stop_wanted;
	abort = control->abort_error && control->phase < LEFT;
	pthread_mutex_unlock(&control->lock);
	if (abort)
		send_abort(control);
	else if (leave)
		send_leave(control);
	if (stop)
		event_base_loopbreak(control->base);
}

static void *thread_main(void *self)
{
	struct sml_control *control = self;

	/* The wake event is always pending, so only loopbreak ends this. */
	event_base_dispatch(control->base);
	return NULL;
}

static void wake(struct sml_control *control)
{
	uint64_t one = 1;

	/* A full eventfd has woken the thread already. */
	if (write(control->wake_fd, &one, sizeof(one)) < 0)
		return;
}

int sml_control_start(struct sml_control *control, const struct sml_control_owner *owner)
{
	int error = failure(control);

	if (error)
		return error;
	control->owner = *owner;
	control->threaded = true;
	if (event_add(control->wake, NULL) < 0)
		error = -ENOMEM;
	if (error == 0)
		error = sml_thread_start(&control->thread, "sml-control", thread_main, control);
	if (error) {
		control->threaded = false;
		return sml_error_set(error, "the control thread cannot be started: %s",
				     strerrordesc_np(-error));
	}
	return 0;
}

int sml_control_leave(struct sml_control *control, uint64_t deadline_ns)
{
	struct timespec deadline = sml_timespec(deadline_ns);
	enum phase phase;
	int timed_out = 0;

	pthread_mutex_lock(&control->lock);
	control->leave_wanted = true;
	wake(control);
	while (control->phase != LEFT && control->phase != FAILED && !timed_out)
		timed_out = pthread_cond_timedwait(&control->changed, &control->lock, &deadline);
	phase = control->phase;
	pthread_mutex_unlock(&control->lock);
	if (phase == LEFT)
		return 0;
	if (phase == FAILED)
		return sml_error_set(control->error, "%s", control->text);
	return sml_error_set(SML_ERROR_TIMEOUT,
			     "not every rank closed its context of job \"%s\" within %u ms",
			     control->settings->job, control->settings->timeout_ms);
}

void sml_control_abort(struct sml_control *control, int error, const char *text)
{
	pthread_mutex_lock(&control->lock);
	if (control->abort_error == 0 && control->phase < LEFT) {
		control->abort_error = error;
		snprintf(control->abort_text, sizeof(control->abort_text), "%s", text);
	}
	pthread_mutex_unlock(&control->lock);
	wake(control);
}

static void stop_thread(struct sml_control *control)
{
	if (!control->threaded)
		return;
	pthread_mutex_lock(&control->lock);
	control->stop_wanted = true;
	pthread_mutex_unlock(&control->lock);
	wake(control);
	pthread_join(control->thread, NULL);
	/* The others should learn why, before the connection's end tells them less. */
	if (control->abort_error)
		sml_channel_drain(control->channel, sml_now_ns() + DRAIN_NS);
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void sml_control_close(struct sml_control *control)
{
	if (control == NULL)
		return;
	stop_thread(control);
	sml_channel_close(control->channel);
	free_event(control->tick);
	free_event(control->wake);
	free_event(control->pump_timer);
	if (control->base)
		event_base_free(control->base);
	if (control->wake_fd >= 0)
		close(control->wake_fd);
	pthread_mutex_destroy(&control->lock);
	pthread_cond_destroy(&control->changed);
	free(control);
}
