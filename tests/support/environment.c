/* SPDX-License-Identifier: BSD-3-Clause */
/* See environment.h. Add a new name at the end, because fuzz/config.c selects names by position. */
#include "support/environment.h"

#include <stddef.h>
#include <stdlib.h>

const char *const environment_names[] = {
	"SWITCHML_SWITCH",
	"SWITCHML_JOB",
	"SWITCHML_RANK",
	"SWITCHML_WORLD_SIZE",
	"SWITCHML_MASTER_ADDR",
	"SWITCHML_MASTER_PORT",
	"SWITCHML_TIMEOUT",
	"SWITCHML_HEARTBEAT",
	"SWITCHML_WIRE",
	"SWITCHML_SLOTS",
	"SWITCHML_THREADS",
	"SWITCHML_MTU",
	"SWITCHML_SOCKET_IFNAME",
	"SWITCHML_DEBUG",
	"SWITCHML_SPIN",
	"SWITCHML_FAULTS",
	"SWITCHML_RECORD",
	"SWITCHML_TLS_CERTIFICATE",
	"SWITCHML_TLS_KEY",
	"SWITCHML_TLS_AUTHORITY",
	"SWITCHML_JOB_KEY",
	"SWITCHML_JOB_KEY_FILE",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"MPI_LOCALNRANKS",
	"PMI_RANK",
	"PMI_SIZE",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_NODELIST",
	"SLURM_LAUNCH_NODE_IPADDR",
	"SLURM_JOB_ID",
	"SLURM_NTASKS_PER_NODE",
	"SWITCHML_PORTS",
	"SLURM_STEP_ID",
	"PMIX_NAMESPACE",
	"OMPI_MCA_ess_base_jobid",
	"OMPI_MCA_orte_precondition_transports",
	"SWITCHML_WAIT_NOTICE",
	"SWITCHML_SUMMARY",
	"SWITCHML_JOIN",
};
_Static_assert(sizeof(environment_names) / sizeof(environment_names[0]) == ENVIRONMENT_NAMES,
	       "environment.h says how many there are");

void set_environment(const struct variable variables[MAX_VARIABLES])
{
	for (size_t i = 0; i < ENVIRONMENT_NAMES; i++)
		unsetenv(environment_names[i]);
	for (size_t i = 0; i < MAX_VARIABLES && variables[i].name; i++)
		setenv(variables[i].name, variables[i].value, 1);
}
