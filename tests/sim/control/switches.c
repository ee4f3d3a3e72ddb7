/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches: job/switch.h with the simulator's network and clock, and an abstract dataplane. */
#include <string.h>

#include "job/members/job.h"
#include "sim/control/internal.h"

/* The mark of such an end: no address has this many bytes. */
#define UPLINK	      255
#define UP_PAUSE_NS   (200 * MS)
#define UP_CONNECT_NS (3 * SECOND)

/* ---- what the jobs ask for ---- */

/*
 * A peer is the first member of its link, or a leaf's end of a connection, which says so by its
 * address.
 */
static struct link *link_of(const struct sml_peer *peer)
{
	return (struct link *)(uintptr_t)peer;
}

static struct server *leaf_of(const struct sml_peer *peer)
{
	return (struct server *)((uintptr_t)peer - offsetof(struct server, uplink));
}

static bool is_uplink(const struct sml_peer *peer)
{
	return peer->address_bytes == UPLINK;
}

/* A switch may die between two of its last messages, or between two that start the job. */
static bool dies_first(struct server *server, const SmlControl__Envelope *message)
{
	/* What a leaf gets for itself is not for a rank. */
	uint32_t *left =
		message->job != 0					  ? NULL
		: message->body_case == SML_CONTROL__ENVELOPE__BODY_LEFT  ? &server->last_words
		: message->body_case == SML_CONTROL__ENVELOPE__BODY_START ? &server->last_starts
									  : NULL;

	if (left == NULL || *left == NEVER_32)
		return false;
	if (*left > 0) {
		--*left;
		return false;
	}
	server->last_starts = NEVER_32;
	server->dies_ns = server->control->now_ns;
	return true;
}

static int send_out(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	struct link *link = link_of(peer);
	struct server *server;

	if (is_uplink(peer)) {
		if (leaf_of(peer)->up)
			sim_send(leaf_of(peer)->up, true, message);
		return 0;
	}
	server = &link->control->servers[link->sw];
	if (link->rival) {
		sim_rival_receives(link->rival, message);
		return 0;
	}
	/* A leaf has this from the root, and passes it on later. */
	if (server->parent == NULL && message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT &&
	    message->abort->again)
		sim_pool_check_refusal(server);
	if (message->job == 0 && message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT)
		sim_judged_failure(server, link, message->abort->text);
	if (!dies_first(server, message))
		sim_send(link, false, message);
	return 0;
}

static void sim_uplink_end(struct server *leaf)
{
	if (leaf->up)
		sim_end(leaf->up, false);
	leaf->up = NULL;
	leaf->up_again_ns = leaf->control->now_ns + UP_PAUSE_NS;
}

static void end(struct sml_peer *peer)
{
	struct link *link = link_of(peer);

	if (is_uplink(peer))
		sim_uplink_end(leaf_of(peer));
	else if (link->rival)
		link->rival->refused = true;
	else
		sim_end(link, true);
}

static bool listens(const struct sml_peer *peer)
{
	(void)peer;
	return true;
}

static uint64_t draw(void *context)
{
	return gen_u64(&((struct server *)context)->control->gen);
}

static void log_line(void *context, enum sml_jobs_level level, const char *line)
{
	struct server *server = context;

	(void)level;
	sim_say(server->control, "switch %u: %s", server->index, line);
}

static const struct sml_jobs_output output = {send_out, end, listens, draw, log_line};

/* ---- the dataplane ---- */

static struct server *server_of(struct sml_dataplane *dataplane)
{
	return (struct server *)(void *)dataplane;
}

static bool is_rivals(const struct server *server, uint32_t number)
{
	const struct sml_job *job = server->jobs.jobs[number % SML_MAX_JOBS];

	if (server->parent)
		return false;
	return strcmp(job->name, JOB_NAME) != 0;
}

/* Its parent answers it after a while. */
static void begin_proof(struct server *server, const struct sml_pool_rules *rules)
{
	server->lanes = rules->lanes;
	server->proved_ns = server->control->now_ns + gen_below(&server->control->gen, 300) * MS;
}

