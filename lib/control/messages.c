/* SPDX-License-Identifier: BSD-3-Clause */
/* What the switch says, and what it means when it says nothing more. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/text.h"
#include "lib/control/internal.h"

/* ---- what comes ---- */

/* Said at once: the rank that was refused may be on another terminal, or on nobody's. */
static void note_refused(struct sml_control *control, const char *why)
{
	char clean[sizeof(control->refused)];

	sml_text_copy(clean, sizeof(clean), why);
	if (strcmp(clean, control->refused) == 0)
		return;
	memcpy(control->refused, clean, sizeof(clean));
	sml_log(&control->settings->log, SML_LOG_WARN,
		"still waiting for other ranks of job \"%s\"; the last that tried to join was "
		"refused: %s",
		control->settings->job, clean);
}

static void on_waiting(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Waiting *waiting = message->waiting;

	control->missing = 0;
	for (size_t i = 0; i < waiting->n_missing; i++)
		control->missing |= (uint64_t)1 << (waiting->missing[i] & 63);
	note_refused(control, waiting->refused);
}

static bool copy_maps(struct sml_control *control, const SmlControl__Admitted *in)
{
	if (control->resumption == NULL)
		return true;
	if (in->n_maps != SML_STREAMS)
		return false;
	for (unsigned stream = 0; stream < SML_STREAMS; stream++) {
		const SmlControl__TicketMap *map = in->maps[stream];
		uint32_t *table = malloc(map->n_table * sizeof(*table) + 1);

		if (table == NULL)
			return false;
		for (size_t i = 0; i < map->n_table; i++)
			table[i] = map->table[i];
		control->tables[stream] = table;
		control->admission.maps[stream] = (struct sml_ticket_map){
			.table = table, .n = (uint32_t)map->n_table, .after = map->after};
	}
	return true;
}

static bool copy_peer(struct sml_peer_place *peer, const SmlControl__Peer *in, unsigned n_shards)
{
	if ((in->host.len != 0 && in->host.len != 4 && in->host.len != 16) ||
	    in->n_ports != n_shards)
		return false;
	*peer = (struct sml_peer_place){
		.host_bytes = (uint8_t)in->host.len, .cookie = in->cookie, .tag = in->tag};
	/* Without an address there may be no bytes to point at. */
	if (in->host.len)
		memcpy(peer->host, in->host.data, in->host.len);
	for (unsigned i = 0; i < n_shards; i++) {
		if (in->ports[i] == 0 || in->ports[i] > 65535)
			return false;
		peer->ports[i] = (uint16_t)in->ports[i];
	}
	return true;
}

/* Where the ranks have the slots: who and where they are. */
static bool copy_meeting(struct sml_control *control, const SmlControl__Admitted *in)
{
	unsigned n_ranks = control->settings->world_size;
	bool has_stripe = control->settings->rank < in->stripes;

	if (!control->has_slots)
		return true;
	/* A shard is served by a socket, and this rank has said how many it has. */
	if (in->shards > control->settings->threads || in->n_peers != n_ranks || in->stripes == 0 ||
	    in->stripes > n_ranks || in->n_cookies != (has_stripe ? n_ranks : 0))
		return false;
	control->meeting = calloc(1, sizeof(*control->meeting));
	if (control->meeting == NULL)
		return false;
	for (unsigned i = 0; i < n_ranks; i++) {
		if (!copy_peer(&control->meeting->peers[i], in->peers[i], in->shards))
			return false;
		if (has_stripe)
			control->meeting->cookies[i] = in->cookies[i];
	}
	control->admission.stripes = (uint8_t)in->stripes;
	control->admission.meeting = control->meeting;
	return true;
}

/* False: it is none. */
static bool copy_group(struct sml_control *control, const SmlControl__Group *in)
{
	struct sml_result_group *group = &control->admission.group;

	if (in == NULL)
		return true;
	if ((in->address.len != 4 && in->address.len != 16) || in->port == 0 ||
	    in->port > 65536 - SML_MAX_SHARDS)
		return false;
	group->address_bytes = (uint8_t)in->address.len;
	memcpy(group->address, in->address.data, in->address.len);
	group->port = (uint16_t)in->port;
	/* A switch must not make us listen to anybody else. */
	return in->address.len == 4 ? group->address[0] >= 224 && group->address[0] < 240
				    : group->address[0] == 0xff;
}

