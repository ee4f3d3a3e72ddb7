/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worlds of the simulated control plane: which switches and ranks there are, and what befalls
 * them. A seed decides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/control/internal.h"
#include "switchml.h"

static void make_good(struct server *server)
{
	for (unsigned i = 0; i < MAX_ADDRESSES; i++)
		for (unsigned r = 0; r < MAX_RANKS; r++)
			server->reach[i][r] = ANSWERS;
	for (unsigned r = 0; r < MAX_RANKS; r++)
		server->udp[r] = true;
	server->full = server->narrow = false;
}

/* For a good switch: several addresses, of which some may be silent or refuse, for each rank. */
static void spoil_an_address(struct control *control, struct server *server)
{
	unsigned first = MAX_ADDRESSES, last = 0;

	for (unsigned i = 0; i < control->n_addresses; i++) {
		if (control->switches[i] != server->index)
			continue;
		first = first == MAX_ADDRESSES ? i : first;
		last = i;
	}
	for (unsigned r = 0; first != last && r < MAX_RANKS; r++) {
		unsigned spoiled;

		if (gen_chance(&control->gen, 1, 2))
			continue;
		spoiled = gen_below(&control->gen, 2) ? first : last;
		server->reach[spoiled][r] = (enum reach)gen_range(&control->gen, REFUSES, SILENT);
	}
}

static void make_bad(struct control *control, struct server *server)
{
	struct gen *gen = &control->gen;
	enum reach reach = (enum reach)gen_range(gen, REFUSES, SILENT);

	switch (gen_below(gen, 6)) {
	case 0:
		for (unsigned i = 0; i < MAX_ADDRESSES; i++)
			for (unsigned r = 0; r < MAX_RANKS; r++)
				server->reach[i][r] = reach;
		break;
	case 1: /* for some ranks */
		for (unsigned i = 0; i < MAX_ADDRESSES; i++)
			for (unsigned r = 0; r < MAX_RANKS; r++)
				server->reach[i][r] = gen_chance(gen, 1, 2) ? reach : ANSWERS;
		break;
	case 2:
		for (unsigned r = 0; r < MAX_RANKS; r++)
			server->udp[r] = gen_chance(gen, 1, 2);
		break;
	case 3:
		server->full = true;
		break;
	case 4:
		server->narrow = true;
		break;
	default:
		break; /* nothing is wrong with the switch */
	}
}

static void draw_server(struct control *control, uint8_t index)
{
	struct server *server = &control->servers[index];
	struct gen *gen = &control->gen;

	server->control = control;
	server->index = index;
	server->delay_us =
		gen_chance(gen, 1, 4) ? gen_range(gen, 1000, 600000) : gen_range(gen, 20, 3000);
	server->dies_ns = server->returns_ns = server->pauses_ns = server->resumes_ns = NEVER;
	server->freezes = gen_chance(gen, 1, 4);
	server->last_words = gen_chance(gen, 1, 8) ? gen_below(gen, MAX_RANKS) : NEVER_32;
	server->last_starts = NEVER_32;
	make_good(server);
	/* A job that finds no room when it begins is refused, and the refusal is final. */
	sim_rivals_draw(server, index ? 0 : 9 * SECOND);
	if (index > 0)
		make_bad(control, server);
	/* The first switch stays good until all ranks have begun. */
	if (index == 0 ? gen_chance(gen, 9, 10) : gen_chance(gen, 1, 3))
		server->dies_ns = gen_range(gen, index ? 0 : 9000, 25000) * MS;
	if (server->dies_ns != NEVER && gen_chance(gen, 1, 2))
		server->returns_ns = server->dies_ns + gen_range(gen, 0, 20000) * MS;
}

static void draw_rank(struct control *control, uint16_t id)
{
	struct rank *rank = &control->ranks[id];
	struct gen *gen = &control->gen;

	sim_crank_init(rank, control, id);
	rank->number = id;
	rank->n = control->n_ranks;
	rank->job = JOB_NAME;
	rank->comes_ns = gen_below(gen, 3000) * MS;
	rank->wanted = gen_range(gen, 1, 60);
}

static void draw_death(struct control *control)
{
	struct rank *rank = &control->ranks[gen_below(&control->gen, control->n_ranks)];

	rank->freezes = gen_chance(&control->gen, 1, 3);
	rank->dies_leaving = gen_chance(&control->gen, 1, 3);
	if (!rank->dies_leaving)
		rank->dies_ns = gen_below(&control->gen, 40000) * MS;
}

