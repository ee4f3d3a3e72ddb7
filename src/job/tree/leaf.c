/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A leaf and its parent. The leaf passes its ranks' messages on to its parent, and the root's
 * messages back to them. So the root knows each rank, and decides what becomes of jobs. See
 * branches.h.
 *
 *	not connected --sml_jobs_attach()--> connected --Attached--> attached
 *	      ^                                                          |
 *	      +---- the connection ends: all its ranks' connections end -+
 *
 * The invariant: a proxied peer exists while the parent knows its rank. Without a parent, there are
 * no proxied peers and no jobs.
 */
#include "job/tree/branches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "control/stream.h"
#include "control/text.h"
#include "job/join/join.h"
#include "job/states/states.h"

#define PING_NS SML_SECOND_NS

/* ---- to the parent ---- */

static void relay_end(struct sml_jobs *jobs, const struct sml_proxied *proxied, const char *why,
		      bool leaf_died)
{
	SmlControl__Relay relay = SML_CONTROL__RELAY__INIT;

	relay.peer = proxied->key.number;
	relay.over = true;
	relay.why = (char *)(uintptr_t)why;
	relay.leaf_died = leaf_died;
	(void)sml_link_send(jobs, &jobs->leaf.up, sml_envelope(RELAY, relay, &relay));
}

/*
 * What the switches on the rank's way have, this one and those below. They count only for the jobs
 * of that rank, so it does not matter what other leaves say.
 */
static void describe_way(const struct sml_jobs *jobs, const struct sml_peer *peer,
			 SmlControl__Relay *relay)
{
	uint32_t most = jobs->operations->max_lanes;

	relay->slots = jobs->config.max_slots;
	relay->lanes = most != 0 ? sml_least(most, jobs->leaf.lanes) : jobs->leaf.lanes;
	relay->leaf = (char *)(uintptr_t)jobs->config.name;
	relay->home = jobs->leaf.home;
	relay->only_integers = !jobs->operations->floats;
	if (peer->via == NULL)
		return;
	relay->only_integers |= sml_remote_of(peer)->only_integers;
	relay->slots = sml_least(relay->slots, sml_remote_slots(sml_remote_of(peer)));
	relay->lanes = sml_least(relay->lanes, sml_remote_of(peer)->lanes);
	relay->leaf = sml_remote_of(peer)->at;
	relay->home = sml_remote_of(peer)->home;
}

/* 0, or it cannot be sent. */
static int relay_up(struct sml_jobs *jobs, const struct sml_proxied *proxied,
		    const SmlControl__Envelope *message)
{
	SmlControl__Relay relay = SML_CONTROL__RELAY__INIT;

	relay.peer = proxied->key.number;
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN)
		describe_way(jobs, proxied->key.peer, &relay);
	return sml_link_relay(jobs, &jobs->leaf.up, &relay, message);
}

/* ---- proxied peers ---- */

static void close_proxied(struct sml_jobs *jobs, struct sml_peer *peer)
{
	if (peer->job != NULL)
		(void)sml_job_release(peer->job, peer->rank);
	sml_table_remove(&jobs->leaf.up.ranks, &peer->proxied->key);
	jobs->n_members -= peer->via == NULL;
	free(peer->proxied);
	peer->proxied = NULL;
	peer->missed_ns = 0;
}

void sml_proxied_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, bool leaf_died)
{
	char text[SML_SENTENCE_BYTES];

	if (peer->proxied == NULL)
		return;
	leaf_died |= sml_peer_is_doubted(peer);
	if (sml_peer_is_doubted(peer))
		snprintf(text, sizeof(text),
			 "the leaf %s did not run for %.1f s, and rank %u has given it up: %s",
			 jobs->config.name, (double)peer->missed_ns / 1e9, peer->rank, why);
	else if (peer->via == NULL)
		snprintf(text, sizeof(text), "%s, at the leaf %s", why, jobs->config.name);
	else
		snprintf(text, sizeof(text), "%s", why);
	/* For the other ranks' errors, which come of it. */
	if (peer->job != NULL && peer->job->state >= SML_JOB_RUNNING)
		sml_job_query_leaves(peer->job);
	relay_end(jobs, peer->proxied, text, leaf_died);
	close_proxied(jobs, peer);
}