static int add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct server *server = server_of(dataplane);

	if (!server->control->embedded && !server->control->has_tree)
		sim_pool_check_share(server, rules);
	if (server->paths) {
		sim_elastic_add_job(server, rules);
		if (server->parent)
			begin_proof(server, rules);
		return 0;
	}
	if (is_rivals(server, rules->job))
		return 0;
	server->job_number = rules->job;
	server->job = rules->epoch;
	server->starts = false;
	begin_proof(server, rules);
	return 0;
}

static void forget_contributions(struct server *server)
{
	server->contributed = (struct sml_ranks){{0}};
	server->n_contributed = 0;
}

static int start_job(struct sml_dataplane *dataplane, uint32_t job)
{
	struct server *server = server_of(dataplane);

	if (server->paths)
		sim_elastic_start_job(server, job);
	if (job != server->job_number)
		return 0;
	server->starts = true;
	forget_contributions(server);
	server->chunk = UINT32_MAX;
	return 0;
}

static void remove_job(struct sml_dataplane *dataplane, uint32_t job)
{
	struct server *server = server_of(dataplane);

	if (server->paths)
		sim_elastic_remove_job(server, job);
	if (job == server->job_number)
		server->starts = false;
}

/* Contributions do not count as signs of life here: only the control connection does. */
#define OPERATIONS(lanes)                                                                          \
	{                                                                                          \
		.name = "simulated", .max_lanes = (lanes), .add_job = add_job,                     \
		.start_job = start_job, .remove_job = remove_job,                                  \
	}

static const struct sml_dataplane_operations wide = OPERATIONS(0), narrow = OPERATIONS(128);
/* Probes to the parent are answered after a while. */
static void probe_parent(struct sml_dataplane *dataplane, uint32_t job, uint16_t port,
			 uint16_t lanes, uint32_t renewal)
{
	(void)dataplane;
	(void)job;
	(void)port;
	(void)lanes;
	(void)renewal;
}

static uint16_t parent_lanes(struct sml_dataplane *dataplane, uint32_t job)
{
	const struct server *server = server_of(dataplane);

	(void)job;
	return server->control->now_ns >= server->proved_ns ? server->lanes : 0;
}

static const struct sml_dataplane_operations of_leaf = {
	.name = "simulated",
	.add_job = add_job,
	.start_job = start_job,
	.remove_job = remove_job,
	.probe_parent = probe_parent,
	.parent_lanes = parent_lanes,
};
static const struct sml_dataplane_operations with_ranks = {
	.name = "ranks",
	.ranks_have_slots = true,
	.add_job = add_job,
	.start_job = start_job,
	.remove_job = remove_job,
};

/* ---- its life ---- */

void sim_server_begin(struct server *server)
{
	server->jobs = (struct sml_jobs){
		.config = {.max_slots = server->max_slots,
			   .max_jobs = server->full ? 0 : 4,
			   .heartbeat_ms = LONGEST_MS,
			   .data_port = 28500,
			   .name = "switch",
			   .parent = server->parent ? "parent" : NULL,
			   .debug = server->control->trace ? SML_LOG_INFO : SML_LOG_WARN},
		.output = &output,
		.context = server,
		.operations = server->parent		  ? &of_leaf
			      : server->control->embedded ? &with_ranks
			      : server->narrow		  ? &narrow
							  : &wide,
		.dataplane = (struct sml_dataplane *)(void *)server,
	};
	if (server->control->embedded) {
		server->jobs.config.only_job = JOB_NAME;
		server->jobs.config.only_world_size = server->control->n_ranks;
	}
	sml_jobs_init(&server->jobs, server->control->now_ns);
	server->begun_ns = server->control->now_ns;
	server->alive = true;
	server->starts = false;
	server->life++;
	server->up = NULL;
	server->up_again_ns = server->control->now_ns;
	server->uplink = (struct sml_peer){.address_bytes = UPLINK};
}

