/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's messages, and what its silence means: see talk.h. */
#include "job/rank/talk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "control/envelope.h"
#include "control/text.h"
#include "job/rank/admission.h"

#define MS 1000000ull
/*
 * Results show that the switch's machine is alive, but its control plane is needed, too: to report
 * a rank's death, and to leave. This many heartbeats of silence are enough.
 */
#define SILENT_HEARTBEATS 8

void sml_talk_init(struct sml_talk *talk, const struct sml_talk_config *config)
{
	*talk = (struct sml_talk){.config = *config};
	if (talk->config.what == NULL)
		talk->config.what = "the switch";
}

void sml_talk_fini(struct sml_talk *talk)
{
	for (unsigned stream = 0; stream < SML_STREAMS; stream++)
		free(talk->tables[stream]);
	free(talk->fellows);
}

/* ---- out ---- */

void sml_talk_fail(struct sml_talk *talk, int error, const char *format, ...)
{
	va_list arguments;

	if (talk->phase >= SML_TALK_LEFT)
		return;
	talk->error = error;
	va_start(arguments, format);
	vsnprintf(talk->text, sizeof(talk->text), format, arguments);
	va_end(arguments);
	talk->phase = SML_TALK_FAILED;
}

void sml_talk_send(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	if (talk->phase < SML_TALK_LEFT &&
	    talk->config.output->send(talk->config.self, message) < 0)
		sml_talk_fail(talk, -ENOMEM, "no memory for a control message");
}

/* A report in the message's structures; it must outlive sending them. */
static void describe_resumption(const struct sml_resumption *resumption,
				SmlControl__StreamReport *reports, SmlControl__StreamReport **list,
				SmlControl__Resume *resume)
{
	for (unsigned stream = 0; stream < SML_STREAMS; stream++) {
		const struct sml_resume_report *report = &resumption->reports[stream];

		sml_control__stream_report__init(&reports[stream]);
		reports[stream].beyond = report->beyond;
		reports[stream].lacking = (uint32_t *)(uintptr_t)report->lacking;
		reports[stream].n_lacking = report->n_lacking;
		reports[stream].kept = (uint32_t *)(uintptr_t)report->kept;
		reports[stream].n_kept = report->n_kept;
		list[stream] = &reports[stream];
	}
	sml_control__resume__init(resume);
	resume->epoch = resumption->epoch;
	resume->tag = resumption->tag;
	resume->membership = resumption->membership;
	resume->leaving = resumption->leaving;
	resume->streams = list;
	resume->n_streams = SML_STREAMS;
}

void sml_talk_join(struct sml_talk *talk, const SmlControl__Join *join,
		   const struct sml_resumption *resumption)
{
	SmlControl__StreamReport reports[SML_STREAMS], *list[SML_STREAMS];
	SmlControl__Resume resume;
	SmlControl__Join whole = *join;

	whole.protocol = SML_CONTROL_PROTOCOL;
	whole.rank = talk->config.rank;
	whole.world_size = talk->config.world_size;
	whole.heartbeat_ms = talk->config.heartbeat_ms;
	talk->has_slots = join->n_stripe_ports > 0;
	talk->n_shards = join->shards <= SML_MAX_SHARDS ? join->shards : SML_MAX_SHARDS;
	talk->n_ports = (uint32_t)join->n_stripe_ports;
	talk->resumption = resumption;
	talk->only_leaves = resumption && resumption->leaving;
	if (resumption) {
		describe_resumption(resumption, reports, list, &resume);
		whole.resume = &resume;
	}
	talk->phase = SML_TALK_JOINING;
	sml_talk_send(talk, sml_envelope(JOIN, join, &whole));
}

void sml_talk_ready(struct sml_talk *talk, const struct sml_readiness *found)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	if (talk->phase != SML_TALK_ADMITTED)
		return;
	ready.lanes = found->lanes;
	ready.group = found->by_group;
	ready.shares_memory = talk->offers_memory = found->shares_memory;
	talk->phase = SML_TALK_READY;
	sml_talk_send(talk, sml_envelope(READY, ready, &ready));
}