/* The one that came first, of those whose connections end here. */
static struct sml_proxied *find_waiting(const struct sml_table *proxied_peers)
{
	struct sml_proxied *found = NULL;

	for (uint32_t i = 0; i < proxied_peers->room; i++) {
		struct sml_proxied *proxied = (struct sml_proxied *)sml_table_at(proxied_peers, i);

		if (proxied == NULL || proxied->key.peer->job != NULL || proxied->resumes ||
		    proxied->key.peer->via != NULL)
			continue;
		if (found == NULL || proxied->key.number < found->key.number)
			found = proxied;
	}
	return found;
}

static bool displace_stranger(struct sml_jobs *jobs)
{
	struct sml_proxied *proxied = find_waiting(&jobs->leaf.up.ranks);
	struct sml_peer *peer = proxied != NULL ? proxied->key.peer : NULL;

	if (proxied == NULL)
		return false;
	/* It lives, as a rank does whose leaf has died. */
	sml_proxied_lost(jobs, peer, "it made room for a job that has lost its switch", true);
	sml_peer_refuse_for_now(jobs, peer,
				"a job that has lost its switch continues here, and there is no "
				"room for both: start this job again, or raise the switch's limit "
				"of open files");
	return true;
}

static struct sml_proxied *open_proxied(struct sml_jobs *jobs, struct sml_peer *peer,
					const SmlControl__Join *join)
{
	struct sml_proxied *proxied = calloc(1, sizeof(*proxied));

	if (proxied == NULL)
		return NULL;
	proxied->key.peer = peer;
	proxied->resumes = sml_join_resumes(join);
	proxied->pid = join->pid;
	proxied->stripe = join->stripe;
	proxied->stripes = join->stripes;
	sml_text_copy(proxied->host, sizeof(proxied->host), join->host);
	if (jobs->leaf.up.ranks.n == 0)
		jobs->leaf.up.serves_ns = jobs->now_ns;
	if (sml_table_add(&jobs->leaf.up.ranks, &proxied->key)) {
		peer->proxied = proxied;
		peer->rank = (uint16_t)join->rank;
		jobs->n_members += peer->via == NULL;
		return proxied;
	}
	free(proxied);
	return NULL;
}

static void refuse_orphan(struct sml_jobs *jobs, struct sml_peer *peer,
			  const SmlControl__Join *join)
{
	const struct sml_leaf *leaf = &jobs->leaf;
	char text[2 * SML_SENTENCE_BYTES];

	if (leaf->why[0] != '\0')
		snprintf(text, sizeof(text), "the switch %s is a leaf, and its parent %s: %s",
			 jobs->config.name, jobs->config.parent, leaf->why);
	else
		snprintf(text, sizeof(text),
			 "the switch %s is a leaf, and has no connection to its parent %s: start "
			 "that switch, or see this one's log",
			 jobs->config.name, jobs->config.parent);
	sml_jobs_log_refusal(jobs, join, text);
	sml_peer_refuse(jobs, peer, SML_ERROR_UNREACHABLE, text);
}

static void join_rank(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message)
{
	struct sml_proxied *proxied;

	if (peer->proxied != NULL)
		return;
	if (jobs->leaf.level == 0) {
		refuse_orphan(jobs, peer, message->join);
		return;
	}
	if (!sml_jobs_has_room_for_member(jobs, peer, message->join))
		return;
	proxied = open_proxied(jobs, peer, message->join);
	if (proxied == NULL) {
		sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
		return;
	}
	if (relay_up(jobs, proxied, message) == 0)
		return;
	close_proxied(jobs, peer);
	sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
}

void sml_leaf_message(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message)
{
	struct sml_proxied *proxied = peer->proxied;

	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN) {
		join_rank(jobs, peer, message);
		return;
	}
	if (proxied == NULL)
		return;
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_RENEW) {
		if (peer->job != NULL)
			sml_job_message(peer, message);
		return;
	}
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_READY && peer->job != NULL &&
	    !sml_job_knows_path(peer->job, peer->rank, message->ready))
		return;
	if (relay_up(jobs, proxied, message) == 0)
		return;
	sml_proxied_lost(jobs, peer, "no memory for a message", true);
	sml_peer_end(jobs, peer);
}

/* ---- from the parent ---- */

