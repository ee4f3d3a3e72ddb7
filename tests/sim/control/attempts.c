/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's connections to switches, each with its session (job/rank/session.h): what goes into the
 * session, what it asks of the rank, and what a rank that resumes reports.
 */
#include <stdio.h>
#include <string.h>

#include "sim/control/internal.h"
#include "switchml.h"

/* How long others of its last membership are waited for, where the switch decides. */
#define ASK_MS 5000u

void sim_attempt_drop(struct attempt *attempt)
{
	if (attempt->link)
		sim_end(attempt->link, false);
	if (attempt->talks)
		sml_session_fini(&attempt->session);
	*attempt = (struct attempt){.tick_ns = NEVER, .probed_ns = NEVER};
}

void sim_attempts_drop(struct rank *rank)
{
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		sim_attempt_drop(&rank->attempts[i]);
	rank->taken = -1;
}

/* ---- what the session says and asks ---- */

static struct rank *rank_of(const struct attempt *attempt)
{
	return &attempt->link->control->ranks[attempt->link->rank];
}

static int send_out(void *self, const SmlControl__Envelope *message)
{
	sim_send(((struct attempt *)self)->link, true, message);
	return 0;
}

static void stalls_reported(void *self, const SmlControl__StallReport *report, bool last_words)
{
	(void)self;
	(void)report;
	(void)last_words;
}

static bool describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes, SmlControl__Call *call)
{
	(void)self;
	snprintf(text, text_bytes, "call %u of stream %d", chunk, stream);
	call->number = chunk;
	return true;
}

static void pack_waits(void *self, size_t room, struct sml_waits_message *waits)
{
	(void)self;
	sml_waits_pack(NULL, room, waits);
}

static void get_stripe_status(void *self, SmlControl__StripeStatus *status,
			      uint64_t waited_ms[SML_MAX_CHILDREN])
{
	(void)self;
	(void)status;
	(void)waited_ms;
}

static bool get_traffic(void *self, SmlControl__Traffic *traffic)
{
	(void)self;
	traffic->packets_sent = 1;
	return true;
}

static const struct sml_session_output output = {send_out, NULL, stalls_reported};

const struct sml_session_answers sim_answers = {NULL, describe, pack_waits, get_stripe_status,
						get_traffic};

static void begin_session(struct rank *rank, unsigned address)
{
	struct attempt *attempt = &rank->attempts[address];
	const struct sml_session_config config = {
		.where = rank->control->names[address],
		.rank = rank->number,
		.world_size = rank->n,
		.heartbeat_ms = rank->heartbeat_ms,
		.rank_0_runs_it = rank->control->embedded,
		.proof = "",
		.unset = "",
		.output = &output,
		.self = attempt,
	};

	sml_session_init(&attempt->session, &config);
	attempt->talks = true;
	attempt->tick_ns = rank->control->now_ns + sml_session_tick_ms(rank->heartbeat_ms) * MS;
}

/* ---- the report ---- */

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	struct rank *rank = rank_of(self);

	if (stream != SML_HEAD || !rank->has_kept || rank->kept[0] != chunk)
		return NULL;
	*n_lanes = 1;
	return &rank->sums[chunk % 64];
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	struct rank *rank = rank_of(self);

	if (stream != SML_HEAD || n_lanes != 1 || chunk > rank->done)
		return -1;
	if (chunk < rank->done)
		return 0; /* the result is already here */
	memcpy(&rank->sums[chunk % 64], lanes, 4);
	if (rank->sums[chunk % 64] != sim_sum_of_call(chunk))
		sim_wrong(rank->control, "rank %u adopts a wrong sum of call %u", rank->id, chunk);
	rank->done++;
	rank->sent = false;
	sim_say(rank->control, "rank %u adopts call %u", rank->id, chunk);
	return 1;
}

void sim_crank_note_rank(struct rank *rank, uint64_t tag)
{
	const struct sml_past_rank place = {tag, rank->number, rank->n, rank->begun};

	sml_past_ranks_note(&rank->past, &place);
}

