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

/* Names this rank's files. Returns 0 or an error, and sets the error text. */
int sml_settings_set_files(struct sml_settings *settings, int rank);
void sml_settings_free_files(struct sml_settings *settings);

#endif
