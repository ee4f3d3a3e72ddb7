#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The batch script of examples/slurm under a real Slurm: munged, slurmctld and three slurmd on this
# machine, with directories and a network of their own. Needs root, slurm-wlm and munge.
#
#	tests/mpi/slurm.sh build/switchml [PRELOADED-LIBRARY DIRECTORY-OF-MPI-PROGRAMS]
set -u

switchml=$(realpath "$1")
preload=${2:+$(realpath "$2")}
programs=${3:+$(realpath "$3")}
script=$(realpath "$(dirname "$0")/../../examples/slurm/switchml.sbatch")

skip() {
	echo "skipped: $1"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "slurmd needs root"
for program in munged slurmctld slurmd sbatch srun scontrol; do
	PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
		skip "there is no $program (Debian: slurm-wlm, munge)"
done
PATH=$(dirname "$switchml"):$PATH:/usr/sbin
# A network of its own, where no port is anybody else's. Slurm wants an address that is not a
# loopback address.
network='ip link set lo up && ip link add eth0 type veth peer name eth1 &&
	ip address add 192.0.2.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up'
if [ -z "${SML_INSIDE:-}" ]; then
	unshare --net sh -c "$network" 2>/dev/null || skip "no networks may be made here"
	SML_INSIDE=1 exec unshare --net sh -c "$network && exec \"\$@\"" sh "$0" "$@"
fi
# shellcheck source=tests/support/report.sh
. "$(dirname "$0")/../support/report.sh"
unset "${!SWITCHML_@}" "${!SLURM_@}"

chmod 755 "$work"
mkdir -p "$work/state" "$work/munge"
chmod 755 "$work/munge"
dd if=/dev/urandom bs=1 count=1024 of="$work/munge/key" 2>/dev/null
chmod 400 "$work/munge/key"

cat >"$work/slurm.conf" <<CONF
ClusterName=sml$$
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
NodeName=node1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=6821 CPUs=4
NodeName=node2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=6822 CPUs=4
NodeName=node3 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=6823 CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF=$work/slurm.conf SWITCH_PORT=28500

# What runs: names and process numbers. They are Slurm's: whatever keeps them from running is no
# failure of ours.
declare -A daemons
lost_daemon() {
	local daemon
	for daemon in "${!daemons[@]}"; do
		kill -0 "${daemons[$daemon]}" 2>/dev/null || { echo "$daemon"; return 0; }
	done
	return 1
}

# Command: wait until it succeeds; skip if Slurm does not get that far.
await_slurm() {
	local end=$((SECONDS + 120)) lost
	until "$@"; do
		if lost=$(lost_daemon); then
			skip "$lost cannot run here: $(grep -ihE 'error|fatal' "$work/$lost.out" | tail -n 1)"
		fi
		[ $SECONDS -lt $end ] || skip "Slurm does not start here within two minutes: no $*: $(sinfo 2>&1 | tail -n 1)"
		sleep 0.1
	done
}

munged --foreground --force --socket="$work/munge/socket" --key-file="$work/munge/key" \
	--pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
daemons[munged]=$!
munge_answers() {
	munge -S "$work/munge/socket" -n >/dev/null 2>&1
}
await_slurm munge_answers
slurmctld -D >"$work/slurmctld.out" 2>&1 &
daemons[slurmctld]=$!
for node in node1 node2 node3; do
	mkdir -p "$work/spool.$node"
	slurmd -D -N $node >"$work/slurmd.$node.out" 2>&1 &
	daemons[slurmd.$node]=$!
done
nodes_are_idle() {
	[ "$(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$')" = 3 ]
}
await_slurm nodes_are_idle

# Output, sbatch's options and the program: run it to its end. $status is its exit status.
batch() {
	local out=$1
	shift
	timeout 200 sbatch --wait --output "$work/$out" --chdir / "$@" >"$work/$out.sbatch" 2>&1
	status=$?
}

is_clean() {
	[ -z "$(squeue --noheader 2>/dev/null)" ] && ! ss -Hltn "sport = :$SWITCH_PORT" | grep -q .
}

batch sum --nodes 3 --ntasks-per-node 2 --export=ALL,SWITCHML_DEBUG=info "$script" \
	switchml bench -b 64K -e 64K -n 3
grep -q 'Wrong elements: 0 OK' "$work/sum" && [ $status = 0 ]
say $? "four ranks on two nodes sum at a switch on the third (exit status $status)" "$work/sum" "$work/sum.sbatch"
grep -q 'job "[0-9]*\.1": rank 3 of 4; dedicated switch 127.0.0.1' "$work/sum"
say $? "the job's name is that of the step: $(grep -o 'job "[0-9]*\.[0-9]*"' "$work/sum" | head -n 1)" "$work/sum"
await is_clean
say $? "the switch has ended with the job"
says "$work/sum" 'ended by SIGINT' && ! says "$work/sum" 'Killed\|error'
say $? "and not by force" "$work/sum"

batch failure --nodes 2 "$script" sh -c 'exit 3'
[ $status = 3 ]
say $? "the exit status is the program's: $status" "$work/failure" "$work/failure.sbatch"
await is_clean
say $? "the switch has ended with the failed job"

# All ranks are on one node: PMIx of nodes that share a machine would share a directory, too.
if [ -z "$preload" ]; then
	echo "left out: an MPI program (this build lacks the preload)"
elif ! srun --mpi=list 2>&1 | grep -q pmix; then
	echo "left out: an MPI program (this Slurm lacks PMIx)"
else
	batch mpi --nodes 2 --ntasks-per-node 3 \
		--export=ALL,SLURM_MPI_TYPE=pmix,SWITCHML_SUMMARY=all,SWITCHML_MPI_THRESHOLD=64K \
		"$script" env LD_PRELOAD="$preload" "$programs/mpi-types"
	[ $status = 0 ] && says "$work/mpi" '^0 wrong' && says "$work/mpi" 'rank 0\]: 176 of 674 all-reduces through the switch'
	say $? "an MPI program" "$work/mpi" "$work/mpi.sbatch"
	await is_clean
fi
exit $((failures > 0))
