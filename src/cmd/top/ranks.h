/* SPDX-License-Identifier: BSD-3-Clause */
/* One job of `switchml top`: its ranks, in a list or in the tree of leaves and hosts. */
#ifndef SML_CMD_TOP_RANKS_H
#define SML_CMD_TOP_RANKS_H

#include "cmd/top/screen.h"

/* Between two lines. */
void sml_top_draw_ranks(struct sml_top_screen *screen, const struct sml_top_row *row, int y,
			int end);

unsigned sml_top_count_hosts(const SmlControl__JobStatus *job);

/* For qsort(): the larger one comes first. */
static inline int sml_top_compare(double a, double b)
{
	return (a < b) - (a > b);
}

#endif
