/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the settings need of each other. */
#ifndef SML_LIB_SETTINGS_INTERNAL_H
#define SML_LIB_SETTINGS_INTERNAL_H

#include "lib/settings/settings.h"

/* ---- settings.c ---- */

void sml_settings_set_ranks(struct sml_settings *settings, int rank, int world_size);
/* As asked, or as the cores allow. */
void sml_settings_choose_threads(struct sml_settings *settings);

/* ---- rank_files.c ---- */

/* No two ranks share a trace or metrics. Returns 0 or an error, and sets the error text. */
int sml_settings_add_ranks(struct sml_config *config);

/* Names this rank's files by the patterns. Returns 0 or an error, and sets the error text. */
int sml_settings_set_files(struct sml_settings *settings, int rank);

#endif