static void pass_down(struct sml_jobs *jobs, struct sml_proxied *proxied,
		      SmlControl__Envelope *message)
{
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ADMITTED &&
	    proxied->key.peer->job != NULL)
		sml_parent_admit(proxied->key.peer, message->admitted);
	(void)sml_peer_send(jobs, proxied->key.peer, message);
}

static void on_relay(struct sml_jobs *jobs, const SmlControl__Relay *in)
{
	struct sml_proxied *proxied =
		(struct sml_proxied *)sml_table_find(&jobs->leaf.up.ranks, in->peer);
	SmlControl__Envelope *message;
	struct sml_peer *peer;

	/* It may have ended here in the meantime. */
	if (proxied == NULL)
		return;
	peer = proxied->key.peer;
	if (in->over) {
		close_proxied(jobs, peer);
		sml_peer_end(jobs, peer);
	} else if (sml_frame_unpack(in->message.data, in->message.len, &message) > 0) {
		pass_down(jobs, proxied, message);
		sml_control__envelope__free_unpacked(message, NULL);
	}
}

static void on_attached(struct sml_jobs *jobs, const SmlControl__Attached *in)
{
	struct sml_leaf *leaf = &jobs->leaf;

	if (leaf->level != 0 || in->level == 0 || in->level > SML_MAX_LEVEL)
		return;
	leaf->level = in->level;
	leaf->why[0] = '\0';
	sml_jobs_log(jobs, SML_JOBS_INFO, "attached to the parent %s: a leaf at level %u",
		     jobs->config.parent, leaf->level);
}

/* It refuses this leaf. */
static void on_abort(struct sml_jobs *jobs, const SmlControl__Abort *in)
{
	char why[SML_REASON_BYTES];

	sml_text_copy(why, sizeof(why), in->text);
	if (strcmp(why, jobs->leaf.why) != 0)
		sml_jobs_log(jobs, SML_JOBS_WARNING, "the parent %s refuses this leaf: %s",
			     jobs->config.parent, why);
	snprintf(jobs->leaf.why, sizeof(jobs->leaf.why), "%s", why);
}

/* The leaf's own, as if it were a rank of the job. */
static void take_jobs(struct sml_jobs *jobs, const SmlControl__Envelope *message)
{
	struct sml_job *job = sml_job_find(jobs, message->job);

	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ADMITTED)
		sml_parent_begin(jobs, message->admitted);
	else if (job == NULL)
		return;
	else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_START)
		sml_parent_start(job);
	else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST)
		sml_job_query_leaves(job);
	else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT)
		sml_job_end_at_leaf(job, message->abort->text, message->abort->planned);
}

void sml_leaf_parent_message(struct sml_jobs *jobs, const SmlControl__Envelope *message)
{
	if (message->job != 0) {
		take_jobs(jobs, message);
		return;
	}
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_ATTACHED:
		on_attached(jobs, message->attached);
		break;
	case SML_CONTROL__ENVELOPE__BODY_ABORT:
		on_abort(jobs, message->abort);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RELAY:
		on_relay(jobs, message->relay);
		break;
	default:
		break;
	}
}

/* ---- the connection ---- */

static void advertise_leaf(const struct sml_jobs *jobs, uint64_t away_ns)
{
	SmlControl__Leaf message = SML_CONTROL__LEAF__INIT;

	message.protocol = SML_CONTROL_PROTOCOL;
	message.version = (char *)(uintptr_t)SML_VERSION_STRING;
	message.name = (char *)(uintptr_t)jobs->config.name;
	message.slots = jobs->config.max_slots;
	message.away_ms = (uint32_t)sml_earlier(away_ns / 1000000u, UINT32_MAX);
	(void)sml_link_send(jobs, &jobs->leaf.up, sml_envelope(LEAF, leaf, &message));
}

void sml_leaf_was_away(struct sml_jobs *jobs, uint64_t away_ns)
{
	sml_peer_shift(jobs->leaf.up.peer, jobs, away_ns);
	if (jobs->leaf.level != 0)
		advertise_leaf(jobs, away_ns);
}

void sml_leaf_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes)
{
	struct sml_leaf *leaf = &jobs->leaf;

	sml_assert(sml_jobs_is_leaf(jobs) && leaf->up.peer == NULL);
	leaf->up.peer = peer;
	leaf->lanes = lanes;
	leaf->home = sml_jobs_random(jobs);
	leaf->pinged_ns = peer->heard_ns = jobs->now_ns;
	peer->is_parent = true;
	advertise_leaf(jobs, 0);
}

