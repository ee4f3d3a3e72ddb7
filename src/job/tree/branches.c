/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The leaves of this switch, and the ranks behind them. Each such rank is a peer like any other; it
 * only has no connection of its own (job/peer/peer.c).
 */
#include "job/tree/branches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "control/scan.h"
#include "control/stream.h"
#include "control/text.h"
#include "job/join/join.h"
#include "job/states/states.h"

/* Each rank that a leaf announces gets an answer. At most this many unread answers may wait. */
#define MAX_UNREAD 1024
/* Anyone can come as a leaf and go again: at most this many are logged in one second. */
#define MAX_LOGGED 16

/* ---- a leaf introduces itself ---- */

static const char *objection(const struct sml_jobs *jobs, const SmlControl__Leaf *leaf, char *text,
			     size_t bytes)
{
	if (leaf->protocol != SML_CONTROL_PROTOCOL)
		snprintf(text, bytes,
			 "the leaf speaks version %u of the control protocol, this switch (%s) "
			 "version %u: install the same release on both",
			 leaf->protocol, SML_VERSION_STRING, (unsigned)SML_CONTROL_PROTOCOL);
	else if (strlen(leaf->name) == 0 || strlen(leaf->name) >= SML_NAME_BYTES ||
		 !sml_text_is_clean(leaf->name))
		snprintf(text, bytes, "a leaf's name must have 1 to %d printable bytes",
			 SML_NAME_BYTES - 1);
	else if (jobs->operations->ranks_have_slots)
		snprintf(text, bytes,
			 "this is rank 0 of a job whose ranks embed the switch: a leaf's parent "
			 "must be `switchml switch`");
	else if (jobs->operations->fixed_lanes != NULL)
		snprintf(text, bytes,
			 "a switch with the %s dataplane cannot have leaves: connect the leaf to "
			 "one with udp or xdp",
			 jobs->operations->name);
	else if (sml_jobs_is_leaf(jobs) && jobs->leaf.level == 0)
		snprintf(text, bytes,
			 "this switch (%s) is a leaf itself, and its parent %s has not accepted "
			 "it yet",
			 jobs->config.name, jobs->config.parent);
	else if (sml_jobs_is_leaf(jobs) && jobs->leaf.level >= SML_MAX_LEVEL)
		snprintf(text, bytes,
			 "there would be more than %d levels of switches: connect the leaf to %s",
			 SML_MAX_LEVEL + 1, jobs->config.parent);
	else
		return NULL;
	return text;
}

static bool is_full(const struct sml_jobs *jobs, char *text, size_t bytes)
{
	unsigned n = 0;

	for (const struct sml_branch *branch = jobs->branches; branch != NULL;
	     branch = branch->next)
		n++;
	snprintf(text, bytes, "the switch %s is at its limit of %d leaves: use another parent",
		 jobs->config.name, SML_MAX_LEAVES);
	return n >= SML_MAX_LEAVES;
}

static bool may_be_logged(struct sml_jobs *jobs)
{
	if (jobs->now_ns - jobs->leaves_logged_ns >= SML_SECOND_NS) {
		jobs->leaves_logged_ns = jobs->now_ns;
		jobs->n_leaves_logged = 0;
	}
	return jobs->n_leaves_logged++ < MAX_LOGGED;
}

static struct sml_branch *open_branch(struct sml_jobs *jobs, struct sml_peer *peer,
				      const SmlControl__Leaf *leaf)
{
	struct sml_branch *branch = calloc(1, sizeof(*branch));

	if (branch == NULL)
		return NULL;
	branch->jobs = jobs;
	branch->link.peer = peer;
	branch->next = jobs->branches;
	jobs->branches = branch;
	peer->branch = branch;
	jobs->n_members++;
	sml_text_copy(branch->name, sizeof(branch->name), leaf->name);
	branch->is_logged = may_be_logged(jobs);
	if (branch->is_logged)
		sml_jobs_log(jobs, SML_JOBS_INFO, "the leaf %s is attached", branch->name);
	return branch;
}

