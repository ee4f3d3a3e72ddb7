/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's messages, and what its silence means: see session.h. */
#include "job/rank/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/plural.h"
#include "control/envelope.h"
#include "control/text.h"

#define MS 1000000ull
/*
 * Results show that the switch's machine is alive, but its control plane is needed, too: to report
 * a rank's death, and to leave. This many heartbeats of silence are enough.
 */
#define SILENT_HEARTBEATS 8
/* As long as a switch waits for the ranks of a job that resumes. */
#define WAITING_MS 5000u
/*
 * What slots wait for is not told of all: a switch that asks again and again would keep this thread
 * busy. It is the room of about 600 slots.
 */
#define MOST_TOLD_BYTES 10000

void sml_session_init(struct sml_session *session, const struct sml_session_config *config)
{
	*session = (struct sml_session){.config = *config};
	if (session->config.what == NULL)
		session->config.what = "the switch";
}

void sml_session_fini(struct sml_session *session)
{
	for (unsigned stream = 0; stream < SML_STREAMS; stream++)
		free(session->tables[stream]);
	free(session->peer_ranks);
	free(session->decided.before);
}

/* ---- out ---- */

/* Everything that belongs to the phase has been written: any thread may read the phase. */
static void enter(struct sml_session *session, enum sml_session_phase phase)
{
	const struct sml_session_config *config = &session->config;

	__atomic_store_n(&session->phase, phase, __ATOMIC_RELEASE);
	if (config->output->entered)
		config->output->entered(config->self);
}

void sml_session_fail(struct sml_session *session, int error, const char *format, ...)
{
	va_list arguments;

	if (session->phase >= SML_SESSION_LEFT)
		return;
	session->error = error;
	va_start(arguments, format);
	vsnprintf(session->text, sizeof(session->text), format, arguments);
	va_end(arguments);
	enter(session, SML_SESSION_FAILED);
}

static void send_message(struct sml_session *session, const SmlControl__Envelope *message)
{
	if (session->phase < SML_SESSION_LEFT &&
	    session->config.output->send(session->config.self, message) < 0)
		sml_session_fail(session, -ENOMEM, "no memory for a control message");
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
	resume->begins = resumption->begins;
	resume->only_integers = resumption->only_integers;
	resume->adds_parts = resumption->adds_parts;
	resume->streams = list;
	resume->n_streams = SML_STREAMS;
}

void sml_session_join(struct sml_session *session, const SmlControl__Join *join,
		      const struct sml_resumption *resumption)
{
	SmlControl__StreamReport reports[SML_STREAMS], *list[SML_STREAMS];
	SmlControl__Resume resume;
	SmlControl__Join whole = *join;

	whole.protocol = SML_CONTROL_PROTOCOL;
	whole.rank = session->config.rank;
	whole.world_size = session->config.world_size;
	whole.heartbeat_ms = session->config.heartbeat_ms;
	session->has_slots = join->n_stripe_ports > 0;
	session->asks = join->ask != NULL;
	session->n_shards = join->shards <= SML_MAX_SHARDS ? join->shards : SML_MAX_SHARDS;
	session->n_ports = (uint32_t)join->n_stripe_ports;
	session->resumption = resumption;
	session->only_leaves = resumption && resumption->leaving;
	session->begins = resumption && resumption->begins;
	if (resumption) {
		describe_resumption(resumption, reports, list, &resume);
		whole.resume = &resume;
	}
	enter(session, SML_SESSION_JOINING);
	send_message(session, sml_envelope(JOIN, join, &whole));
}

void sml_session_ready(struct sml_session *session, const struct sml_readiness *found)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	if (session->phase != SML_SESSION_ADMITTED)
		return;
	ready.lanes = found->lanes;
	ready.shares_memory = session->offers_memory = found->shares_memory;
	enter(session, SML_SESSION_READY);
	send_message(session, sml_envelope(READY, ready, &ready));
}

