/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws trees: see tree.h. */
#include "sim/tree.h"

/* In a tree of three levels, half of the leaves are below another leaf if one has room. */
static void assign_leaves(struct gen *gen, const struct sim_world *world, struct sim_tree *tree)
{
	for (uint16_t node = 1; node < tree->n_nodes; node++) {
		uint16_t above = 0, wanted;

		if (world->levels > 2 && node > 1 && gen_chance(gen, 1, 2)) {
			wanted = (uint16_t)gen_range(gen, 1, node - 1u);
			if (tree->parent[wanted] == 0 &&
			    tree->n_children[wanted] < SML_MAX_CHILDREN / 2)
				above = wanted;
		}
		tree->parent[node] = above;
		tree->n_children[above]++;
	}
}

/* The first node from a random one on that has room. */
static void assign_ranks(struct gen *gen, const struct sim_world *world, struct sim_tree *tree)
{
	for (uint32_t rank = 0; rank < world->n_ranks; rank++) {
		uint16_t node = (uint16_t)gen_below(gen, tree->n_nodes);

		while (tree->n_children[node] == SML_MAX_CHILDREN)
			node = (uint16_t)((node + 1) % tree->n_nodes);
		tree->node_of_rank[rank] = node;
		tree->n_children[node]++;
	}
}

/* A leaf that nobody is below would never be full. Leaves follow their parents. */
static void remove_bare_leaves(struct sim_tree *tree)
{
	for (uint16_t node = (uint16_t)(tree->n_nodes - 1); node > 0; node--)
		if (tree->n_children[node] == 0)
			tree->n_children[tree->parent[node]]--;
}

void sim_tree_draw(const struct sim_world *world, uint32_t stripe, uint32_t epoch,
		   struct sim_tree *tree)
{
	struct gen gen;

	if (world->same_tree)
		epoch = 0;
	gen_from_seed(&gen,
		      world->seed ^ (uint64_t)stripe << 56 ^ (uint64_t)epoch << 32 ^ 0x74726565ull);
	*tree = (struct sim_tree){.n_nodes = (uint16_t)(1 + world->n_leaves)};
	assign_leaves(&gen, world, tree);
	assign_ranks(&gen, world, tree);
	remove_bare_leaves(tree);
}

uint32_t sim_tree_room(uint32_t n_leaves)
{
	return SML_MAX_CHILDREN * (1 + n_leaves) - n_leaves;
}
