/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank takes from a switch: what the switch has given it, copied out of the message; the
 * messages that it accepts; and what it keeps of its memberships. See session.h. The switch may be
 * hostile, or of a version with other limits.
 */
#include "job/rank/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/text.h"

/* Tickets mean the chunks that they mean in a job that begins: no rank has a result. */
static bool is_beginning(const SmlControl__TicketMap *map)
{
	for (size_t i = 0; i < map->n_table; i++)
		if (map->table[i] != i)
			return false;
	return map->after == map->n_table;
}

static bool copy_maps(struct sml_session *session, const SmlControl__Admitted *in)
{
	if (session->resumption == NULL || (session->begins && in->n_maps == 0))
		return true;
	if (in->n_maps != SML_STREAMS)
		return false;
	for (unsigned stream = 0; stream < SML_STREAMS; stream++) {
		const SmlControl__TicketMap *map = in->maps[stream];
		uint32_t *table = malloc(map->n_table * sizeof(*table) + 1);

		if (table == NULL || (session->begins && !is_beginning(map))) {
			free(table);
			return false;
		}
		for (size_t i = 0; i < map->n_table; i++)
			table[i] = map->table[i];
		free(session->tables[stream]);
		session->tables[stream] = table;
		session->admission.maps[stream] = (struct sml_ticket_map){
			.table = table, .n = (uint32_t)map->n_table, .after = map->after};
	}
	return true;
}

static bool copy_peer_rank(struct sml_peer_rank *peer_rank, const SmlControl__Peer *in,
			   unsigned n_shards)
{
	if ((in->host.len != 0 && in->host.len != 4 && in->host.len != 16) ||
	    in->n_ports != n_shards)
		return false;
	*peer_rank = (struct sml_peer_rank){
		.host_bytes = (uint8_t)in->host.len,
		.cookie = in->cookie,
		.tag = in->tag,
		.pid = in->pid,
		.first_of_host = (uint16_t)in->first_of_host,
	};
	sml_text_copy(peer_rank->name, sizeof(peer_rank->name), in->name);
	/* Without an address, the pointer may be NULL. */
	if (in->host.len)
		memcpy(peer_rank->host, in->host.data, in->host.len);
	for (unsigned i = 0; i < n_shards; i++) {
		if (in->ports[i] == 0 || in->ports[i] > 65535)
			return false;
		peer_rank->ports[i] = (uint16_t)in->ports[i];
	}
	return true;
}

/* If the ranks have the slots: their identities and addresses. */
static bool copy_peer_ranks(struct sml_session *session, const SmlControl__Admitted *in)
{
	unsigned n_ranks = session->config.world_size;
	bool has_stripe = session->config.rank < in->stripes;

	if (!session->has_slots)
		return true;
	/* A shard is served by a socket, and this rank has said how many it has. */
	if (n_ranks > SML_MAX_STRIPES || in->shards > session->n_ports || in->n_peers != n_ranks ||
	    in->stripes == 0 || in->stripes > n_ranks ||
	    in->n_cookies != (has_stripe ? n_ranks : 0))
		return false;
	free(session->peer_ranks);
	session->peer_ranks = calloc(1, sizeof(*session->peer_ranks));
	if (session->peer_ranks == NULL)
		return false;
	for (unsigned i = 0; i < n_ranks; i++) {
		uint32_t first = in->peers[i]->first_of_host;

		if (first > i || in->peers[first]->first_of_host != first ||
		    !copy_peer_rank(&session->peer_ranks->ranks[i], in->peers[i], in->shards))
			return false;
		if (has_stripe)
			session->peer_ranks->cookies[i] = in->cookies[i];
	}
	session->admission.stripes = (uint8_t)in->stripes;
	session->admission.peer_ranks = session->peer_ranks;
	return true;
}

/* False: it is no list of ranks and tokens, or this rank is not in it. */
static bool copy_host_ranks(struct sml_session *session, const SmlControl__HostGroup *in)
{
	struct sml_host_ranks *host_ranks = &session->admission.host_ranks;

	if (in == NULL)
		return true;
	if (in->n_ranks != in->n_tokens || in->n_ranks > SML_MAX_CHILDREN)
		return false;
	for (size_t i = 0; i < in->n_ranks; i++) {
		uint32_t rank = in->ranks[i];

		/* In their order: so no rank is there twice. */
		if (rank >= session->config.world_size || (i > 0 && rank <= in->ranks[i - 1]) ||
		    in->tokens[i].len != SML_SESSION_TOKEN_BYTES)
			return false;
		sml_ranks_add(&host_ranks->ranks, rank);
		memcpy(host_ranks->tokens[i], in->tokens[i].data, SML_SESSION_TOKEN_BYTES);
	}
	host_ranks->n = (uint8_t)in->n_ranks;
	return sml_ranks_has(&host_ranks->ranks, session->config.rank);
}

