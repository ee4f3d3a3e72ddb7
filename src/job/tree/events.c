/* SPDX-License-Identifier: BSD-3-Clause */
/* See events.h. */
#include "job/tree/events.h"

#include "job/tree/branches.h"
#include "job/tree/leaf.h"

const struct sml_tree_events sml_tree_events = {
	.displace = sml_leaf_displace,
	.close_idle = sml_branches_close_idle,
};
