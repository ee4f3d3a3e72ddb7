/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to peers, and their ends, wherever they are. A rank at a leaf has no connection here:
 * its messages travel in a Relay on the connection of the leaf, and only this file knows that.
 *
 * The invariant: a remote rank stays with its branch until the leaf has been told that the peer
 * has ended. A peer that ends while an input is handled is freed only before the next input,
 * because the code that handles the input may still use it.
 */
#include "job/peer/peer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "switchml.h"

/* ---- by way of a leaf ---- */

/* Nothing is optional here: who asks a leaf what its slots wait for does not ask twice. */
int sml_link_send(const struct sml_jobs *jobs, const struct sml_switch_link *link,
		  const SmlControl__Envelope *message)
{
	return link->peer != NULL ? jobs->output->send(link->peer, message) : 0;
}

int sml_link_relay(const struct sml_jobs *jobs, const struct sml_switch_link *link,
		   SmlControl__Relay *relay, const SmlControl__Envelope *message)
{
	int rc;

	relay->message.len = sml_control__envelope__get_packed_size(message);
	relay->message.data = malloc(relay->message.len + 1);
	if (relay->message.data == NULL)
		return -ENOMEM;
	sml_control__envelope__pack(message, relay->message.data);
	rc = sml_link_send(jobs, link, sml_envelope(RELAY, relay, relay));
	free(relay->message.data);
	return rc;
}

/* The leaf passes it on. */
static int send_by_leaf(const struct sml_jobs *jobs, const struct sml_peer *peer,
			const SmlControl__Envelope *message)
{
	const struct sml_remote *remote = sml_remote_of(peer);
	SmlControl__Relay relay = SML_CONTROL__RELAY__INIT;

	relay.peer = remote->key.number;
	return remote->ended ? 0 : sml_link_relay(jobs, &peer->via->link, &relay, message);
}

void sml_branch_send_end(const struct sml_branch *branch, uint32_t number)
{
	SmlControl__Relay relay = SML_CONTROL__RELAY__INIT;

	relay.peer = number;
	relay.over = true;
	(void)sml_link_send(branch->jobs, &branch->link, sml_envelope(RELAY, relay, &relay));
}

void sml_remote_retire(struct sml_remote *remote)
{
	struct sml_branch *branch = remote->peer.via;

	if (remote->ended)
		return;
	remote->ended = true;
	sml_table_remove(&branch->link.ranks, &remote->key);
	remote->next_ended = branch->jobs->ended;
	branch->jobs->ended = remote;
}

static void end_by_leaf(struct sml_peer *peer)
{
	struct sml_remote *remote = sml_remote_of(peer);

	if (remote->ended)
		return;
	sml_branch_send_end(peer->via, remote->key.number);
	sml_remote_retire(remote);
}

void sml_branches_sweep(struct sml_jobs *jobs)
{
	struct sml_remote *next;

	for (; jobs->ended != NULL; jobs->ended = next) {
		next = jobs->ended->next_ended;
		free(jobs->ended);
	}
}

/* ---- to any peer ---- */

/* Messages that a peer does not need, because they are repeated or are only answers. */
static bool is_optional(SmlControl__Envelope__BodyCase body)
{
	switch (body) {
	case SML_CONTROL__ENVELOPE__BODY_PONG:
	case SML_CONTROL__ENVELOPE__BODY_STATUS:
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
	case SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST:
	case SML_CONTROL__ENVELOPE__BODY_WAITING:
		return true;
	default:
		return false;
	}
}

/*
 * Of all other messages there are only a few in each state of a job, so a peer that does not read
 * cannot fill memory.
 */
int sml_peer_send(const struct sml_jobs *jobs, struct sml_peer *peer,
		  const SmlControl__Envelope *message)
{
	if (is_optional(message->body_case) && !sml_peer_listens(jobs, peer))
		return 0;
	return peer->via != NULL ? send_by_leaf(jobs, peer, message)
				 : jobs->output->send(peer, message);
}