static void ping(struct sml_session *session, uint64_t now_ns)
{
	const struct sml_session_answers *answers = session->answers;
	SmlControl__StripeStatus served = SML_CONTROL__STRIPE_STATUS__INIT;
	SmlControl__Traffic traffic = SML_CONTROL__TRAFFIC__INIT;
	SmlControl__Ping message = SML_CONTROL__PING__INIT;
	uint64_t waited_ms[SML_MAX_CHILDREN];

	if (answers && session->has_slots && session->config.rank < session->admission.stripes) {
		answers->get_stripe_status(answers->self, &served, waited_ms);
		message.stripe = &served;
	}
	if (answers && answers->get_traffic(answers->self, &traffic))
		message.traffic = &traffic;
	message.time_ns = now_ns;
	send_message(session, sml_envelope(PING, ping, &message));
}

/* The last report shows in the job's last line. */
void sml_session_leave(struct sml_session *session, uint64_t now_ns)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;

	if (session->phase != SML_SESSION_RUNNING)
		return;
	ping(session, now_ns);
	if (session->phase != SML_SESSION_RUNNING)
		return; /* it could not be sent */
	enter(session, SML_SESSION_LEAVING);
	send_message(session, sml_envelope(LEAVE, leave, &leave));
}

void sml_session_retreat(struct sml_session *session)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;

	if (session->phase >= SML_SESSION_JOINING && session->phase < SML_SESSION_LEAVING)
		send_message(session, sml_envelope(LEAVE, leave, &leave));
}

/*
 * Before its Ready, the ranks that still gather can do so without it, and it may come again; to
 * those that do not, it has not died. Where a job resumes, a switch that it does not run at yet
 * takes the end of a connection for no death.
 */
bool sml_session_give_up(struct sml_session *session)
{
	const bool waits =
		session->phase == SML_SESSION_JOINING || session->phase == SML_SESSION_ADMITTED;

	if (!waits || (session->resumption != NULL && !session->begins))
		return false;
	sml_session_retreat(session);
	return true;
}

void sml_session_abort(struct sml_session *session, int error, const char *text, unsigned kinds)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.told = (kinds & SML_ABORT_TOLD) != 0;
	message.planned = (kinds & SML_ABORT_PLANNED) != 0;
	send_message(session, sml_envelope(ABORT, abort, &message));
	/* The caller that asked for it knows that the job has failed. */
	sml_session_fail(session, error, "%s", text);
}

bool sml_session_go_on(struct sml_session *session)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = SML_ERROR_ABORTED;
	message.planned = true;
	return session->phase == SML_SESSION_FAILED &&
	       session->config.output->send(session->config.self,
					    sml_envelope(ABORT, abort, &message)) == 0;
}

void sml_session_query_stalls(struct sml_session *session)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	send_message(session, sml_envelope(STALL_REQUEST, stall_request, &request));
}

void sml_session_mismatch(struct sml_session *session, const struct sml_disagreement *found)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {found->ranks[0], found->ranks[1]};

	mismatch.slot = found->slot;
	mismatch.use = found->use;
	mismatch.chunk = found->chunk;
	mismatch.ranks = ranks;
	mismatch.n_ranks = 2;
	send_message(session, sml_envelope(MISMATCH, mismatch, &mismatch));
}

void sml_session_renew(struct sml_session *session, uint8_t shard, uint32_t number)
{
	SmlControl__Renew renew = SML_CONTROL__RENEW__INIT;

	if (session->phase != SML_SESSION_RUNNING)
		return;
	renew.shard = shard;
	renew.number = number;
	send_message(session, sml_envelope(RENEW, renew, &renew));
}

/* ---- what comes ---- */

static void on_waiting(struct sml_session *session, const SmlControl__Envelope *message)
{
	const SmlControl__Waiting *waiting = message->waiting;

	session->n_waiting++;
	session->missing = (struct sml_ranks){{0}};
	session->n_more = waiting->more <= SML_MAX_WORLD ? waiting->more : SML_MAX_WORLD;
	/* What does not exist cannot be missing. */
	for (size_t i = 0; i < waiting->n_missing; i++)
		if (waiting->missing[i] < session->config.world_size)
			sml_ranks_add(&session->missing, waiting->missing[i]);
	if (*waiting->hosts)
		sml_text_copy(session->hosts, sizeof(session->hosts), waiting->hosts);
	sml_text_copy(session->refused, sizeof(session->refused), waiting->refused);
}