/* While the leaf did not run, it heard its ranks as little as this switch did. */
static void shift_ranks(const struct sml_branch *branch, uint64_t away_ns)
{
	for (uint32_t i = 0; i < branch->link.ranks.room; i++) {
		const struct sml_numbered *rank = sml_table_at(&branch->link.ranks, i);

		if (rank != NULL)
			sml_peer_shift(rank->peer, branch->jobs, away_ns);
	}
}

void sml_branch_message(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Leaf *leaf)
{
	SmlControl__Attached attached = SML_CONTROL__ATTACHED__INIT;
	char text[SML_SENTENCE_BYTES];
	bool is_new = peer->branch == NULL;

	if (objection(jobs, leaf, text, sizeof(text)) != NULL) {
		/* It may have been a leaf so far. */
		if (peer->branch != NULL)
			sml_branch_lost(peer->branch, text);
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, text);
		return;
	}
	if (is_new && is_full(jobs, text, sizeof(text)) && !sml_branches_close_idle(jobs)) {
		sml_peer_refuse_for_now(jobs, peer, text);
		return;
	}
	if (is_new && !sml_jobs_has_room_for_member(jobs, peer, NULL))
		return;
	if (is_new && open_branch(jobs, peer, leaf) == NULL) {
		sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
		return;
	}
	peer->branch->slots = leaf->slots;
	shift_ranks(peer->branch, leaf->away_ms * 1000000ull);
	attached.level = jobs->leaf.level + 1;
	if (is_new)
		(void)sml_peer_send(jobs, peer, sml_envelope(ATTACHED, attached, &attached));
}

/* ---- messages of ranks behind it ---- */

void sml_rank_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, bool leaf_died)
{
	if (peer->proxied != NULL)
		sml_proxied_lost(jobs, peer, why, leaf_died);
	else if (peer->job != NULL && leaf_died && !sml_job_gathers(peer->job))
		sml_job_disband(peer->job, why);
	else if (peer->job != NULL)
		sml_job_lost(peer, why, leaf_died);
	else if (peer->applicant != NULL)
		sml_applicant_lost(jobs, peer, leaf_died || sml_peer_is_doubted(peer));
	else if (leaf_died)
		sml_survivor_goes_on(jobs, peer);
	else if (peer->survived != 0)
		sml_decide_without(jobs, peer);
}

static void lose(struct sml_remote *remote, const char *why, bool leaf_died)
{
	sml_rank_lost(remote->peer.via->jobs, &remote->peer, why, leaf_died);
	sml_remote_retire(remote);
}

void sml_remote_drop(struct sml_remote *remote, const char *why)
{
	struct sml_branch *branch = remote->peer.via;

	lose(remote, why, false);
	sml_branch_send_end(branch, remote->key.number);
}

static struct sml_remote *open_relayed(struct sml_branch *branch, const SmlControl__Relay *in)
{
	struct sml_remote *remote = calloc(1, sizeof(*remote));

	if (remote == NULL)
		return NULL;
	remote->key.number = in->peer;
	remote->key.peer = &remote->peer;
	remote->peer.via = branch;
	remote->slots = in->slots;
	remote->lanes = in->lanes;
	remote->home = in->home;
	remote->only_integers = in->only_integers;
	if (branch->link.ranks.n == 0)
		branch->link.serves_ns = branch->jobs->now_ns;
	sml_text_copy(remote->at, sizeof(remote->at), in->leaf);
	if (sml_table_put(&branch->link.ranks, &remote->key))
		return remote;
	free(remote);
	return NULL;
}

static bool is_join(const SmlControl__Relay *in)
{
	return in->message.len > 0 &&
	       sml_scan_body(in->message.data, in->message.len) == SML_CONTROL__ENVELOPE__BODY_JOIN;
}

/* A new rank. False: it reads no answers, and they must not fill memory. */
static bool reads_answers(struct sml_branch *branch)
{
	branch->n_unread =
		sml_peer_listens(branch->jobs, branch->link.peer) ? 0 : branch->n_unread + 1;
	return branch->n_unread <= MAX_UNREAD;
}

