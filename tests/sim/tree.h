/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which switch is below which: the tree of one stripe in one epoch. Node 0 is the root, all others
 * are leaves (core/slot.h). A world without leaves has only the root.
 */
#ifndef SML_SIM_TREE_H
#define SML_SIM_TREE_H

#include "sim/world.h"

struct sim_tree {
	uint16_t n_nodes;
	uint16_t parent[SIM_MAX_NODES];	    /* of a leaf */
	uint16_t n_children[SIM_MAX_NODES]; /* 0: the leaf is not in this tree */
	uint16_t node_of_rank[SML_MAX_WORLD];
};

/* A pure function of its arguments: any shape, with at most world.levels of switches. */
void sim_tree_draw(const struct sim_world *world, uint32_t stripe, uint32_t epoch,
		   struct sim_tree *tree);

/* The most ranks that any shape with this number of leaves has room for. */
uint32_t sim_tree_room(uint32_t n_leaves);

#endif