void sml_talk_leave(struct sml_talk *talk)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;

	if (talk->phase != SML_TALK_RUNNING)
		return;
	talk->phase = SML_TALK_LEAVING;
	sml_talk_send(talk, sml_envelope(LEAVE, leave, &leave));
}

void sml_talk_abort(struct sml_talk *talk, int error, const char *text, bool told)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.told = told;
	sml_talk_send(talk, sml_envelope(ABORT, abort, &message));
	/* The caller that asked for it knows that the job has failed. */
	sml_talk_fail(talk, error, "%s", text);
}

void sml_talk_ask_stalls(struct sml_talk *talk)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	sml_talk_send(talk, sml_envelope(STALL_REQUEST, stall_request, &request));
}

void sml_talk_mismatch(struct sml_talk *talk, const struct sml_disagreement *found)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {found->ranks[0], found->ranks[1]};

	mismatch.slot = found->slot;
	mismatch.use = found->use;
	mismatch.chunk = found->chunk;
	mismatch.ranks = ranks;
	mismatch.n_ranks = 2;
	sml_talk_send(talk, sml_envelope(MISMATCH, mismatch, &mismatch));
}

void sml_talk_renew(struct sml_talk *talk, uint8_t shard, uint32_t number)
{
	SmlControl__Renew renew = SML_CONTROL__RENEW__INIT;

	if (talk->phase != SML_TALK_RUNNING)
		return;
	renew.shard = shard;
	renew.number = number;
	sml_talk_send(talk, sml_envelope(RENEW, renew, &renew));
}

/* ---- what comes ---- */

static void on_waiting(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	const SmlControl__Waiting *waiting = message->waiting;

	talk->missing = (struct sml_ranks){{0}};
	talk->n_more = waiting->more <= SML_MAX_WORLD ? waiting->more : SML_MAX_WORLD;
	/* What does not exist cannot be missing. */
	for (size_t i = 0; i < waiting->n_missing; i++)
		if (waiting->missing[i] < talk->config.world_size)
			sml_ranks_add(&talk->missing, waiting->missing[i]);
	if (*waiting->hosts)
		sml_text_copy(talk->hosts, sizeof(talk->hosts), waiting->hosts);
	sml_text_copy(talk->refused, sizeof(talk->refused), waiting->refused);
}

static void on_admitted(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	bool again = talk->phase == SML_TALK_READY;

	if (!sml_talk_admit(talk, message->admitted))
		return;
	/* Once: now every rank is on its own. */
	if (again && (talk->admitted_again || talk->admission.neighbors.n != 0)) {
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "the switch at %s admits the job again and again",
			      talk->config.where);
		return;
	}
	talk->admitted_again |= again;
	talk->phase = SML_TALK_ADMITTED;
}

/* ---- continuing after a switch has died ---- */

static void on_fetch(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	const SmlControl__Fetch *fetch = message->fetch;
	const struct sml_resumption *resumption = talk->resumption;
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;
	const void *lanes = NULL;
	uint16_t n_lanes = 0;

	if (resumption && fetch->stream < SML_STREAMS)
		lanes = resumption->kept(resumption->self, (enum sml_stream_id)fetch->stream,
					 fetch->chunk, &n_lanes);
	if (lanes == NULL) {
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "%s at %s wants a result that this rank does not keep",
			      talk->config.what, talk->config.where);
		return;
	}
	result.stream = fetch->stream;
	result.chunk = fetch->chunk;
	result.lanes.data = (uint8_t *)(uintptr_t)lanes;
	result.lanes.len = 4u * n_lanes;
	sml_talk_send(talk, sml_envelope(RESULT, result, &result));
}

