#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two runs of one launcher on one switch, at the same time and without SWITCHML_JOB: each is a
# separate job, and a run works that begins while another one runs. Usage: runs.sh SWITCHML
set -u

switchml=$1
. "$(dirname "$0")/../support/report.sh"

launcher=$(command -v mpirun.openmpi || command -v mpirun)

# Name of its outputs, environment (%r: the rank): two ranks, as torchrun or srun start them.
by_environment() {
	local name=$1 rank
	shift
	for rank in 0 1; do
		env "${@//%r/$rank}" timeout 100 "$switchml" bench \
			-b 4K -e 4K "${options[@]}" >"$work/$name.$rank" 2>&1 &
		pids+=($!)
	done
}

torchrun() {
	by_environment "$1" RANK=%r WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none MASTER_ADDR=127.0.0.1 \
		MASTER_PORT="2950$2"
}

srun() {
	by_environment "$1" SLURM_PROCID=%r SLURM_NTASKS=2 SLURM_JOB_ID=4711 SLURM_STEP_ID="$2" \
		SLURM_NODELIST=localhost
}

mpirun() {
	"$launcher" --allow-run-as-root --oversubscribe -n 2 --mca btl self,tcp \
		timeout 100 "$switchml" bench -b 4K -e 4K "${options[@]}" >"$work/$1.0" 2>&1 &
	pids+=($!)
}

# Jobs that run on the switch.
running_jobs() {
	"$switchml" status --switch "$SWITCHML_SWITCH" 2>/dev/null | grep -c '^job .*: running'
}

runs() {
	[ "$(running_jobs)" = "$1" ]
}

# Launcher: one run that lasts, and one that comes and ends meanwhile.
two_runs() {
	local pids=() options lasting
	options=(-w 0 -n 1 -c 1 --seconds 1000 --pause 20)
	"$1" "$1-lasting" 1
	lasting=("${pids[@]}")
	await runs 1
	pids=()
	options=(-n 5)
	"$1" "$1-passing" 2
	for pid in "${pids[@]}"; do
		wait "$pid"
		say $? "$1: a run beside another one ends well" "$work/$1-passing".*
	done
	await runs 1 # the switch may not have heard yet that the run has ended
	kill -0 "${lasting[@]}"
	say $? "$1: the other one goes on"
	kill "${lasting[@]}" 2>/dev/null
	await runs 0
}

unset "${!SLURM_@}" "${!OMPI_@}" "${!PMI@}" "${!SWITCHML_@}"
local_switch "$work/switch"
export SWITCHML_SWITCH=$address SWITCHML_TIMEOUT=60
two_runs torchrun
two_runs srun
if "$launcher" --version 2>/dev/null | grep -qi 'open.*mpi\|openrte'; then
	two_runs mpirun
else
	echo "left out: two runs of mpirun: Open MPI is not installed"
fi

# mpirun on two hosts, without a switch and without rank 0's address: no rank waits for another.
lost=(OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 SWITCHML_TIMEOUT=600)
env -u SWITCHML_SWITCH -u MASTER_ADDR "${lost[@]}" timeout 100 "$switchml" bench >"$work/lost" 2>&1
[ $? = 1 ] && says "$work/lost" 'rank 1: there are ranks on other hosts, .* set SWITCHML_MASTER_ADDR'
say $? "mpirun without rank 0's address" "$work/lost"
exit $((failures > 0))