/* From now on, this rank is who the switch says. */
static bool copy_decision(struct sml_session *session, const SmlControl__Decision *in)
{
	struct sml_decided *decided = &session->decided;

	if (in == NULL || !session->asks)
		return in == NULL && !session->asks;
	if (in->world_size < 1 || in->world_size > SML_MAX_WORLD || in->rank >= in->world_size ||
	    in->n_before != in->world_size || *in->job == '\0' ||
	    strlen(in->job) >= sizeof(decided->job) || !sml_text_is_clean(in->job))
		return false;
	free(decided->before);
	*decided = (struct sml_decided){.rank = (uint16_t)in->rank,
					.world_size = (uint16_t)in->world_size,
					.number = in->number,
					.after = in->after,
					.before = calloc(in->world_size, sizeof(*decided->before))};
	snprintf(decided->job, sizeof(decided->job), "%s", in->job);
	for (uint32_t i = 0; decided->before != NULL && i < in->world_size; i++)
		decided->before[i] = (uint16_t)(in->before[i] <= SML_MAX_WORLD ? in->before[i] : 0);
	session->config.rank = decided->rank;
	session->config.world_size = decided->world_size;
	session->admission.decided = decided;
	return decided->before != NULL;
}

static void copy_numbers(struct sml_admission *admission, const SmlControl__Admitted *in)
{
	*admission = (struct sml_admission){
		.cookie = in->cookie,
		.tag = in->tag,
		.membership = in->membership,
		.report_tag = in->report_tag,
		.job_number = in->job_number,
		.epoch = in->epoch,
		.changes = in->changes,
		.heartbeat_ms = in->heartbeat_ms,
		.window_packets = in->window_packets,
		.lanes = (uint16_t)in->lanes,
		.head_slots = (uint16_t)in->head_slots,
		.data_slots = (uint16_t)in->data_slots,
		.data_port = (uint16_t)in->data_port,
		.n_hosts = in->hosts <= SML_MAX_WORLD ? (uint16_t)in->hosts : 0,
		.shards = (uint8_t)in->shards,
		.number = (uint8_t)in->number,
		.stall_reports = in->stall_reports,
		.full_packets = in->full_packets,
		.only_int32 = in->only_int32,
		.rounds = in->rounds,
		.omits = in->omits,
		.floats = in->floats,
		.adds_parts = in->adds_parts,
		.single_packets = in->single_packets,
	};
	snprintf(admission->dataplane, sizeof(admission->dataplane), "%s", in->dataplane);
}

bool sml_session_admit(struct sml_session *session, const SmlControl__Admitted *in)
{
	const char *where = session->config.where;

	if (!sml_rules_admit(in, session->n_shards)) {
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s admits the job with impossible numbers: %" PRIu32
				 " lanes, %" PRIu32 " shards, port %" PRIu32 ", %" PRIu32
				 " + %" PRIu32 " slots",
				 session->config.what, where, in->lanes, in->shards, in->data_port,
				 in->head_slots, in->data_slots);
		return false;
	}
	copy_numbers(&session->admission, in);
	/* It is one of them, whatever the switch says. */
	if (session->admission.heartbeat_ms < session->config.heartbeat_ms)
		session->admission.heartbeat_ms = session->config.heartbeat_ms;
	if (!copy_decision(session, in->decision))
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s does not say which rank this is, or says so unasked",
				 session->config.what, where);
	else if (!copy_maps(session, in))
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s does not say where to continue", session->config.what,
				 where);
	else if (!copy_host_ranks(session, in->host_group))
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "%s at %s names impossible ranks of this machine",
				 session->config.what, where);
	else if (!copy_peer_ranks(session, in))
		sml_session_fail(session, SML_ERROR_PROTOCOL,
				 "rank 0 at %s does not say where the other ranks are", where);
	else
		return true;
	return false;
}

/* ---- which messages a rank accepts, and when: anything else is not our protocol ---- */