static void on_admitted(struct sml_session *session, const SmlControl__Envelope *message)
{
	bool again = session->phase == SML_SESSION_READY;

	if (!sml_session_admit(session, message->admitted))
		return;
	/* Once: now every rank is on its own. */
	if (again && (session->admitted_again || session->admission.host_ranks.n != 0)) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "the switch at %s admits the job again and again",
				 session->config.where);
		return;
	}
	session->admitted_again |= again;
	enter(session, SML_SESSION_ADMITTED);
}

/* ---- continuing after a switch has died ---- */

static void on_fetch(struct sml_session *session, const SmlControl__Envelope *message)
{
	const SmlControl__Fetch *fetch = message->fetch;
	const struct sml_resumption *resumption = session->resumption;
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;
	const void *lanes = NULL;
	uint16_t n_lanes = 0;

	if (resumption && !resumption->begins && fetch->stream < SML_STREAMS)
		lanes = resumption->kept(resumption->self, (enum sml_stream_id)fetch->stream,
					 fetch->chunk, &n_lanes);
	if (lanes == NULL) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s wants a result that this rank does not keep",
				 session->config.what, session->config.where);
		return;
	}
	result.stream = fetch->stream;
	result.chunk = fetch->chunk;
	result.lanes.data = (uint8_t *)(uintptr_t)lanes;
	result.lanes.len = 4u * n_lanes;
	send_message(session, sml_envelope(RESULT, result, &result));
}

static void on_result(struct sml_session *session, const SmlControl__Envelope *message)
{
	const SmlControl__Result *result = message->result;
	const struct sml_resumption *resumption = session->resumption;
	uint32_t lanes[SML_MAX_LANES];
	int rc = -1;

	if (resumption && !resumption->begins && result->stream < SML_STREAMS &&
	    result->lanes.len <= sizeof(lanes) && result->lanes.len % 4 == 0) {
		/* They may be unaligned in the message. */
		if (result->lanes.len > 0)
			memcpy(lanes, result->lanes.data, result->lanes.len);
		rc = resumption->adopt(resumption->self, (enum sml_stream_id)result->stream,
				       result->chunk, lanes, (uint16_t)(result->lanes.len / 4));
	}
	if (rc < 0)
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s hands over a result that does not fit",
				 session->config.what, session->config.where);
}

static void on_start(struct sml_session *session, const SmlControl__Envelope *message)
{
	if (message->start->lanes < SML_MIN_LANES ||
	    message->start->lanes > session->admission.lanes) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s starts the job with %" PRIu32 " lanes, of %u",
				 session->config.what, session->config.where, message->start->lanes,
				 session->admission.lanes);
		return;
	}
	session->start_lanes = (uint16_t)message->start->lanes;
	if (message->start->share_memory && !session->offers_memory) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s says that this rank shares memory, but it does not",
				 session->config.what, session->config.where);
		return;
	}
	session->shares_memory = message->start->share_memory;
	enter(session, SML_SESSION_RUNNING);
}

/* ---- while the job runs ---- */

static void answer(struct sml_session *session, const SmlControl__Describe *question)
{
	char text[SML_SESSION_TEXT_BYTES / 2];
	const struct sml_session_answers *answers = session->answers;
	SmlControl__Description answer = SML_CONTROL__DESCRIPTION__INIT;
	SmlControl__Call call = SML_CONTROL__CALL__INIT;
	enum sml_stream_id stream =
		question->slot < session->admission.head_slots ? SML_HEAD : SML_DATA;

	if (answers->describe(answers->self, stream, question->chunk, text, sizeof(text), &call))
		answer.call = &call;
	answer.slot = question->slot;
	answer.use = question->use;
	answer.text = text;
	send_message(session, sml_envelope(DESCRIPTION, description, &answer));
}

/*
 * Another rank may have begun, and disagree, before this one has: then it cannot answer yet. One
 * question is all that a switch asks of a job.
 */
static void on_describe(struct sml_session *session, const SmlControl__Envelope *message)
{
	if (session->answers) {
		answer(session, message->describe);
		return;
	}
	sml_control__describe__init(&session->question);
	session->question.slot = message->describe->slot;
	session->question.use = message->describe->use;
	session->question.chunk = message->describe->chunk;
	session->asked = true;
}

/* The switch does not ask again before it has an answer, even if this rank does not know. */
static void answer_stalls(struct sml_session *session)
{
	const struct sml_session_answers *answers = session->answers;
	struct sml_waits_message message;

	answers->pack_waits(answers->self, MOST_TOLD_BYTES, &message);
	send_message(session, sml_envelope(STALL_REPORT, stall_report, &message.report));
	sml_waits_free(&message);
}

