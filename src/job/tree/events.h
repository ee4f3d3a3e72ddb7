/* SPDX-License-Identifier: BSD-3-Clause */
/* The table by which jobs reach the tree: see job/tree.h. */
#ifndef SML_JOB_TREE_EVENTS_H
#define SML_JOB_TREE_EVENTS_H

#include "job/tree.h"

extern const struct sml_tree_events sml_tree_events;

#endif