/* It has been ready, and not told to start. */
static void report_nothing(const struct rank *rank, struct sml_resumption *resumption)
{
	*resumption = (struct sml_resumption){
		.epoch = rank->epoch,
		.tag = rank->tag,
		.membership = rank->membership,
		.begins = true,
	};
}

static void report(struct rank *rank, struct sml_resumption *resumption, struct attempt *attempt)
{
	report_nothing(rank, resumption);
	resumption->begins = false;
	resumption->leaving =
		rank->leaves && rank->control->now_ns >= rank->lost_ns + SML_LEAVE_WAIT_NS / 2;
	resumption->self = attempt;
	resumption->kept = give_kept;
	resumption->adopt = adopt;
	rank->lacking[0] = rank->done;
	resumption->reports[SML_HEAD] = (struct sml_resume_report){
		.beyond = rank->done + 1,
		.lacking = rank->lacking,
		.n_lacking = 1,
		.kept = rank->kept,
		.n_kept = rank->has_kept,
	};
}

void sim_attempt_join(struct rank *rank, unsigned address, bool resumes)
{
	struct sml_membership_request ask;
	struct attempt *attempt = &rank->attempts[address];
	SmlControl__Join message = SML_CONTROL__JOIN__INIT;
	uint32_t port = 40000u + rank->id;
	uint8_t token[SML_SESSION_TOKEN_BYTES] = {(uint8_t)rank->id};

	begin_session(rank, address);
	message.library_version = (char *)(uintptr_t) "1";
	message.job = (char *)(uintptr_t)rank->job;
	message.host = (char *)(uintptr_t) "host";
	message.pid = SIM_FIRST_PID + rank->id;
	message.process = rank->id + 1u;
	message.time_ns = rank->control->now_ns;
	message.wait_ms = rank->control->is_elastic ? MOVE_MS : 0;
	message.lanes = LANES;
	message.shards = 1;
	message.follows_tag = rank->past.ran.tag;
	message.stripes = rank->control->embedded ? rank->control->n_ranks : 1u;
	message.stripe_ports = &port;
	message.n_stripe_ports = rank->control->embedded;
	if (rank->machine) {
		message.machine = (ProtobufCBinaryData){1, &rank->machine};
		message.host_token = (ProtobufCBinaryData){sizeof(token), token};
	}
	if (rank->asks && !resumes && !rank->may_have_begun) {
		/* It may have been told of a decision by a switch that has died since. */
		message.job = (char *)(uintptr_t)LINE_NAME;
		sml_past_ranks_request(&rank->past, &ask);
		ask.ask.wait_ms = ASK_MS;
		message.ask = &ask.ask;
	}
	if (resumes)
		report(rank, &attempt->resumption, attempt);
	else if (rank->may_have_begun)
		report_nothing(rank, &attempt->resumption);
	sim_say(rank->control, "rank %u joins at %s%s", rank->id, rank->control->names[address],
		resumes ? ", to go on" : "");
	sml_session_join(&attempt->session, &message,
			 resumes || rank->may_have_begun ? &attempt->resumption : NULL);
}

/* ---- its input ---- */

int sim_attempt_of(const struct rank *rank, const struct link *link)
{
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		if (rank->attempts[i].link == link)
			return (int)i;
	return -1;
}

void sim_attempt_message(struct rank *rank, unsigned address, const struct event *event,
			 const SmlControl__Envelope *message)
{
	struct attempt *attempt = &rank->attempts[address];
	const struct sml_head head = {event->bytes, event->n, event->n};

	if (!attempt->talks)
		return;
	event->link->heard_ns = rank->control->now_ns;
	if (sml_session_reject(&attempt->session, &head))
		sim_wrong(rank->control, "rank %u objects: %s", rank->id, attempt->session.text);
	else
		sml_session_message(&attempt->session, message);
}