#define PHASE(name) (1u << SML_SESSION_##name)
#define BEGUN	    (PHASE(RUNNING) | PHASE(LEAVING))
#define TALKING	    (PHASE(CONNECTED) | PHASE(JOINING) | PHASE(ADMITTED) | PHASE(READY) | BEGUN)
/* Messages of a few numbers or a sentence. */
#define SHORT_BYTES 4096u
/* Two tables of 2 x 4096 chunks, or the places of all ranks. */
#define ADMITTED_BYTES (256u << 10)
#define RESULT_BYTES   (16u << 10)
/* What all slots wait for (SML_WAITS_ROOM), and who the ranks are. */
#define STALLS_BYTES (256u << 10)

static const char *const states[] = {
	[SML_SESSION_CONNECTED] = "before it was asked",
	[SML_SESSION_JOINING] = "while the job gathers",
	[SML_SESSION_ADMITTED] = "while the path is probed",
	[SML_SESSION_READY] = "before the job starts",
	[SML_SESSION_RUNNING] = "while the job runs",
	[SML_SESSION_LEAVING] = "while the job ends",
};
_Static_assert(sizeof(states) / sizeof(states[0]) == SML_SESSION_LEFT, "each has its words");

#define RULE(BODY, when, max_bytes) [SML_CONTROL__ENVELOPE__BODY_##BODY] = {(when), (max_bytes)}

static const struct sml_rules rules = {
	.states = states,
	.messages =
		{
			RULE(WAITING, PHASE(JOINING), SHORT_BYTES),
			/* Again, if ranks of one machine could not share memory. */
			RULE(ADMITTED, PHASE(JOINING) | PHASE(READY), ADMITTED_BYTES),
			RULE(FETCH, PHASE(JOINING), SHORT_BYTES),
			RULE(RESULT, PHASE(JOINING), RESULT_BYTES),
			RULE(START, PHASE(READY), SHORT_BYTES),
			RULE(DESCRIBE, BEGUN, SHORT_BYTES),
			RULE(STALL_REPORT, BEGUN, STALLS_BYTES),
			RULE(STALL_REQUEST, BEGUN, SHORT_BYTES),
			RULE(ABORT, TALKING, STALLS_BYTES),
			/* While it joins: it may leave, if the others are gone. */
			RULE(LEFT, PHASE(LEAVING) | PHASE(JOINING), SHORT_BYTES),
			RULE(PONG, TALKING, SHORT_BYTES),
		},
};

bool sml_session_reject(struct sml_session *session, const struct sml_head *head)
{
	char text[SML_SESSION_TEXT_BYTES / 2];

	/* Messages of a finished session do not count. */
	if (session->phase >= SML_SESSION_LEFT)
		return false;
	if (sml_rules_reject(&rules, session->phase, head, text, sizeof(text)) == NULL)
		return false;
	sml_session_fail(session, SML_ERROR_PROTOCOL,
			 "what answers at %s does not speak the SwitchML protocol: %s. Check the "
			 "address and the port",
			 session->config.where, text);
	return true;
}

/* ---- which ranks of which jobs a process has been ---- */

void sml_past_ranks_note(struct sml_past_ranks *past, const struct sml_past_rank *was)
{
	past->admitted = *was;
	if (!was->ran)
		return;
	past->ran = *was;
	past->members = (struct sml_ranks){{0}};
}

void sml_past_ranks_note_decision(struct sml_past_ranks *past, const struct sml_decided *decided)
{
	/* All of its ranks were ready, even if this one has not seen it begin. */
	if (past->admitted.tag == decided->after)
		past->ran = past->admitted;
	past->decisions = decided->number;
}

static void add(struct sml_membership_request *ask, const struct sml_past_rank *was,
		size_t n_member_bytes)
{
	SmlControl__PastRank *out = &ask->past_ranks[ask->ask.n_past_ranks];

	if (was->tag == 0)
		return;
	sml_control__past_rank__init(out);
	out->tag = was->tag;
	out->rank = was->rank;
	out->world_size = was->world_size;
	out->ran = was->ran;
	out->members = (ProtobufCBinaryData){n_member_bytes, ask->members};
	ask->list[ask->ask.n_past_ranks++] = out;
}

void sml_past_ranks_request(const struct sml_past_ranks *past, struct sml_membership_request *ask)
{
	const size_t n = sml_ranks_pack(&past->members, ask->members);

	sml_control__ask__init(&ask->ask);
	ask->ask.past_ranks = ask->list;
	ask->ask.number = past->decisions;
	if (past->ran.tag != past->admitted.tag)
		add(ask, &past->admitted, 0);
	add(ask, &past->ran, n);
}