static void on_stall_request(struct sml_session *session, const SmlControl__Envelope *message)
{
	(void)message;
	if (session->answers)
		answer_stalls(session);
	else
		session->stalls_requested = true;
}

void sml_session_serve(struct sml_session *session, const struct sml_session_answers *answers,
		       bool may_be_lost)
{
	session->answers = answers;
	session->may_be_lost = may_be_lost;
	if (session->asked)
		answer(session, &session->question);
	if (session->stalls_requested)
		answer_stalls(session);
	session->asked = session->stalls_requested = false;
}

static void on_stall_report(struct sml_session *session, const SmlControl__Envelope *message)
{
	session->config.output->stalls_reported(session->config.self, message->stall_report, false);
}

static void on_abort(struct sml_session *session, const SmlControl__Envelope *message)
{
	int error = message->abort->error < 0 ? message->abort->error : SML_ERROR_PROTOCOL;
	const char *text = message->abort->text;

	session->planned = message->abort->planned;
	if (message->abort->stalls)
		session->config.output->stalls_reported(session->config.self,
							message->abort->stalls, true);
	if (*text)
		sml_session_fail(session, error, "%s", text);
	else
		sml_session_fail(session, error, "%s at %s has ended the job", session->config.what,
				 session->config.where);
}

static void on_left(struct sml_session *session, const SmlControl__Envelope *message)
{
	const SmlControl__Left *left = message->left;

	if (session->phase == SML_SESSION_JOINING && !session->only_leaves) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s lets this rank leave, but the rank has not asked to",
				 session->config.what, session->config.where);
		return;
	}
	sml_text_copy(session->slowest, sizeof(session->slowest), left->slowest);
	session->slowest_ms = left->slowest_ms;
	enter(session, SML_SESSION_LEFT);
}

static void on_pong(struct sml_session *session, const SmlControl__Envelope *message)
{
	/* Any thread of the rank may read it. */
	__atomic_store_n(&session->n_joiners, message->pong->waiting, __ATOMIC_RELAXED);
}

typedef void (*reaction)(struct sml_session *session, const SmlControl__Envelope *message);

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
	[SML_CONTROL__ENVELOPE__BODY_PONG] = on_pong,
};

void sml_session_message(struct sml_session *session, const SmlControl__Envelope *message)
{
	size_t body = message->body_case;

	session->silent = false;
	if (session->phase >= SML_SESSION_LEFT ||
	    body >= sizeof(reactions) / sizeof(reactions[0]) || reactions[body] == NULL)
		return;
	session->heard = true;
	session->begun |= body == SML_CONTROL__ENVELOPE__BODY_ADMITTED ||
			  body == SML_CONTROL__ENVELOPE__BODY_FETCH ||
			  body == SML_CONTROL__ENVELOPE__BODY_RESULT;
	reactions[body](session, message);
}

/* ---- the end, and silence ---- */

/* All ranks reach rank 0's control port, so all of them can name it when it is gone. */
static void report_rank_0_died(struct sml_session *session, const char *how)
{
	const struct sml_peer_rank *rank_0 =
		session->peer_ranks ? &session->peer_ranks->ranks[0] : NULL;

	if (rank_0 && rank_0->name[0])
		sml_session_fail(session, SML_ERROR_RANK_DIED,
				 "rank 0 (host %s, pid %" PRIu32
				 ") died, and the job's control port at %s with it: it %s",
				 rank_0->name, rank_0->pid, session->config.where, how);
	else
		sml_session_fail(session, SML_ERROR_RANK_DIED,
				 "rank 0 died, and the job's control port at %s with it: it %s",
				 session->config.where, how);
}