/* Those whom the parent knows. refusal: NULL if they look for another switch. */
static void end_ranks(struct sml_jobs *jobs, const char *refusal)
{
	const struct sml_table *all = &jobs->leaf.up.ranks;

	for (uint32_t i = 0; i < all->room; i++) {
		struct sml_peer *peer = sml_table_at(all, i) ? sml_table_at(all, i)->peer : NULL;

		if (peer == NULL)
			continue;
		close_proxied(jobs, peer);
		if (refusal != NULL)
			sml_peer_refuse(jobs, peer, SML_ERROR_SWITCH_DIED, refusal);
		else
			sml_peer_end(jobs, peer);
	}
}

static void end_everything(struct sml_jobs *jobs, const char *why)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		sml_job_end_at_leaf(
			job, "looks for its switches again: the parent of a leaf is gone", false);
	/* The leaves of this leaf end their ranks' connections, as this leaf does. */
	while (jobs->branches != NULL)
		sml_branch_close(jobs->branches, why);
	end_ranks(jobs, NULL);
}

void sml_leaf_parent_lost(struct sml_jobs *jobs, const char *why)
{
	struct sml_leaf *leaf = &jobs->leaf;

	if (leaf->level != 0)
		sml_jobs_log(jobs, SML_JOBS_WARNING, "the parent %s is gone: %s",
			     jobs->config.parent, why);
	leaf->up.peer->is_parent = false;
	leaf->up.peer = NULL;
	leaf->level = 0;
	end_everything(jobs, "it is a leaf whose parent is gone");
}

/* ---- time ---- */

/* Several times in the silence that means death. */
static uint64_t ping_ns(const struct sml_leaf *leaf)
{
	return sml_earlier(sml_link_silence_ns(&leaf->up) / 4, PING_NS);
}

uint64_t sml_leaf_deadline(const struct sml_jobs *jobs)
{
	const struct sml_leaf *leaf = &jobs->leaf;
	uint64_t due_ns;

	if (leaf->up.peer == NULL)
		return UINT64_MAX;
	due_ns = sml_earlier(leaf->pinged_ns + ping_ns(leaf), sml_link_silence_ends(&leaf->up));
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		due_ns = sml_earlier(due_ns, sml_parent_deadline(job));
	return due_ns;
}

static void ping(struct sml_jobs *jobs)
{
	SmlControl__Ping message = SML_CONTROL__PING__INIT;

	jobs->leaf.pinged_ns = message.time_ns = jobs->now_ns;
	(void)sml_link_send(jobs, &jobs->leaf.up, sml_envelope(PING, ping, &message));
}

static void give_up_parent(struct sml_jobs *jobs)
{
	struct sml_peer *parent = jobs->leaf.up.peer;
	char why[128];

	snprintf(why, sizeof(why), "it was silent for %.1f s",
		 (double)(jobs->now_ns - parent->heard_ns) / 1e9);
	sml_leaf_parent_lost(jobs, why);
	sml_peer_end(jobs, parent);
}

void sml_leaf_tick(struct sml_jobs *jobs)
{
	struct sml_leaf *leaf = &jobs->leaf;

	if (leaf->up.peer == NULL)
		return;
	if (jobs->now_ns >= sml_link_silence_ends(&leaf->up)) {
		give_up_parent(jobs);
		return;
	}
	if (jobs->now_ns >= leaf->pinged_ns + ping_ns(leaf))
		ping(jobs);
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		sml_parent_tick(job);
}

void sml_leaf_stop(struct sml_jobs *jobs)
{
	struct sml_leaf *leaf = &jobs->leaf;

	end_ranks(jobs, "the switch was stopped");
	if (leaf->up.peer != NULL) {
		leaf->up.peer->is_parent = false;
		sml_peer_end(jobs, leaf->up.peer);
		leaf->up.peer = NULL;
		leaf->level = 0;
	}
	sml_table_fini(&leaf->up.ranks);
}

const struct sml_tree_events sml_tree_events = {
	.displace = displace_stranger,
	.close_idle = sml_branches_close_idle,
};