struct sml_remote *sml_branch_relay(struct sml_branch *branch, const SmlControl__Relay *in)
{
	struct sml_remote *remote =
		(struct sml_remote *)sml_table_find(&branch->link.ranks, in->peer);
	char why[SML_REASON_BYTES];

	if (in->over) {
		sml_text_copy(why, sizeof(why), in->why);
		if (remote != NULL)
			lose(remote, why, in->leaf_died);
		return NULL;
	}
	/* Everything but a Join is late: it has ended here. */
	if (remote == NULL && !is_join(in))
		return NULL;
	if (remote == NULL && !reads_answers(branch)) {
		sml_branch_close(branch, "it does not read what it is sent");
		return NULL;
	}
	if (remote == NULL)
		remote = open_relayed(branch, in);
	if (remote == NULL)
		sml_branch_send_end(branch, in->peer);
	return remote;
}

/* ---- its end ---- */

static void unlist(struct sml_branch *branch)
{
	struct sml_branch **at = &branch->jobs->branches;

	while (*at != branch)
		at = &(*at)->next;
	*at = branch->next;
}

/* It is about to go. Jobs whose ranks there have left or died before it still have slots there. */
static void forget(const struct sml_branch *branch, const char *why)
{
	struct sml_jobs *jobs = branch->jobs;

	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (sml_job_has_begun(job) && sml_job_pool_forget(job, branch) &&
		    !sml_jobs_is_leaf(jobs))
			sml_job_disband(job, why);
}

void sml_branch_lost(struct sml_branch *branch, const char *why)
{
	struct sml_jobs *jobs = branch->jobs;
	char text[SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text), "the leaf %s is gone: %s", branch->name, why);
	if (branch->is_logged)
		sml_jobs_log(jobs, SML_JOBS_WARNING, "%s", text);
	jobs->n_members--;
	branch->link.peer->branch = NULL;
	branch->link.peer = NULL;
	for (uint32_t i = 0; i < branch->link.ranks.room; i++)
		if (sml_table_at(&branch->link.ranks, i) != NULL)
			lose((struct sml_remote *)sml_table_at(&branch->link.ranks, i), text, true);
	forget(branch, text);
	unlist(branch);
	sml_table_fini(&branch->link.ranks);
	/* Ranks that have ended refer to it. */
	sml_branches_sweep(jobs);
	free(branch);
}

void sml_branch_close(struct sml_branch *branch, const char *why)
{
	struct sml_peer *peer = branch->link.peer;
	struct sml_jobs *jobs = branch->jobs;

	sml_branch_lost(branch, why);
	sml_peer_end(jobs, peer);
}

/*
 * The branches are in the order in which they came, the newest first. A leaf whose ranks have all
 * left, or died, may still have slots that a job's other ranks need.
 */
static struct sml_branch *find_idle_leaf(const struct sml_jobs *jobs)
{
	struct sml_branch *found = NULL;

	for (struct sml_branch *branch = jobs->branches; branch != NULL; branch = branch->next)
		if (branch->link.ranks.n == 0 && branch->slots_in_use == 0)
			found = branch;
	return found;
}

bool sml_branches_close_idle(struct sml_jobs *jobs)
{
	struct sml_branch *branch = find_idle_leaf(jobs);

	if (branch == NULL)
		return false;
	jobs->n_evicted++;
	sml_branch_close(branch, "it had no ranks, and made room for others");
	return true;
}

/* ---- time ---- */

uint64_t sml_branches_deadline(const struct sml_jobs *jobs)
{
	uint64_t first_ns = UINT64_MAX;

	for (const struct sml_branch *branch = jobs->branches; branch != NULL;
	     branch = branch->next)
		first_ns = sml_earlier(first_ns, sml_link_silence_ends(&branch->link));
	return first_ns;
}