/* It has answered, so it is a switch, or rank 0; but not all ranks have come. */
static void report_early_death(struct sml_session *session, const char *how)
{
	char ranks[SML_RANKS_TEXT_BYTES], while_waiting[SML_RANKS_TEXT_BYTES + 64] = "";
	unsigned n = sml_ranks_count(&session->missing) + session->n_more;

	if (n > 0) {
		sml_ranks_text(&session->missing, session->n_more, ranks, sizeof(ranks));
		snprintf(while_waiting, sizeof(while_waiting), " while rank%s %s %s awaited",
			 sml_plural(n), ranks, n > 1 ? "were" : "was");
	}
	if (session->config.rank_0_runs_it)
		sml_session_fail(session, SML_ERROR_RANK_DIED,
				 "rank 0 died, and the job's control port at %s with it: it %s%s",
				 session->config.where, how, while_waiting);
	else
		sml_session_fail(session, SML_ERROR_SWITCH_DIED, "%s at %s %s%s",
				 session->config.what, session->config.where, how, while_waiting);
}

void sml_session_ended(struct sml_session *session, const char *how, bool known)
{
	const struct sml_session_config *config = &session->config;

	if (session->phase >= SML_SESSION_LEFT)
		return;
	/* It has served the job: the owner of the session may find another one. */
	if (session->may_be_lost && session->phase >= SML_SESSION_RUNNING) {
		snprintf(session->text, sizeof(session->text), "%s at %s %s", config->what,
			 config->where, how);
		enter(session, SML_SESSION_LOST);
	} else if (!known) {
		sml_session_fail(session, SML_ERROR_UNREACHABLE,
				 "what listens at %s %s before it had proved its identity: is it a "
				 "SwitchML switch with %s? Otherwise unset %s",
				 config->where, how, config->proof, config->unset);
	} else if (session->resumption) {
		sml_session_fail(session, SML_ERROR_SWITCH_DIED,
				 "%s at %s %s before the job could continue there", config->what,
				 config->where, how);
	} else if (session->heard && session->phase < SML_SESSION_ADMITTED) {
		report_early_death(session, how);
	} else if (session->phase < SML_SESSION_ADMITTED && config->rank_0_runs_it) {
		sml_session_fail(session, SML_ERROR_UNREACHABLE,
				 "what listens at %s %s: is it rank 0 of this job? Check "
				 "SWITCHML_MASTER_ADDR and SWITCHML_MASTER_PORT",
				 config->where, how);
	} else if (session->phase < SML_SESSION_ADMITTED) {
		sml_session_fail(
			session, SML_ERROR_UNREACHABLE,
			"what listens at %s %s: is it a SwitchML switch%s? Check the address "
			"and the port",
			config->where, how, session->silent ? ", and not frozen" : "");
	} else if (config->rank_0_runs_it) {
		report_rank_0_died(session, how);
	} else {
		sml_session_fail(session, SML_ERROR_SWITCH_DIED,
				 "%s at %s %s: it was stopped, has crashed, or the network is "
				 "down",
				 config->what, config->where, how);
	}
}

/*
 * A switch where this rank waits to go on says every second who is missing. One that is gone with
 * its host must not keep the rank from joining it again.
 */
static uint32_t patience_ms(const struct sml_session *session)
{
	bool waits = session->phase == SML_SESSION_JOINING && session->resumption &&
		     !session->begins && !session->begun;

	return waits ? sml_least(session->config.heartbeat_ms, WAITING_MS)
		     : session->config.heartbeat_ms;
}

/* Is there a sign of life within the bound, on either path? */
static bool is_alive(const struct sml_session *session, uint64_t heard_ns, uint64_t now_ns)
{
	uint64_t bound_ns = patience_ms(session) * MS;

	if (now_ns - heard_ns <= bound_ns)
		return true;
	return session->alive_ns && now_ns - session->alive_ns <= bound_ns &&
	       now_ns - heard_ns <= SILENT_HEARTBEATS * bound_ns;
}

void sml_session_tick(struct sml_session *session, uint64_t heard_ns, uint64_t n_results,
		      bool known, uint64_t now_ns)
{
	char how[64];

	if (session->phase >= SML_SESSION_LEFT)
		return;
	if (n_results != session->n_results)
		session->alive_ns = now_ns;
	session->n_results = n_results;
	if (is_alive(session, heard_ns, now_ns)) {
		session->silent = false;
	} else if (!session->silent) {
		/*
		 * This process may have been suspended: messages that came in the meantime are read
		 * before the next tick.
		 */
		session->silent = true;
	} else {
		snprintf(how, sizeof(how), "has been silent for %" PRIu32 " ms",
			 patience_ms(session));
		(void)sml_session_give_up(session);
		sml_session_ended(session, how, known);
		return;
	}
	ping(session, now_ns);
}
