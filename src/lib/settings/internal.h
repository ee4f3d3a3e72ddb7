/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the settings need of each other. */
#ifndef SML_LIB_SETTINGS_INTERNAL_H
#define SML_LIB_SETTINGS_INTERNAL_H

#include "lib/settings/settings.h"

/* ---- rank_files.c ---- */

/* Names this rank's files. Returns 0 or an error, and sets the error text. */
int sml_settings_set_files(struct sml_settings *settings, int rank);
void sml_settings_free_files(struct sml_settings *settings);

/*
 * ---- the environment, and the default name of a job (run_name.c) ----
 *
 * That is the name of this run of its launcher, so that two runs that use one switch at the same
 * time never join the same job. Equal on all ranks of a run.
 */

/*
 * NULL if unset or empty, because launch scripts write FOO= to clear it. In a set-user-ID program
 * all count as unset, because they name files to write and keys to use.
 */
const char *sml_variable_get(const char *name);

enum sml_launcher_kind {
	SML_LAUNCHER_TORCHRUN, /* also who sets RANK and WORLD_SIZE by hand */
	SML_LAUNCHER_OPEN_MPI,
	SML_LAUNCHER_MPICH,
	SML_LAUNCHER_SLURM,
	SML_LAUNCHER_NONE,
};

/* Valid until this thread's next call. "default": the environment does not say. */
const char *sml_run_name(enum sml_launcher_kind launcher);

#endif