static void on_result(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	const SmlControl__Result *result = message->result;
	const struct sml_resumption *resumption = talk->resumption;
	uint32_t lanes[SML_MAX_LANES];
	int rc = -1;

	if (resumption && result->stream < SML_STREAMS && result->lanes.len <= sizeof(lanes) &&
	    result->lanes.len % 4 == 0) {
		/* They may be unaligned in the message. */
		if (result->lanes.len > 0)
			memcpy(lanes, result->lanes.data, result->lanes.len);
		rc = resumption->adopt(resumption->self, (enum sml_stream_id)result->stream,
				       result->chunk, lanes, (uint16_t)(result->lanes.len / 4));
	}
	if (rc < 0)
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "%s at %s hands over a result that does not fit", talk->config.what,
			      talk->config.where);
}

static void on_start(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	if (message->start->lanes == 0 || message->start->lanes > talk->admission.lanes) {
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "%s at %s starts the job with %" PRIu32 " lanes, of %u",
			      talk->config.what, talk->config.where, message->start->lanes,
			      talk->admission.lanes);
		return;
	}
	talk->start_lanes = (uint16_t)message->start->lanes;
	if (message->start->share_memory && !talk->offers_memory) {
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "%s at %s says that this rank shares memory, but it does not",
			      talk->config.what, talk->config.where);
		return;
	}
	talk->shares_memory = message->start->share_memory;
	talk->phase = SML_TALK_RUNNING;
}

/* ---- while the job runs ---- */

static void answer(struct sml_talk *talk, const SmlControl__Describe *question)
{
	char text[SML_TALK_TEXT_BYTES / 2];
	SmlControl__Description answer = SML_CONTROL__DESCRIPTION__INIT;

	talk->config.output->describe(talk->config.self,
				      question->slot < talk->admission.head_slots ? SML_HEAD
										  : SML_DATA,
				      question->chunk, text, sizeof(text));
	answer.slot = question->slot;
	answer.use = question->use;
	answer.text = text;
	sml_talk_send(talk, sml_envelope(DESCRIPTION, description, &answer));
}

/*
 * Another rank may have begun, and disagree, before this one has: then it cannot answer yet. One
 * question is all that a switch asks of a job.
 */
static void on_describe(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	if (talk->serves) {
		answer(talk, message->describe);
		return;
	}
	sml_control__describe__init(&talk->question);
	talk->question.slot = message->describe->slot;
	talk->question.use = message->describe->use;
	talk->question.chunk = message->describe->chunk;
	talk->asked = true;
}

static void on_stall_request(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	(void)message;
	if (talk->serves)
		talk->config.output->tell_stalls(talk->config.self);
	else
		talk->stalls_asked = true;
}

void sml_talk_serve(struct sml_talk *talk, bool may_be_lost)
{
	talk->serves = true;
	talk->may_be_lost = may_be_lost;
	if (talk->asked)
		answer(talk, &talk->question);
	if (talk->stalls_asked)
		talk->config.output->tell_stalls(talk->config.self);
	talk->asked = talk->stalls_asked = false;
}

static void on_stall_report(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	talk->config.output->told(talk->config.self, message->stall_report, false);
}

static void on_abort(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	int error = message->abort->error < 0 ? message->abort->error : SML_ERROR_PROTOCOL;
	const char *text = message->abort->text;

	if (message->abort->stalls)
		talk->config.output->told(talk->config.self, message->abort->stalls, true);
	if (*text)
		sml_talk_fail(talk, error, "%s", text);
	else
		sml_talk_fail(talk, error, "%s at %s has ended the job", talk->config.what,
			      talk->config.where);
}

static void on_left(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	const SmlControl__Left *left = message->left;

	if (talk->phase == SML_TALK_JOINING && !talk->only_leaves) {
		sml_talk_fail(talk, SML_ERROR_PROTOCOL,
			      "%s at %s lets this rank leave, but the rank has not asked to",
			      talk->config.what, talk->config.where);
		return;
	}
	sml_text_copy(talk->slowest, sizeof(talk->slowest), left->slowest);
	talk->slowest_percent = left->slowest_percent <= 100 ? left->slowest_percent : 0;
	talk->phase = SML_TALK_LEFT;
}