/* Rank 0 has the switch in its process, and no other rank has one. */
static void embed(struct control *control)
{
	struct server *server = &control->servers[0];

	make_good(server);
	server->dies_ns = NEVER;
	server->returns_ns = control->ranks[0].comes_ns;
	server->freezes = control->ranks[0].freezes;
	server->last_words = NEVER_32;
	server->max_slots = 4096;
	server->n_rivals = 0;
	control->good_stays = false;
	control->good = server;
}

static void draw(struct control *control)
{
	struct gen *gen = &control->gen;
	uint32_t wanted;

	control->embedded = gen_chance(gen, 1, 8);
	control->n_ranks = (uint16_t)gen_range(gen, 1, MAX_RANKS);
	control->n_servers = (uint8_t)(control->embedded ? 1 : gen_range(gen, 1, MAX_SWITCHES));
	for (uint8_t i = 0; i < control->n_servers; i++)
		for (uint32_t n = gen_range(gen, 1, 2); n > 0; n--) {
			uint8_t address = control->n_addresses++;

			control->switches[address] = i;
			snprintf(control->names[address], sizeof(control->names[address]),
				 "switch%u/%u", i, address);
			control->name_list[address] = control->names[address];
		}
	for (uint8_t i = 0; i < control->n_servers; i++)
		draw_server(control, i);
	for (uint16_t r = 0; r < control->n_ranks; r++)
		draw_rank(control, r);
	wanted = control->ranks[0].wanted;
	for (uint16_t r = 0; r < control->n_ranks; r++)
		control->ranks[r].wanted = wanted;
	if (gen_chance(gen, 1, 4))
		draw_death(control);
	control->good_stays = gen_chance(gen, 3, 4);
	if (control->embedded)
		embed(control);
	if (control->good_stays) {
		struct server *good = &control->servers[gen_below(gen, control->n_servers)];

		control->good = good;
		make_good(good);
		if (good->dies_ns != NEVER && good->returns_ns == NEVER)
			good->returns_ns = good->dies_ns + gen_range(gen, 0, 20000) * MS;
		good->last_words = NEVER_32;
		spoil_an_address(control, good);
	}
}

/*
 * A root and leaves of it, or of another leaf; ranks are at any of them. Every switch is good, and
 * comes back.
 */
static void plant_tree(struct control *control)
{
	struct gen *gen = &control->gen;

	control->has_tree = true;
	control->good_stays = true;
	control->good = &control->servers[0];
	for (uint8_t i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];

		make_good(server);
		server->n_rivals = 0;
		server->max_slots = 4096;
		server->last_words = NEVER_32;
		server->roomy_ns = 0;
		/* Through three levels and back within a fraction of a heartbeat. */
		server->delay_us %= 100000;
		server->parent = i == 0 ? NULL : &control->servers[gen_below(gen, i)];
		/* A chain of four would be one level too many. */
		if (server->parent && server->parent->parent && server->parent->parent->parent)
			server->parent = &control->servers[0];
		server->dies_ns = gen_chance(gen, 2, 3) ? gen_range(gen, 20000, 32000) * MS : NEVER;
		server->returns_ns = server->dies_ns == NEVER
					     ? NEVER
					     : server->dies_ns + gen_range(gen, 0, 20000) * MS;
		if (server->returns_ns != NEVER && (control->good->returns_ns == NEVER ||
						    server->returns_ns > control->good->returns_ns))
			control->good = server;
	}
	/* A rank that begins at a leaf without a parent fails: the leaves come first. */
	for (uint16_t r = 0; r < control->n_ranks; r++) {
		control->ranks[r].home = (uint8_t)gen_below(gen, control->n_addresses);
		control->ranks[r].comes_ns += 7 * SECOND;
	}
}

/* A switch of a wide world. */
static struct server *add_switch(struct control *control, struct server *parent)
{
	struct server *server = &control->servers[control->n_servers];

	server->control = control;
	server->index = control->n_servers++;
	server->parent = parent;
	server->delay_us = gen_range(&control->gen, 20, 3000);
	server->dies_ns = server->returns_ns = server->pauses_ns = server->resumes_ns = NEVER;
	server->last_words = server->last_starts = NEVER_32;
	server->max_slots = 4096;
	make_good(server);
	return server;
}