void sml_peer_end(const struct sml_jobs *jobs, struct sml_peer *peer)
{
	if (peer->via != NULL)
		end_by_leaf(peer);
	else
		jobs->output->end(peer);
}

bool sml_peer_listens(const struct sml_jobs *jobs, const struct sml_peer *peer)
{
	const struct sml_peer *last = peer->via != NULL ? peer->via->link.peer : peer;

	return last != NULL && jobs->output->listens(last);
}

/* number: a job's at a leaf; 0 if the peer is a rank. */
static void send_failure(const struct sml_jobs *jobs, struct sml_peer *peer, uint32_t number,
			 int error, const char *text, bool again)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.again = again;
	(void)sml_peer_send(jobs, peer, sml_envelope_of(number, ABORT, abort, &message));
}

static void refuse(const struct sml_jobs *jobs, struct sml_peer *peer, int error, const char *text,
		   bool again)
{
	send_failure(jobs, peer, 0, error, text, again);
	sml_peer_end(jobs, peer);
}

void sml_peer_refuse(const struct sml_jobs *jobs, struct sml_peer *peer, int error,
		     const char *text)
{
	refuse(jobs, peer, error, text, false);
}

void sml_peer_end_silent(const struct sml_jobs *jobs, struct sml_peer *peer, bool doubted,
			 const char *text)
{
	if (doubted)
		sml_peer_end(jobs, peer);
	else
		sml_peer_refuse(jobs, peer, SML_ERROR_TIMEOUT, text);
}

void sml_peer_refuse_for_now(const struct sml_jobs *jobs, struct sml_peer *peer, const char *text)
{
	refuse(jobs, peer, SML_ERROR_REFUSED, text, true);
}

uint64_t sml_jobs_random(const struct sml_jobs *jobs)
{
	return jobs->output->random_u64(jobs->context);
}