static void on_nothing(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	(void)talk;
	(void)message;
}

typedef void (*reaction)(struct sml_talk *talk, const SmlControl__Envelope *message);

static const reaction reactions[] = {
	[SML_CONTROL__ENVELOPE__BODY_WAITING] = on_waiting,
	[SML_CONTROL__ENVELOPE__BODY_ADMITTED] = on_admitted,
	[SML_CONTROL__ENVELOPE__BODY_FETCH] = on_fetch,
	[SML_CONTROL__ENVELOPE__BODY_RESULT] = on_result,
	[SML_CONTROL__ENVELOPE__BODY_START] = on_start,
	[SML_CONTROL__ENVELOPE__BODY_DESCRIBE] = on_describe,
	[SML_CONTROL__ENVELOPE__BODY_STALL_REPORT] = on_stall_report,
	[SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST] = on_stall_request,
	[SML_CONTROL__ENVELOPE__BODY_ABORT] = on_abort,
	[SML_CONTROL__ENVELOPE__BODY_LEFT] = on_left,
	[SML_CONTROL__ENVELOPE__BODY_PONG] = on_nothing,
};

void sml_talk_message(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	size_t body = message->body_case;

	talk->silent = false;
	if (talk->phase >= SML_TALK_LEFT || body >= sizeof(reactions) / sizeof(reactions[0]) ||
	    reactions[body] == NULL)
		return;
	talk->heard = true;
	talk->begun |= body == SML_CONTROL__ENVELOPE__BODY_ADMITTED ||
		       body == SML_CONTROL__ENVELOPE__BODY_FETCH ||
		       body == SML_CONTROL__ENVELOPE__BODY_RESULT;
	reactions[body](talk, message);
}

/* ---- the end, and silence ---- */

/* All ranks reach rank 0's control port, so all of them can name it when it is gone. */
static void tell_rank_0_died(struct sml_talk *talk, const char *how)
{
	const struct sml_fellow *rank_0 = talk->fellows ? &talk->fellows->ranks[0] : NULL;

	if (rank_0 && rank_0->name[0])
		sml_talk_fail(talk, SML_ERROR_RANK_DIED,
			      "rank 0 (host %s, pid %" PRIu32
			      ") died, and the job's control port at %s with it: it %s",
			      rank_0->name, rank_0->pid, talk->config.where, how);
	else
		sml_talk_fail(talk, SML_ERROR_RANK_DIED,
			      "rank 0 died, and the job's control port at %s with it: it %s",
			      talk->config.where, how);
}

/* It has answered, so it is a switch, or rank 0; but not all ranks have come. */
static void tell_died_early(struct sml_talk *talk, const char *how)
{
	char ranks[SML_RANKS_TEXT_BYTES], while_waiting[SML_RANKS_TEXT_BYTES + 64] = "";
	unsigned n = sml_ranks_count(&talk->missing) + talk->n_more;

	if (n > 0) {
		sml_ranks_text(&talk->missing, talk->n_more, ranks, sizeof(ranks));
		snprintf(while_waiting, sizeof(while_waiting), " while rank%s %s %s awaited",
			 sml_plural(n), ranks, n > 1 ? "were" : "was");
	}
	if (talk->config.rank_0_runs_it)
		sml_talk_fail(talk, SML_ERROR_RANK_DIED,
			      "rank 0 died, and the job's control port at %s with it: it %s%s",
			      talk->config.where, how, while_waiting);
	else
		sml_talk_fail(talk, SML_ERROR_SWITCH_DIED, "%s at %s %s%s", talk->config.what,
			      talk->config.where, how, while_waiting);
}