void sim_server_dies(struct server *server)
{
	struct control *control = server->control;

	for (uint32_t i = 0; i < control->n_links; i++) {
		struct link *link = &control->links[i];

		if (link->sw != server->index || link->life != server->life || !link->at_switch)
			continue;
		/*
		 * The kernel closes what a process had open. A host that disappears closes
		 * nothing.
		 */
		if (server->freezes) {
			link->at_switch = false;
			link->cut = gen_chance(&control->gen, 1, 2);
		} else {
			sim_end(link, true);
		}
	}
	if (server->up && !server->freezes)
		sim_end(server->up, false);
	server->up = NULL;
	/* Nothing that it sends from now on arrives. */
	sml_jobs_stop(&server->jobs, control->now_ns);
	sim_rivals_die(server);
	server->alive = false;
	server->starts = false;
}

/* ---- what comes ---- */

static bool is_member(const struct server *server, const struct link *link)
{
	if (link->sw != server->index || link->life != server->life || !link->at_switch ||
	    link->child != NULL)
		return false;
	return link->peer.job != NULL;
}

/* If each rank has a stripe, a result needs all ranks to be alive, and it may still get lost. */
static bool is_result_lost(struct control *control)
{
	for (unsigned r = 0; r < control->n_ranks; r++)
		if (control->embedded && control->ranks[r].state == DEAD)
			return true;
	return control->embedded && gen_chance(&control->gen, 1, 4);
}

/* Is it a switch of the job that the root serves? */
static bool serves(const struct server *server, const struct server *root)
{
	for (; server != root; server = server->parent)
		if (!server->parent || !server->alive || !server->starts ||
		    server->job_number != root->job_number)
			return false;
	return root->alive && root->starts;
}

static void send_result(struct server *root, const struct link *only)
{
	struct control *control = root->control;

	for (uint32_t i = 0; i < control->n_links; i++) {
		struct link *link = &control->links[i];
		const struct server *at = &control->servers[link->sw];

		if (serves(at, root) && is_member(at, link) && (only == NULL || only == link) &&
		    !is_result_lost(control))
			sim_send_data(link, false, root->chunk, root->job);
	}
}

static void contribute(struct server *server, const struct event *event)
{
	unsigned all = server->control->n_ranks;
	struct link *link = event->link;

	if (!server->starts || !is_member(server, link) || event->epoch != server->job)
		return;
	/* The sums of leaves are the root's business: one contribution arrives at once. */
	if (server->parent) {
		struct server *leaf = server;

		server = &server->control->servers[0];
		if (!serves(leaf, server))
			return;
	}
	if (server->n_contributed == all && event->chunk == server->chunk) {
		send_result(server, link);
		return;
	}
	if (server->chunk == UINT32_MAX ||
	    (server->n_contributed == all && event->chunk == server->chunk + 1)) {
		server->chunk = event->chunk;
		forget_contributions(server);
	}
	if (event->chunk < server->chunk) {
		/* This call was answered, but the answer may have been lost. */
		if (server->control->embedded && !is_result_lost(server->control))
			sim_send_data(link, false, event->chunk, server->job);
		return;
	}
	if (event->chunk != server->chunk) {
		sim_wrong(server->control, "rank %u sends chunk %u, the others %u", link->rank,
			  event->chunk, server->chunk);
		return;
	}
	if (!sml_ranks_has(&server->contributed, link->rank))
		server->n_contributed++;
	sml_ranks_add(&server->contributed, link->rank);
	if (server->n_contributed == all)
		send_result(server, NULL);
}

static void ends(struct server *server, struct link *link)
{
	link->at_switch = false;
	if (sml_peer_is_member(&link->peer))
		sml_jobs_lost(&server->jobs, &link->peer, "its connection ended",
			      server->control->now_ns);
}

