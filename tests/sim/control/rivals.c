/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other jobs at a switch: they join, gather, run and leave, and hold slots meanwhile. They
 * have no network and no calls. Their purpose is that the switch sometimes lacks room. This
 * file also checks the pool that several jobs share: a job that gathers keeps no other job
 * out, and each job that begins gets its share.
 */
#include <stdio.h>

#include "control/envelope.h"
#include "job/members/job.h"
#include "sim/control/internal.h"

/* Slots that each job wants, and the fewest that it can use (job/members/slots.c). */
#define WANTED 320u
#define FEWEST 10u
/* Far in the future, so that they never count as silent. */
#define FAR_NS (UINT64_MAX / 4)

void sim_rivals_draw(struct server *server, uint64_t from_ns)
{
	struct gen *gen = &server->control->gen;

	server->max_slots = gen_chance(gen, 1, 2) ? 4096 : gen_range(gen, FEWEST, 1200);
	server->n_rivals = (uint8_t)(gen_chance(gen, 1, 2) ? gen_below(gen, MAX_RIVALS + 1) : 0);
	for (unsigned i = 0; i < server->n_rivals; i++) {
		struct rival *rival = &server->rivals[i];

		*rival = (struct rival){.comes_ns = from_ns + gen_below(gen, 30000) * MS};
		rival->gathered_ns = rival->comes_ns + gen_below(gen, 15000) * MS;
		rival->leaves_ns = rival->comes_ns + gen_below(gen, 20000) * MS;
		for (unsigned r = 0; r < RIVAL_RANKS; r++)
			rival->links[r] = (struct link){.control = server->control,
							.sw = server->index,
							.rival = rival,
							.at_switch = false};
	}
}

void sim_rivals_squat(struct server *server, uint64_t from_ns)
{
	server->n_rivals = MAX_RIVALS;
	for (unsigned i = 0; i < MAX_RIVALS; i++) {
		struct rival *rival = &server->rivals[i];

		*rival = (struct rival){.comes_ns = from_ns + i * MS,
					.gathered_ns = NEVER,
					.leaves_ns = NEVER,
					.squats = true};
		for (unsigned r = 0; r < RIVAL_RANKS; r++)
			rival->links[r] = (struct link){
				.control = server->control, .sw = server->index, .rival = rival};
	}
}

/* ---- their lives ---- */

#define SQUATS_AGAIN_NS (200 * MS)

static void rival_sends(struct server *server, struct link *link,
			const SmlControl__Envelope *message)
{
	sml_jobs_message(&server->jobs, &link->peer, message, server->control->now_ns);
	link->peer.heard_ns = FAR_NS;
}

static void joins(struct server *server, struct rival *rival, unsigned rank)
{
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	char name[16];

	snprintf(name, sizeof(name), "rival%u", (unsigned)(rival - server->rivals));
	join.protocol = SML_CONTROL_PROTOCOL;
	join.library_version = (char *)(uintptr_t) "1";
	join.job = name;
	join.host = (char *)(uintptr_t) "host";
	join.rank = rank;
	join.world_size = RIVAL_RANKS;
	join.lanes = LANES;
	join.shards = 1;
	join.stripes = 1;
	join.heartbeat_ms = HEARTBEAT_MS;
	join.wait_ms = 600000;
	rival->links[rank].at_switch = true;
	rival_sends(server, &rival->links[rank], sml_envelope(JOIN, join, &join));
	rival->n_joined++;
}

static void leaves(struct server *server, struct rival *rival)
{
	rival->over = !rival->squats;
	if (rival->over)
		server->roomy_ns = server->control->now_ns;
	for (unsigned r = 0; r < RIVAL_RANKS; r++) {
		struct link *link = &rival->links[r];

		link->at_switch = false;
		if (link->peer.job)
			sml_jobs_lost(&server->jobs, &link->peer, "its connection ended",
				      server->control->now_ns);
	}
	rival->n_joined = 0;
	rival->refused = false;
	rival->comes_ns = server->control->now_ns + SQUATS_AGAIN_NS;
}

static void is_ready(struct server *server, struct rival *rival)
{
	rival->admitted = false;
	for (unsigned r = 0; r < RIVAL_RANKS; r++) {
		SmlControl__Ready ready = SML_CONTROL__READY__INIT;

		ready.lanes = LANES;
		if (rival->links[r].peer.job)
			rival_sends(server, &rival->links[r], sml_envelope(READY, ready, &ready));
	}
}

static uint64_t next_step(const struct rival *rival)
{
	uint64_t at_ns = rival->leaves_ns;

	if (rival->over)
		return NEVER;
	if (rival->admitted || rival->refused)
		return 0;
	if (rival->n_joined == 0)
		at_ns = rival->comes_ns;
	else if (rival->n_joined < RIVAL_RANKS && rival->gathered_ns < at_ns)
		at_ns = rival->gathered_ns;
	return at_ns;
}

