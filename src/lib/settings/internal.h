/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the settings need of each other. */
#ifndef SML_LIB_SETTINGS_INTERNAL_H
#define SML_LIB_SETTINGS_INTERNAL_H

#include "lib/settings/settings.h"

/* ---- settings.c ---- */

void sml_settings_set_ranks(struct sml_settings *settings, int rank, int world_size);
/* wanted: the number of progress threads; 0 if the cores decide. */
void sml_settings_choose_threads(struct sml_settings *settings, int wanted);

/* ---- rank_files.c ---- */

/* Copies the patterns of the files' names. Returns 0 or an error, and sets the error text. */
int sml_settings_copy_patterns(struct sml_settings *settings, const struct sml_config *config);

/* Names this rank's files by the patterns. Returns 0 or an error, and sets the error text. */
int sml_settings_set_files(struct sml_settings *settings, int rank);

#endif