/* As many leaves as the ranks need, of the root or of the leaves that it has then. */
static void plant_wide_tree(struct control *control)
{
	struct gen *gen = &control->gen;
	struct server *root = add_switch(control, NULL), *middle = root;
	uint32_t fewest = (control->n_ranks + SML_MAX_CHILDREN - 1u) / SML_MAX_CHILDREN;
	uint32_t at_each = control->n_ranks == SML_MAX_WORLD
				   ? SML_MAX_CHILDREN
				   : gen_range(gen, fewest, SML_MAX_CHILDREN);
	bool has_three_levels = gen_chance(gen, 1, 2);
	uint16_t rank = 0;

	for (unsigned n = 0; rank < control->n_ranks; n++) {
		struct server *leaf;

		if (has_three_levels && n % SML_MAX_CHILDREN % 8 == 0)
			middle = add_switch(control, root);
		leaf = add_switch(control, middle);
		for (uint32_t i = 0; i < at_each && rank < control->n_ranks; i++)
			control->ranks[rank++].leaf = leaf->index;
	}
}

/* One switch of a wide world may die, and comes back. */
static void draw_wide_death(struct control *control)
{
	struct server *server = &control->servers[gen_below(&control->gen, control->n_servers)];

	server->freezes = gen_chance(&control->gen, 1, 4);
	server->dies_ns = gen_range(&control->gen, 4000, 6000) * MS;
	server->returns_ns = server->dies_ns + gen_range(&control->gen, 0, 4000) * MS;
	control->good = server;
}

static void draw_wide(struct control *control)
{
	static const uint16_t sizes[] = {65, 128, 512, 1024, 2048, SML_MAX_WORLD};
	struct gen *gen = &control->gen;
	uint32_t wanted = gen_range(gen, 1, 8);
	unsigned size = gen_below(gen, sizeof(sizes) / sizeof(sizes[0]));

	control->is_wide = control->has_tree = control->good_stays = true;
	control->n_ranks = size > 0 && gen_chance(gen, 1, 2)
				   ? (uint16_t)gen_range(gen, sizes[size - 1] + 1u, sizes[size])
				   : sizes[size];
	control->n_addresses = 1;
	snprintf(control->names[0], sizeof(control->names[0]), "leaf");
	control->name_list[0] = control->names[0];
	control->good = &control->servers[0];
	for (uint16_t r = 0; r < control->n_ranks; r++) {
		draw_rank(control, r);
		/* A rank that begins at a leaf without a parent fails: the leaves come first. */
		control->ranks[r].comes_ns = 1 * SECOND + gen_below(gen, 1500) * MS;
		control->ranks[r].wanted = wanted;
	}
	plant_wide_tree(control);
	if (gen_chance(gen, 1, 4))
		draw_death(control);
	if (gen_chance(gen, 1, 3))
		draw_wide_death(control);
}

/*
 * Some switches do not run for a while (SIGSTOP, a paused machine), and go on. From a generator of
 * its own: everything else in these worlds but their longest delays is as it would be without.
 */
static void draw_pauses(struct control *control, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x7061757365ull);
	for (unsigned i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];
		/* All ranks have begun by then. */
		uint64_t from_ns = gen_range(&gen, control->has_tree ? 20000 : 9000, 32000) * MS;
		uint64_t away_ns = gen_range(&gen, 200, 12000) * MS;

		if (gen_chance(&gen, 1, 3) || from_ns + away_ns >= server->dies_ns)
			continue;
		server->pauses_ns = from_ns;
		server->resumes_ns = from_ns + away_ns;
		/* What was sent before arrives within an eighth of a heartbeat: see peer.c. */
		server->delay_us %= HEARTBEAT_MS * 1000 / 12;
	}
}

/*
 * A stranger fills switches with jobs that never begin. Room for the job itself is left at the
 * first switch until all its ranks have begun.
 */
static void draw_squatters(struct control *control, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x7371756174ull);
	for (unsigned i = 0; i < control->n_servers; i++)
		if (gen_chance(&gen, 1, 2))
			sim_rivals_squat(&control->servers[i], i ? 0 : 9 * SECOND);
}

/*
 * The first switch dies while the job begins: between two Start messages, or at any other moment.
 * All switches can serve the job, and the others live until it has begun.
 */
