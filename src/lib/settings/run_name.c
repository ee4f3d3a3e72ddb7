/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A name that is different for each run of a launcher, and the same on all ranks of one run:
 *
 *	torchrun    the run's id ("none" by default), and where its store listens
 *	by hand     MASTER_ADDR and MASTER_PORT
 *	Open MPI    the namespace of PMIx (16 of its bits depend on the run), and a random key that
 *	            mpirun draws for all ranks
 *	Slurm       the job and its step
 *
 * torchrun's count of restarts is not part of the name: only the agent whose worker has failed
 * increments it, so agents may disagree. The attempts of a run follow each other, and a name is
 * free again when its job has ended.
 */
#include "lib/settings/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "lib/settings/settings.h"
#include "net/address.h"

/* Longer names keep this much, and their hash. */
#define KEPT_BYTES 100

_Static_assert(KEPT_BYTES + 1 + 16 <= SML_MAX_JOB_NAME, "a shortened name is a valid name");

const char *sml_variable_get(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

static const char *shorten(char *name)
{
	if (strlen(name) > SML_MAX_JOB_NAME)
		snprintf(name + KEPT_BYTES, SML_MAX_JOB_NAME - KEPT_BYTES, "-%016" PRIx64,
			 sml_hash_text(0, name));
	return name;
}

/* "@gpu1:29500". A loopback address means a different host on each host: then also which. */
static void add_master(char *name, size_t bytes)
{
	const char *address = sml_variable_get("MASTER_ADDR"),
		   *port = sml_variable_get("MASTER_PORT");
	size_t length = strlen(name);

	if (!address)
		return;
	length += (size_t)snprintf(name + length, bytes - length, "@%.255s:%.5s", address,
				   port ? port : "");
	if (sml_is_loopback_name(address) || strcmp(address, "localhost") == 0)
		snprintf(name + length, bytes - length, "-%08" PRIx32, (uint32_t)sml_host_hash());
}

static const char *of_torchrun(char *name, size_t bytes)
{
	const char *id = sml_variable_get("TORCHELASTIC_RUN_ID");

	if (!id && !sml_variable_get("MASTER_ADDR"))
		return NULL;
	snprintf(name, bytes, "%.255s", id ? id : "run");
	add_master(name, bytes);
	return shorten(name);
}

static const char *of_open_mpi(char *name, size_t bytes)
{
	const char *id = sml_variable_get("PMIX_NAMESPACE"),
		   *key = sml_variable_get("OMPI_MCA_orte_precondition_transports");

	if (!id)
		id = sml_variable_get("OMPI_MCA_ess_base_jobid");
	if (!id)
		return NULL;
	snprintf(name, bytes, "mpirun-%.255s%s%.16s", id, key ? "-" : "", key ? key : "");
	return shorten(name);
}

static const char *of_slurm(char *name, size_t bytes)
{
	const char *job = sml_variable_get("SLURM_JOB_ID"),
		   *step = sml_variable_get("SLURM_STEP_ID");

	if (!job)
		return NULL;
	snprintf(name, bytes, "%.64s%s%.32s", job, step ? "." : "", step ? step : "");
	return name;
}

const char *sml_run_name(enum sml_launcher_kind launcher)
{
	static _Thread_local char name[600];
	const char *found = NULL;

	switch (launcher) {
	case SML_LAUNCHER_TORCHRUN:
		found = of_torchrun(name, sizeof(name));
		break;
	case SML_LAUNCHER_OPEN_MPI:
		found = of_open_mpi(name, sizeof(name));
		break;
	case SML_LAUNCHER_SLURM:
		found = of_slurm(name, sizeof(name));
		break;
	case SML_LAUNCHER_NONE:
		if (sml_variable_get("TORCHELASTIC_RUN_ID"))
			found = of_torchrun(name, sizeof(name));
		break;
	case SML_LAUNCHER_MPICH: /* it does not say; its processes may belong to several steps */
		break;
	}
	if (found)
		return found;
	return sml_variable_get("SLURM_JOB_ID") ? sml_variable_get("SLURM_JOB_ID") : "default";
}
