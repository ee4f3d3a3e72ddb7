/* SPDX-License-Identifier: BSD-3-Clause */
/* See events.h. */
#include "job/tree/events.h"

#include "job/tree/branches.h"
#include "job/tree/leaf.h"
#include "job/tree/leaves.h"

const struct sml_tree_events sml_tree_events = {
	.begin = sml_leaves_begin,
	.start = sml_leaves_start,
	.end = sml_leaves_end,
	.room = sml_leaves_room,
	.ask = sml_leaves_query,
	.missing = sml_leaves_missing,
	.displace = sml_leaf_displace,
	.close_idle = sml_branches_close_idle,
};