void sim_server_event(struct server *server, const struct event *event,
		      const SmlControl__Envelope *message)
{
	struct control *control = server->control;
	struct link *link = event->link;
	char text[SML_SENTENCE_BYTES];
	const struct sml_head head = {event->bytes, event->n, event->n};

	/* Packets need no connection: what is in them must do. */
	if (link->life != server->life ||
	    (!link->at_switch && !(server->paths && event->kind == EVENT_CONTRIBUTION)))
		return;
	if (event->kind == EVENT_CONTRIBUTION) {
		(server->paths ? sim_elastic_contribute : contribute)(server, event);
	} else if (event->kind == EVENT_END_AT_SWITCH) {
		ends(server, link);
	} else if (sml_jobs_reject(&server->jobs, &link->peer, &head, text, sizeof(text))) {
		sim_wrong(control, "switch %u objects to what rank %u says: %s", server->index,
			  link->rank, text);
	} else {
		sml_jobs_message(&server->jobs, &link->peer, message, control->now_ns);
	}
}

/* ---- a leaf and its parent ---- */

static uint64_t up_due(const struct server *server)
{
	if (!server->parent || server->uplink.is_parent)
		return NEVER;
	return server->up ? server->up_since_ns + UP_CONNECT_NS : server->up_again_ns;
}

static void seek_parent(struct server *leaf)
{
	if (leaf->control->now_ns < up_due(leaf))
		return;
	if (leaf->up) {
		sim_uplink_end(leaf);
		return;
	}
	leaf->up_since_ns = leaf->control->now_ns;
	leaf->up = sim_connect_leaf(leaf);
}

void sim_leaf_event(struct server *leaf, const struct event *event,
		    const SmlControl__Envelope *message)
{
	struct control *control = leaf->control;
	const struct sml_head head = {event->bytes, event->n, event->n};
	char text[SML_SENTENCE_BYTES];

	if (leaf->up != event->link || !leaf->alive || leaf->life != event->link->child_life)
		return;
	if (event->kind == EVENT_CONNECTED) {
		sml_jobs_attach(&leaf->jobs, &leaf->uplink, LANES, control->now_ns);
	} else if (event->kind == EVENT_REFUSED || event->kind == EVENT_END_AT_RANK) {
		sim_uplink_end(leaf);
		if (leaf->uplink.is_parent)
			sml_jobs_lost(&leaf->jobs, &leaf->uplink, "its connection ended",
				      control->now_ns);
	} else if (sml_jobs_reject(&leaf->jobs, &leaf->uplink, &head, text, sizeof(text))) {
		sim_wrong(control, "leaf %u objects to what its parent says: %s", leaf->index,
			  text);
	} else {
		sml_jobs_message(&leaf->jobs, &leaf->uplink, message, control->now_ns);
	}
}

bool sim_server_is_paused(const struct server *server)
{
	uint64_t now_ns = server->control->now_ns;

	return server->alive && now_ns >= server->pauses_ns && now_ns < server->resumes_ns;
}

uint64_t sim_server_deadline(const struct server *server)
{
	uint64_t due_ns = server->returns_ns;

	if (!server->alive)
		return due_ns;
	if (sim_server_is_paused(server))
		return server->resumes_ns;
	due_ns = sml_jobs_deadline(&server->jobs);
	if (sim_rivals_deadline(server) < due_ns)
		due_ns = sim_rivals_deadline(server);
	if (up_due(server) < due_ns)
		due_ns = up_due(server);
	return server->dies_ns < due_ns ? server->dies_ns : due_ns;
}

void sim_server_wake(struct server *server)
{
	struct control *control = server->control;

	if (!server->alive && control->now_ns >= server->returns_ns) {
		server->returns_ns = NEVER;
		sim_server_begin(server);
		sim_say(control, "switch %u is there again", server->index);
	} else if (server->alive && control->now_ns >= server->dies_ns) {
		server->dies_ns = NEVER;
		sim_say(control, "switch %u %s", server->index,
			server->freezes ? "is gone with its host" : "dies");
		sim_server_dies(server);
	} else if (server->alive && !sim_server_is_paused(server)) {
		sml_jobs_tick(&server->jobs, control->now_ns);
		sim_rivals_wake(server);
		seek_parent(server);
	}
}