void sml_talk_ended(struct sml_talk *talk, const char *how, bool known)
{
	const struct sml_talk_config *config = &talk->config;

	if (talk->phase >= SML_TALK_LEFT)
		return;
	/* It has served the job: the owner of the talk may find another one. */
	if (talk->may_be_lost && talk->phase >= SML_TALK_RUNNING) {
		snprintf(talk->text, sizeof(talk->text), "%s at %s %s", config->what, config->where,
			 how);
		talk->phase = SML_TALK_LOST;
	} else if (!known) {
		sml_talk_fail(talk, SML_ERROR_UNREACHABLE,
			      "what listens at %s %s before it had proved its identity: is it a "
			      "SwitchML switch with %s? Otherwise unset %s",
			      config->where, how, config->proof, config->unset);
	} else if (talk->resumption) {
		sml_talk_fail(talk, SML_ERROR_SWITCH_DIED,
			      "%s at %s %s before the job could continue there", config->what,
			      config->where, how);
	} else if (talk->heard && talk->phase < SML_TALK_ADMITTED) {
		tell_died_early(talk, how);
	} else if (talk->phase < SML_TALK_ADMITTED && config->rank_0_runs_it) {
		sml_talk_fail(talk, SML_ERROR_UNREACHABLE,
			      "what listens at %s %s: is it rank 0 of this job? Check "
			      "SWITCHML_MASTER_ADDR and SWITCHML_MASTER_PORT",
			      config->where, how);
	} else if (talk->phase < SML_TALK_ADMITTED) {
		sml_talk_fail(talk, SML_ERROR_UNREACHABLE,
			      "what listens at %s %s: is it a SwitchML switch? Check the address "
			      "and the port",
			      config->where, how);
	} else if (config->rank_0_runs_it) {
		tell_rank_0_died(talk, how);
	} else {
		sml_talk_fail(talk, SML_ERROR_SWITCH_DIED,
			      "%s at %s %s: it was stopped, has crashed, or the network is "
			      "down",
			      config->what, config->where, how);
	}
}

static void ping(struct sml_talk *talk, uint64_t now_ns)
{
	const struct sml_talk_output *output = talk->config.output;
	SmlControl__StripeStatus served = SML_CONTROL__STRIPE_STATUS__INIT;
	SmlControl__Traffic traffic = SML_CONTROL__TRAFFIC__INIT;
	SmlControl__Ping message = SML_CONTROL__PING__INIT;
	uint64_t completed[SML_MAX_CHILDREN];

	if (talk->serves && talk->has_slots && talk->config.rank < talk->admission.stripes) {
		output->served(talk->config.self, &served, completed);
		message.stripe = &served;
	}
	if (talk->serves && output->moved(talk->config.self, &traffic))
		message.traffic = &traffic;
	message.time_ns = now_ns;
	sml_talk_send(talk, sml_envelope(PING, ping, &message));
}

/* Is there a sign of life within the bound, on either path? */
static bool is_alive(const struct sml_talk *talk, uint64_t heard_ns, uint64_t now_ns)
{
	uint64_t bound_ns = talk->config.heartbeat_ms * MS;

	if (now_ns - heard_ns <= bound_ns)
		return true;
	return talk->alive_ns && now_ns - talk->alive_ns <= bound_ns &&
	       now_ns - heard_ns <= SILENT_HEARTBEATS * bound_ns;
}

void sml_talk_tick(struct sml_talk *talk, uint64_t heard_ns, uint64_t n_results, bool known,
		   uint64_t now_ns)
{
	char how[64];

	if (talk->phase >= SML_TALK_LEFT)
		return;
	if (n_results != talk->n_results)
		talk->alive_ns = now_ns;
	talk->n_results = n_results;
	if (is_alive(talk, heard_ns, now_ns)) {
		talk->silent = false;
	} else if (!talk->silent) {
		/*
		 * This process may have been suspended: messages that came in the meantime are read
		 * before the next tick.
		 */
		talk->silent = true;
	} else {
		snprintf(how, sizeof(how), "has been silent for %" PRIu32 " ms",
			 talk->config.heartbeat_ms);
		sml_talk_ended(talk, how, known);
		return;
	}
	ping(talk, now_ns);
}