static void on_admitted(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Admitted *in = message->admitted;

	if (in->lanes == 0 || in->lanes > SML_MAX_LANES || in->shards == 0 ||
	    in->shards > control->settings->threads || in->data_port == 0 ||
	    in->data_port > 65535 || in->head_slots < in->shards || in->data_slots < in->shards ||
	    in->head_slots > SML_MAX_SLOTS || in->data_slots > SML_MAX_SLOTS) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s admits the job with impossible numbers: %" PRIu32
				 " lanes, %" PRIu32 " shards, port %" PRIu32 ", %" PRIu32
				 " + %" PRIu32 " slots",
				 control->where, in->lanes, in->shards, in->data_port,
				 in->head_slots, in->data_slots);
		return;
	}
	control->admission = (struct sml_admission){
		.cookie = in->cookie,
		.tag = in->tag,
		.membership = in->membership,
		.job_number = in->job_number,
		.epoch = in->epoch,
		.window_packets = in->window_packets,
		.lanes = (uint16_t)in->lanes,
		.head_slots = (uint16_t)in->head_slots,
		.data_slots = (uint16_t)in->data_slots,
		.data_port = (uint16_t)in->data_port,
		.shards = (uint8_t)in->shards,
		.stall_reports = in->stall_reports,
		.single_packets = in->single_packets,
	};
	snprintf(control->admission.dataplane, sizeof(control->admission.dataplane), "%s",
		 in->dataplane);
	if (!copy_maps(control, in)) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s does not say where to go on", control->where);
		return;
	}
	if (!copy_group(control, in->group)) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s names a multicast group that is none",
				 control->where);
		return;
	}
	if (!copy_meeting(control, in)) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "rank 0 at %s does not say where the other ranks are",
				 control->where);
		return;
	}
	sml_control_set_phase(control, SML_CONTROL_ADMITTED);
}

/* ---- going on after a switch has died ---- */

static void on_fetch(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Fetch *fetch = message->fetch;
	const struct sml_resumption *resumption = control->resumption;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;
	const void *lanes = NULL;
	uint16_t n_lanes = 0;

	if (resumption && fetch->stream < SML_STREAMS)
		lanes = resumption->kept(resumption->self, (enum sml_stream_id)fetch->stream,
					 fetch->chunk, &n_lanes);
	if (lanes == NULL) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s wants a result that this rank does not keep",
				 control->where);
		return;
	}
	result.stream = fetch->stream;
	result.chunk = fetch->chunk;
	result.lanes.data = (uint8_t *)(uintptr_t)lanes;
	result.lanes.len = 4u * n_lanes;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_RESULT;
	envelope.result = &result;
	sml_control_send(control, &envelope);
}

static void on_result(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__Result *result = message->result;
	const struct sml_resumption *resumption = control->resumption;
	uint32_t lanes[SML_MAX_LANES];
	int rc = -1;

	if (resumption && result->stream < SML_STREAMS && result->lanes.len <= sizeof(lanes) &&
	    result->lanes.len % 4 == 0) {
		/* Where they came they need not be aligned. */
		if (result->lanes.len > 0)
			memcpy(lanes, result->lanes.data, result->lanes.len);
		rc = resumption->adopt(resumption->self, (enum sml_stream_id)result->stream,
				       result->chunk, lanes, (uint16_t)(result->lanes.len / 4));
	}
	if (rc < 0)
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s hands over a result that does not fit",
				 control->where);
}

static void on_start(struct sml_control *control, const SmlControl__Envelope *message)
{
	if (message->start->lanes == 0 || message->start->lanes > control->admission.lanes) {
		sml_control_fail(control, SML_ERROR_PROTOCOL,
				 "the switch at %s starts the job with %" PRIu32 " lanes, of %u",
				 control->where, message->start->lanes, control->admission.lanes);
		return;
	}
	control->start_lanes = (uint16_t)message->start->lanes;
	sml_control_set_phase(control, SML_CONTROL_RUNNING);
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
	sml_control_send(control, &envelope);
}

/* The first one counts: others may be reading it. */
static void keep_report(struct sml_control *control, const SmlControl__StallReport *message,
			struct sml_stall_report **place)
{
	uint32_t n_slots = (uint32_t)control->admission.head_slots + control->admission.data_slots;
	struct sml_stall_report *report;

	if (message == NULL || n_slots == 0 || *place)
		return;
	report = sml_stall_report_new(message, n_slots);
	pthread_mutex_lock(&control->lock);
	*place = report;
	pthread_cond_broadcast(&control->changed);
	pthread_mutex_unlock(&control->lock);
}