void sml_branches_tick(struct sml_jobs *jobs)
{
	struct sml_branch *branch, *next;
	char why[SML_SENTENCE_BYTES];

	for (branch = jobs->branches; branch != NULL; branch = next) {
		next = branch->next;
		if (jobs->now_ns < sml_link_silence_ends(&branch->link))
			continue;
		snprintf(why, sizeof(why), "it was silent for %.1f s (frozen, or its link is down)",
			 (double)(jobs->now_ns - branch->link.peer->heard_ns) / 1e9);
		sml_branch_close(branch, why);
	}
}

/*
 * ---- what the leaves of a job say ----
 *
 * At a root, that concerns the job itself; at a leaf with leaves of its own, it goes on to the
 * parent. What job/members/pool.c knows is the same at both.
 */

static void on_ready(struct sml_job *job, struct sml_child *child, const SmlControl__Ready *in)
{
	struct sml_job_pool *pool = &job->pool;
	const char *why;

	if (job->state >= SML_JOB_RUNNING || child->ready)
		return;
	why = sml_job_pool_misses_address(job, (unsigned)(child - pool->children));
	if (why == NULL && (in->lanes < SML_MIN_LANES || in->lanes > pool->rules.lanes))
		why = "is ready with impossible packets";
	if (why != NULL) {
		sml_job_fail(job, SML_ERROR_PROTOCOL, "the leaf %s %s", child->branch->name, why);
		return;
	}
	child->lanes = in->lanes;
	child->ready = true;
	pool->n_leaves_ready++;
	sml_job_check_ready(job);
}

static void on_failed(struct sml_job *job, const struct sml_child *child,
		      const SmlControl__Abort *in)
{
	char text[SML_SENTENCE_BYTES], reason[SML_REASON_BYTES];

	sml_text_copy(reason, sizeof(reason), in->text);
	snprintf(text, sizeof(text), "%s leaf %s: %s", sml_jobs_is_leaf(job->jobs) ? "its" : "the",
		 child->branch->name, reason);
	/* No rank has begun here. */
	if (job->resume.runs && job->state <= SML_JOB_PROBING) {
		sml_job_disband(job, text);
		return;
	}
	job->end.lacks_room = in->again;
	sml_job_fail(job, in->error < 0 ? in->error : SML_ERROR_PROTOCOL, "%s", text);
}

/* It speaks only for its own ranks. */
static void on_mismatch(struct sml_job *job, const struct sml_child *child,
			const SmlControl__Mismatch *in)
{
	struct sml_mismatch mismatch = {
		.job = job->pool.rules.job,
		.slot = (uint16_t)in->slot,
		.use = in->use,
		.chunk = in->chunk,
	};

	if (in->n_ranks != 2)
		return;
	for (unsigned i = 0; i < 2; i++) {
		if (in->ranks[i] >= job->n_ranks || !sml_ranks_has(&child->ranks, in->ranks[i]))
			return;
		mismatch.ranks[i] = (uint16_t)in->ranks[i];
	}
	sml_job_mismatch(job, &mismatch);
}

void sml_leaves_message(struct sml_jobs *jobs, const struct sml_branch *branch,
			const SmlControl__Envelope *message)
{
	struct sml_job *job = sml_job_find(jobs, message->job);
	struct sml_child *child = job != NULL ? sml_job_pool_leaf(job, branch) : NULL;

	if (child == NULL)
		return;
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_READY:
		on_ready(job, child, message->ready);
		break;
	case SML_CONTROL__ENVELOPE__BODY_ABORT:
		on_failed(job, child, message->abort);
		break;
	case SML_CONTROL__ENVELOPE__BODY_MISMATCH:
		on_mismatch(job, child, message->mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
		sml_job_pool_note_answer(job, child, message->stall_report);
		sml_job_look_for_answers(job);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RENEW:
		for (uint8_t shard = 0; shard < job->pool.rules.n_shards; shard++)
			sml_job_pool_renew(job, (unsigned)(child - job->pool.children), shard,
					   message->renew->number);
		break;
	default:
		break;
	}
}