void sml_jobs_log(const struct sml_jobs *jobs, enum sml_jobs_level level, const char *format, ...)
{
	char line[2 * SML_SENTENCE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	jobs->output->log(jobs->context, level, line);
}

/* All jobs that a switch has may fail together. After that, the log of a day has an end. */
#define FAILURES_LOGGED SML_MAX_JOBS
#define LOG_ROOM_NS	(SML_SECOND_NS / 3) /* after this time, there is room for another line */
/* Ranks that are refused try again, and the operator knows the reason by then. */
#define REFUSAL_LOGGED_NS (60 * SML_SECOND_NS)

/* Rank 0's process tells its user itself how its job ended. */
static bool is_quiet(const struct sml_jobs *jobs)
{
	return jobs->operations->ranks_have_slots && jobs->config.debug < SML_LOG_INFO;
}

bool sml_log_room_take(struct sml_log_room *room, uint32_t n_most, uint64_t now_ns,
		       char more[SML_LOG_MORE_BYTES])
{
	uint64_t n_freed = (now_ns - room->at_ns) / LOG_ROOM_NS;

	if (n_freed >= room->n_used) {
		room->n_used = 0;
		room->at_ns = now_ns;
	} else {
		room->n_used -= (uint32_t)n_freed;
		room->at_ns += n_freed * LOG_ROOM_NS;
	}
	if (room->n_used == n_most) {
		room->n_counted++;
		return false;
	}
	room->n_used++;
	more[0] = '\0';
	if (room->n_counted > 0)
		snprintf(more, SML_LOG_MORE_BYTES, " (%u more before)", room->n_counted);
	room->n_counted = 0;
	return true;
}

static void log_where_room(struct sml_jobs *jobs, struct sml_log_room *room, uint32_t n_most,
			   enum sml_jobs_level level, const char *line)
{
	char more[SML_LOG_MORE_BYTES];

	if (sml_log_room_take(room, n_most, jobs->now_ns, more))
		sml_jobs_log(jobs, level, "%s%s", line, more);
}

void sml_jobs_log_end(struct sml_jobs *jobs, const char *job, const char *how, bool planned)
{
	char line[2 * SML_SENTENCE_BYTES];

	if (is_quiet(jobs))
		return;
	snprintf(line, sizeof(line), "job \"%s\" %s", job, how);
	log_where_room(jobs, &jobs->failures, FAILURES_LOGGED,
		       planned ? SML_JOBS_INFO : SML_JOBS_WARNING, line);
}

void sml_jobs_log_refusal(struct sml_jobs *jobs, const SmlControl__Join *join, const char *why)
{
	char line[2 * SML_SENTENCE_BYTES];

	if (is_quiet(jobs) || (strcmp(jobs->refusal, why) == 0 &&
			       jobs->now_ns - jobs->refused_ns < REFUSAL_LOGGED_NS))
		return;
	snprintf(jobs->refusal, sizeof(jobs->refusal), "%s", why);
	jobs->refused_ns = jobs->now_ns;
	snprintf(line, sizeof(line), "rank %u (host %.64s, pid %u) may not join job \"%.*s\": %s",
		 join->rank, join->host, join->pid, SML_NAME_BYTES - 1, join->job, why);
	log_where_room(jobs, &jobs->refusals, SML_REFUSALS_LOGGED, SML_JOBS_WARNING, line);
}

void sml_leaf_send_failure(const struct sml_jobs *jobs, uint32_t number, int error,
			   const char *text, bool again)
{
	if (jobs->leaf.up.peer != NULL)
		send_failure(jobs, jobs->leaf.up.peer, number, error, text, again);
}

/* ---- when a peer was last heard, and what that proves ---- */

/* More than what was sent before arrives within. A rank sends four messages in a heartbeat. */
#define MOST_PROOF_NS (SML_SECOND_NS / 2)
/* Without ranks, nothing depends on another switch. */
#define PATIENCE_NS (10 * SML_SECOND_NS)

void sml_peer_heard(struct sml_peer *peer, uint64_t now_ns)
{
	peer->heard_ns = now_ns;
	if (peer->missed_ns == 0)
		return;
	if (peer->again_ns == 0)
		peer->again_ns = now_ns;
	else if (now_ns - peer->again_ns >= peer->proof_ns)
		peer->missed_ns = 0;
}

uint64_t sml_link_silence_ns(const struct sml_switch_link *link)
{
	uint32_t least_ms = UINT32_MAX;

	for (uint32_t i = 0; i < link->ranks.room; i++) {
		const struct sml_numbered *rank = sml_table_at(&link->ranks, i);

		/* One whose job has failed may be silent. */
		if (rank != NULL && rank->peer->heartbeat_ms != 0 && rank->peer->survived == 0)
			least_ms = sml_least(least_ms, rank->peer->heartbeat_ms);
	}
	return least_ms != UINT32_MAX ? least_ms * 500000ull : PATIENCE_NS;
}

uint64_t sml_link_silence_ends(const struct sml_switch_link *link)
{
	return sml_later(link->peer->heard_ns, link->serves_ns) + sml_link_silence_ns(link);
}

void sml_peer_shift(struct sml_peer *peer, const struct sml_jobs *jobs, uint64_t away_ns)
{
	peer->heard_ns += away_ns;
	if (peer->heard_ns > jobs->now_ns)
		peer->heard_ns = jobs->now_ns;
}

void sml_peer_doubt(struct sml_peer *peer, uint32_t heartbeat_ms, uint64_t away_ns)
{
	if (away_ns < heartbeat_ms * 500000ull)
		return;
	peer->missed_ns = away_ns;
	peer->again_ns = 0;
	peer->proof_ns = heartbeat_ms * 125000ull;
	if (peer->proof_ns > MOST_PROOF_NS)
		peer->proof_ns = MOST_PROOF_NS;
}