static void on_stall_report(struct sml_control *control, const SmlControl__Envelope *message)
{
	const SmlControl__StallReport *report = message->stall_report;
	uint32_t stripe = control->has_slots ? report->stripe : 0;

	if (stripe < SML_MAX_STRIPES)
		keep_report(control, report, &control->stalls[stripe]);
}

/* Slots that a message of a member, 16 KiB at most, has room for. */
#define MOST_TOLD 600

static SmlControl__SlotState *describe_slot(const struct sml_stall_report *report, uint32_t slot,
					    SmlControl__SlotState *state)
{
	sml_control__slot_state__init(state);
	state->slot = slot;
	state->use = report->slots[slot].use;
	state->missing = report->slots[slot].missing;
	return state;
}

static void on_stall_request(struct sml_control *control, const SmlControl__Envelope *message)
{
	struct sml_stall_report *report = control->owner.stalls(control->owner.self);
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__StallReport out = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState *states, **list;
	uint32_t n = report ? report->n_slots : 0;

	(void)message;
	states = calloc(n + 1, sizeof(*states));
	list = calloc(n + 1, sizeof(*list)); /* NOLINT(bugprone-sizeof-expression): of pointers */
	/* First those that lack somebody: there may be no room for all. */
	for (unsigned complete = 0; states && list && complete < 2; complete++)
		for (uint32_t i = 0; i < n && out.n_slots < MOST_TOLD; i++)
			if (report->slots[i].known && (report->slots[i].missing == 0) == complete)
				list[out.n_slots++] = describe_slot(report, i, &states[i]);
	out.slots = list;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_STALL_REPORT;
	envelope.stall_report = &out;
	if (report && states && list)
		sml_control_send(control, &envelope);
	free(states);
	free(list);
	free(report);
}

static void on_abort(struct sml_control *control, const SmlControl__Envelope *message)
{
	int error = message->abort->error < 0 ? message->abort->error : SML_ERROR_PROTOCOL;
	const char *text = message->abort->text;

	keep_report(control, message->abort->stalls,
		    control->has_slots ? &control->last_words : &control->stalls[0]);
	sml_control_fail(control, error, "%s", *text ? text : sml_strerror(error));
}

static void on_left(struct sml_control *control, const SmlControl__Envelope *message)
{
	(void)message;
	sml_control_set_phase(control, SML_CONTROL_LEFT);
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
	unsigned phases; /* bits of enum sml_control_phase */
	void (*act)(struct sml_control *control, const SmlControl__Envelope *message);
} reactions[] = {
	{SML_CONTROL__ENVELOPE__BODY_WAITING, 1 << SML_CONTROL_JOINING, on_waiting},
	{SML_CONTROL__ENVELOPE__BODY_ADMITTED, 1 << SML_CONTROL_JOINING, on_admitted},
	{SML_CONTROL__ENVELOPE__BODY_FETCH, 1 << SML_CONTROL_JOINING, on_fetch},
	{SML_CONTROL__ENVELOPE__BODY_RESULT, 1 << SML_CONTROL_JOINING, on_result},
	{SML_CONTROL__ENVELOPE__BODY_START, 1 << SML_CONTROL_READY, on_start},
	{SML_CONTROL__ENVELOPE__BODY_DESCRIBE, 1 << SML_CONTROL_RUNNING | 1 << SML_CONTROL_LEAVING,
	 on_describe},
	{SML_CONTROL__ENVELOPE__BODY_STALL_REPORT,
	 1 << SML_CONTROL_RUNNING | 1 << SML_CONTROL_LEAVING, on_stall_report},
	{SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST,
	 1 << SML_CONTROL_RUNNING | 1 << SML_CONTROL_LEAVING, on_stall_request},
	{SML_CONTROL__ENVELOPE__BODY_ABORT, ~0u, on_abort},
	{SML_CONTROL__ENVELOPE__BODY_LEFT, 1 << SML_CONTROL_LEAVING, on_left},
	{SML_CONTROL__ENVELOPE__BODY_PONG, ~0u, on_nothing},
};