static void do_rival(struct server *server, struct rival *rival)
{
	uint64_t now_ns = server->control->now_ns;

	if (rival->refused || (rival->n_joined && now_ns >= rival->leaves_ns))
		leaves(server, rival);
	else if (rival->admitted)
		is_ready(server, rival);
	else
		joins(server, rival, rival->n_joined);
}

uint64_t sim_rivals_deadline(const struct server *server)
{
	uint64_t earliest_ns = NEVER, now_ns = server->control->now_ns;

	for (unsigned i = 0; i < server->n_rivals; i++) {
		uint64_t at_ns = next_step(&server->rivals[i]);

		at_ns = at_ns < now_ns ? now_ns : at_ns;
		earliest_ns = at_ns < earliest_ns ? at_ns : earliest_ns;
	}
	return earliest_ns;
}

void sim_rivals_wake(struct server *server)
{
	for (unsigned i = 0; i < server->n_rivals; i++)
		if (next_step(&server->rivals[i]) <= server->control->now_ns)
			do_rival(server, &server->rivals[i]);
}

void sim_rivals_die(struct server *server)
{
	for (unsigned i = 0; i < server->n_rivals; i++)
		server->rivals[i].over |= server->rivals[i].n_joined > 0;
}

void sim_rival_receives(struct rival *rival, const SmlControl__Envelope *message)
{
	rival->admitted |= message->body_case == SML_CONTROL__ENVELOPE__BODY_ADMITTED &&
			   rival->n_joined + 1 >= RIVAL_RANKS;
	rival->refused |= message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT;
}

/* ---- what must hold of the pool ---- */

struct pool_use {
	uint32_t begun;	      /* slots of jobs that have begun */
	uint32_t n_gathering; /* other jobs that have not begun */
};

static struct pool_use look_at(const struct server *server, const struct sml_job *except)
{
	/* What is kept for a job whose members change is as much as a job that gathers holds. */
	struct pool_use use = {.n_gathering = server->jobs.n_kept};

	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		const struct sml_job *job = server->jobs.jobs[i];

		if (job == NULL || job == except)
			continue;
		if (job->state < SML_JOB_PROBING)
			use.n_gathering++;
		else
			use.begun +=
				(uint32_t)job->pool.rules.head_slots + job->pool.rules.data_slots;
	}
	return use;
}

/* Slots that a job may have when it begins: jobs that gather want slots, too. */
static uint32_t most_of_all(const struct server *server, const struct pool_use *use)
{
	uint32_t used = use->begun + (use->n_gathering + 1) * FEWEST;
	uint32_t left = server->max_slots > used ? server->max_slots - used : 0;
	uint32_t claims = use->n_gathering * (WANTED - FEWEST);
	uint32_t part = left / (use->n_gathering + 1);

	return FEWEST + (left > claims + part ? left - claims : part);
}

/* A job begins: it has the slots that it wants, or its share. */
void sim_pool_check_share(const struct server *server, const struct sml_pool_rules *rules)
{
	const struct sml_job *job = server->jobs.jobs[rules->job % SML_MAX_JOBS];
	struct pool_use use = look_at(server, job);
	uint32_t got = (uint32_t)rules->head_slots + rules->data_slots;
	uint32_t kept = server->max_slots / 8, used = use.begun + use.n_gathering * FEWEST;
	uint32_t left = server->max_slots > used + kept ? server->max_slots - used - kept : 0;
	uint32_t share = left / (use.n_gathering + 1);

	if (share > WANTED)
		share = WANTED;
	if (got < FEWEST || got < share || got > most_of_all(server, &use))
		sim_wrong(server->control,
			  "switch %u gives %u slots of %u, %u are others' and %u jobs gather",
			  server->index, got, server->max_slots, use.begun, use.n_gathering);
}

bool sim_pool_is_full(const struct server *server)
{
	struct pool_use use = look_at(server, NULL);
	uint32_t n_begun = server->jobs.n_jobs + server->jobs.n_kept - use.n_gathering;

	return n_begun >= server->jobs.config.max_jobs || use.begun + FEWEST > server->max_slots;
}

/* A job is told that there is no room: jobs that gather must not be the reason. */
void sim_pool_check_refusal(const struct server *server)
{
	struct pool_use use = look_at(server, NULL);
	uint32_t used = use.begun + use.n_gathering * FEWEST;

	if (server->jobs.n_jobs + server->jobs.n_kept < server->jobs.config.max_jobs &&
	    used + FEWEST <= server->max_slots)
		sim_wrong(server->control, "switch %u refuses, with %u of %u slots used",
			  server->index, used, server->max_slots);
}