static void draw_early_death(struct control *control, uint64_t seed)
{
	struct server *first = &control->servers[0];
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x6561726c79ull);
	for (unsigned i = 0; i < control->n_servers; i++) {
		struct server *server = &control->servers[i];

		make_good(server);
		server->n_rivals = 0;
		server->max_slots = 4096;
		server->roomy_ns = 0;
		server->delay_us %= 100000;
		server->dies_ns = server->returns_ns = NEVER;
		server->pauses_ns = server->resumes_ns = NEVER;
	}
	if (gen_chance(&gen, 2, 3))
		first->last_starts = gen_below(&gen, control->n_ranks + 1);
	else
		/* A rank that finds no switch at all when it comes fails. */
		first->dies_ns = gen_range(&gen, control->n_servers > 1 ? 0 : 3500, 4500) * MS;
	/*
	 * If it is the only one, it comes back before the ranks would give up. Otherwise it does
	 * not, because a rank that loses it later than the others would begin there without them.
	 */
	if (control->n_servers == 1) {
		first->freezes = false;
		first->returns_ns = gen_range(&gen, 4500, 9000) * MS;
	}
	control->good_stays = true;
	control->good = &control->servers[control->n_servers - 1];
}

/*
 * In half of the worlds, each rank has a heartbeat of its own. None is shorter than that of the
 * other worlds: a switch that was stopped may take what a rank sent before that for a sign of life,
 * if it is on its way for longer than an eighth of a heartbeat (job/peer/peer.c).
 */
static void draw_heartbeats(struct control *control, uint64_t seed)
{
	static const uint32_t some_ms[] = {HEARTBEAT_MS, 5000, LONGEST_MS};
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x6265617473ull);
	if (gen_below(&gen, 2))
		return;
	for (unsigned r = 0; r < MAX_PROCESSES; r++)
		control->ranks[r].heartbeat_ms = some_ms[gen_below(&gen, 3)];
}

static void describe_world(const struct control *control)
{
	static const char letters[] = {'a', 'r', 's'};

	if (!control->trace)
		return;
	if (control->is_wide) {
		printf("%u ranks at %u switches, %u calls\n", control->n_ranks, control->n_servers,
		       control->ranks[0].wanted);
		return;
	}
	printf("%u ranks, %u calls; a good switch %s\n", control->n_ranks, control->ranks[0].wanted,
	       control->embedded     ? "is rank 0's"
	       : control->good_stays ? "stays"
				     : "need not be there");
	for (unsigned i = 0; i < control->n_servers; i++) {
		const struct server *server = &control->servers[i];

		printf("switch %u: %u us%s%s, %s at %.3f s, back at %.3f s; ", i, server->delay_us,
		       server->full ? ", full" : "", server->narrow ? ", narrow" : "",
		       server->freezes ? "freezes" : "dies",
		       server->dies_ns == NEVER ? -1 : (double)server->dies_ns / 1e9,
		       server->returns_ns == NEVER ? -1 : (double)server->returns_ns / 1e9);
		if (server->pauses_ns != NEVER)
			printf("paused from %.3f s to %.3f s; ", (double)server->pauses_ns / 1e9,
			       (double)server->resumes_ns / 1e9);
		printf("UDP of ranks ");
		for (unsigned r = 0; r < control->n_ranks; r++)
			putchar(server->udp[r] ? '+' : '-');
		for (unsigned a = 0; a < control->n_addresses; a++) {
			if (control->switches[a] != i)
				continue;
			printf("; %s to ranks ", control->names[a]);
			for (unsigned r = 0; r < control->n_ranks; r++)
				putchar(letters[server->reach[a][r]]);
		}
		putchar('\n');
	}
	printf("(a: answers, r: refuses, s: silent)\n");
}

void sim_draw(struct control *control, enum sim_control_kind kind, uint64_t seed)
{
	if (kind == SIM_CONTROL_WIDE)
		draw_wide(control);
	else if (kind == SIM_CONTROL_ELASTIC)
		sim_elastic_draw(control, seed);
	else
		draw(control);
	/* The other seeds have the worlds that they had before there were trees. */
	if (kind == SIM_CONTROL_SMALL && seed % 4 == 3 && !control->embedded &&
	    control->n_servers > 1)
		plant_tree(control);
	if (kind == SIM_CONTROL_SMALL && seed % 2 == 1 && !control->embedded)
		draw_pauses(control, seed);
	if (kind == SIM_CONTROL_SMALL && seed % 4 == 2 && !control->embedded)
		draw_squatters(control, seed);
	if (kind == SIM_CONTROL_SMALL && seed % 8 == 5 && !control->embedded)
		draw_early_death(control, seed);
	if (kind != SIM_CONTROL_WIDE)
		draw_heartbeats(control, seed);
	if (!control->is_elastic)
		describe_world(control);
}