void sml_control_received(void *self, const SmlControl__Envelope *message)
{
	struct sml_control *control = self;
	enum sml_control_phase phase = sml_control_phase(control);

	control->silent = false;
	if (phase >= SML_CONTROL_LEFT)
		return;
	control->begun |= message->body_case == SML_CONTROL__ENVELOPE__BODY_ADMITTED ||
			  message->body_case == SML_CONTROL__ENVELOPE__BODY_FETCH ||
			  message->body_case == SML_CONTROL__ENVELOPE__BODY_RESULT;
	for (size_t i = 0; i < sizeof(reactions) / sizeof(reactions[0]); i++) {
		if (reactions[i].body != message->body_case)
			continue;
		if (!(reactions[i].phases & 1u << phase))
			break;
		reactions[i].act(control, message);
		return;
	}
	sml_control_fail(control, SML_ERROR_PROTOCOL,
			 "the switch at %s sent message %d out of turn (phase %d)", control->where,
			 (int)message->body_case, (int)phase);
}

/* ---- the end, and silence ---- */

static bool is_embedded_elsewhere(const struct sml_control *control)
{
	return control->settings->switch_address == NULL && control->settings->rank != 0;
}

/* A dedicated switch that served the job is gone: whoever owns us may find another. */
static bool hand_to_owner(struct sml_control *control, const char *how)
{
	enum sml_control_phase phase = sml_control_phase(control);

	if (!control->threaded || control->owner.lost == NULL ||
	    (phase != SML_CONTROL_RUNNING && phase != SML_CONTROL_LEAVING))
		return false;
	pthread_mutex_lock(&control->lock);
	snprintf(control->text, sizeof(control->text), "the switch at %s %s", control->where, how);
	pthread_mutex_unlock(&control->lock);
	sml_control_set_phase(control, SML_CONTROL_LOST);
	event_del(control->tick);
	event_base_loopbreak(control->base);
	control->owner.lost(control->owner.self, control->text);
	return true;
}

static void lost(struct sml_control *control, const char *how)
{
	if (hand_to_owner(control, how))
		return;
	if (!sml_channel_is_known(control->channel))
		sml_control_fail(control, SML_ERROR_UNREACHABLE,
				 "what listens at %s %s before it had said who it is: is it a "
				 "SwitchML switch with %s? Otherwise unset %s",
				 control->where, how,
				 sml_tls_is_keyed(control->settings->tls) ? "--key-file"
									  : "--tls-certificate",
				 sml_tls_is_keyed(control->settings->tls)
					 ? "SWITCHML_JOB_KEY and SWITCHML_JOB_KEY_FILE"
					 : "SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
					   "SWITCHML_TLS_AUTHORITY");
	else if (control->resumption)
		sml_control_fail(control, SML_ERROR_SWITCH_DIED,
				 "the switch at %s %s before the job could go on there",
				 control->where, how);
	else if (sml_control_phase(control) < SML_CONTROL_ADMITTED)
		sml_control_fail(
			control, SML_ERROR_UNREACHABLE,
			"what listens at %s %s: is it a SwitchML switch? Check the address and the "
			"port",
			control->where, how);
	else if (is_embedded_elsewhere(control))
		sml_control_fail(
			control, SML_ERROR_RANK_DIED,
			"rank 0, which runs the switch at %s, %s: that process has ended or hangs",
			control->where, how);
	else
		sml_control_fail(
			control, SML_ERROR_SWITCH_DIED,
			"the switch at %s %s: it was stopped, has crashed, or the network is down",
			control->where, how);
}

void sml_control_ended(void *self, int error)
{
	struct sml_control *control = self;
	const char *reason = sml_channel_tls_reason(control->channel);
	char how[SML_TEXT_BYTES / 2];

	if (reason && sml_control_phase(control) < SML_CONTROL_ADMITTED) {
		sml_control_fail(control, SML_ERROR_TLS, "TLS with what listens at %s failed: %s",
				 control->where, reason);
		return;
	}
	if (reason) {
		snprintf(how, sizeof(how), "broke TLS: %.200s", reason);
		lost(control, how);
		return;
	}
	if (error == -EPROTO) {
		sml_control_fail(
			control, SML_ERROR_PROTOCOL,
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
	SmlControl__StripeStatus served = SML_CONTROL__STRIPE_STATUS__INIT;
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	if (control->threaded && control->has_slots &&
	    control->settings->rank < control->admission.stripes) {
		control->owner.served(control->owner.self, &served);
		ping.stripe = &served;
	}
	ping.time_ns = sml_now_ns();
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_PING;
	envelope.ping = &ping;
	sml_control_send(control, &envelope);
}

void sml_control_on_tick(evutil_socket_t fd, short what, void *self)
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
