#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# MPI programs that know nothing of SwitchML, with and without the preload. The results
# are the same, and the summary says that the switch computed them.
#
#	mpi.sh PRELOAD-LIBRARY PROGRAM-FOLDER SWITCHML YIELD
#
# YIELD is preloaded, too: support/yield.c.
set -u

preload=$(realpath "$1")
programs=$(realpath "$2")
switchml=$(realpath "$3")
yield=$(realpath "$4")
# shellcheck source=tests/support/report.sh
. "$(dirname "$0")/../support/report.sh"

# The launcher of the MPI that the library was built for, and how it lets the ranks go on when one
# has died.
if ldd "$preload" | grep -q libmpich; then
	mpirun=$(command -v mpiexec.mpich || command -v mpiexec.hydra || command -v mpiexec)
	options=""
	survivors="-disable-auto-cleanup"
else
	mpirun=$(command -v mpirun.openmpi || command -v mpirun)
	options="--allow-run-as-root --oversubscribe"
	survivors="--enable-recovery"
	# Without single copies, the sender of a long message must take part until its end.
	export OMPI_MCA_btl_vader_single_copy_mechanism=none
	# Ranks that wait let others go on, however many cores there are.
	export OMPI_MCA_mpi_yield_when_idle=1
	# Only this machine.
	export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo
fi
[ -n "$mpirun" ] || { echo "mpirun is not installed"; exit 77; }
# A sanitizer's runtime must be the first library. MPI itself leaks.
sanitizer=$(ldd "$preload" | sed -n 's/.*=> \(.*lib[at]san[^ ]*\).*/\1/p')
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
limit=300 # seconds of a program; with a sanitizer, on a busy machine, one was seen to need more than 100
unset "${!SWITCHML_@}"

inside= # a command that runs another one in a network
# Environment, ranks, program and arguments. The output goes to $work/out: the launcher's, then each
# rank's. A launcher that gets no processor for a while cuts what it reads into pieces of 4096 bytes,
# and writes another rank's lines between them; so each rank has a file of its own.
launch() {
	local setting=$1 ranks=$2 program=$3 status
	shift 3
	rm -f "$work"/out.*
	# shellcheck disable=SC2086,SC2016
	timeout $limit $inside "$mpirun" $options -n "$ranks" \
		sh -c 'out=$1; shift; exec "$@" >"$out.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?}}" 2>&1' sh \
		"$work/out" env $setting "$programs/mpi-$program" "$@" >"$work/out" 2>&1
	status=$?
	[ $status != 124 ] || echo "mpi.sh ended $program, because it ran for $limit s" >>"$work/out"
	cat "$work"/out.* >>"$work/out"
	return $status
}

# Without a threshold, nothing goes through the switch on one host.
by_default="LD_PRELOAD=${sanitizer:+$sanitizer:}$preload:$yield SWITCHML_SUMMARY=all"
with="$by_default SWITCHML_MPI_THRESHOLD=64K"
without="LD_PRELOAD=$yield"

# The number of rank 0's calls through the switch, and the number of all its calls.
through() {
	sed -n 's/.*switchml-mpi\[rank 0\]: \([0-9]* of [0-9]*\) all-reduces.*/\1/p' "$work/out"
}

# Title, environment, what must go through the switch, ranks, program, arguments.
expect_right() {
	local title=$1 setting=$2 expected=$3
	shift 3
	launch "$setting" "$@" && grep -qx '0 wrong' "$work/out" && [ "$(through)" = "$expected" ]
	say $? "$title${expected:+: $expected through the switch}" "$work/out"
}

# Title, text: exactly one line of the output has it.
expect_once() {
	[ "$(grep -c "$2" "$work/out")" = 1 ]
	say $? "$1: one line has '$2'" "$work/out"
}

# One that adds integers, on the loopback of a network of its own.
start_switch_in_kernel() {
	: >"$work/switch"
	unshare --net sh -c 'ip link set lo up && exec "$0" "$@"' "$switchml" switch --dataplane xdp --iface lo \
		--listen 127.0.0.1:0 >"$work/switch" 2>&1 &
	switch=$!
	await is_ready_or_gone "$work/switch" "$switch"
	says "$work/switch" 'ready on' && await_switch "$work/switch" &&
		inside="nsenter --net=/proc/$switch/ns/net"
}

# Title, environment, and the lines about other calls than all-reduces.
expect_others() {
	local title=$1 setting=$2 line bad=0
	shift 2
	launch "$setting" 3 others && grep -qx '0 wrong' "$work/out" || bad=1
	for line in "$@"; do
		says "$work/out" "rank 0\]: $line through the switch" || bad="no line has '$line'"
	done
	say "$bad" "$title: $*" "$work/out"
}

# A sanitizer makes a program ten times as slow. There, what runs no code of ours beyond what other
# parts run is left to the build without one: programs without the preload, other thresholds.
plain() {
	[ -z "$sanitizer" ]
}

for program in types communicators nonblocking others threads; do
	! plain || expect_right "$program, plain" "$without" "" 3 $program
done
! plain || expect_right "types" "$with" "176 of 674" 3 types
expect_right "types, every size" "$with SWITCHML_MPI_THRESHOLD=1" "362 of 674" 3 types
! plain || expect_right "types, a high threshold" "$with SWITCHML_MPI_THRESHOLD=1M" "34 of 674" 3 types
expect_right "types, one packet in a hundred lost" \
	"$with SWITCHML_FAULTS=drop=10000,duplicate=5000,reorder=5000" "176 of 674" 2 types
# Under MPICH, the program leaves out the wrong arguments.
expect_others "other calls" "$with" "4[78] of 6[89] reduces" "24 of 34 reduce-scatters" "6 of 6 broadcasts"
! plain || expect_others "other calls, by default" "$by_default" "0 of 6[89] reduces" "0 of 34 reduce-scatters" \
	"0 of 6 broadcasts"
expect_others "other calls, one packet in a hundred lost" \
	"$with SWITCHML_FAULTS=drop=10000,duplicate=5000,reorder=5000" "4[78] of 6[89] reduces"
expect_right "communicators" "$with" "36 of 41" 4 communicators
if [ "$survivors" = --enable-recovery ]; then
	expect_right "children" "$with" "5 of 5" 2 spawn
	expect_right "one rank's children" "$with SWITCHML_MASTER_ADDR=127.0.0.1" "5 of 5" 1 spawn
else
	echo "left out: children: Debian's MPICH cannot start any"
fi
expect_right "nonblocking" "$with" "66 of 70" 3 nonblocking
expect_right "nonblocking, with requests that nobody waits for" "$with" "70 of 75" 2 nonblocking freed
expect_right "threads" "$with" "180 of 180" 2 threads
expect_right "equal arrays" "$with" "2 of 4" 4 equal
expect_right "equal arrays, a share in every rank" "$with SWITCHML_SWITCH=embedded" "2 of 4" 3 equal
expect_right "one rank" "$with" "0 of 674" 1 types
if [ -x "$programs/mpi-fortran" ]; then
	! plain || expect_right "fortran, plain" "$without" "" 3 fortran
	expect_right "fortran" "$with" "26 of 26" 3 fortran
else
	echo "left out: fortran: this build has no compiler for it"
fi
if [ -x "$programs/mpi-sessions" ]; then
	expect_right "sessions alone" "$with" "3 of 3" 3 sessions
else
	echo "left out: sessions: this MPI has none"
fi

expect_right "no threshold" "$by_default" "0 of 674" 3 types
expect_once "no numbers of a job where there was none" '\[rank 0\]: 0 of 674 all-reduces through the switch; through MPI: '
expect_once "no threshold" '\[rank 0\].* [1-9][0-9]* that no switch speeds up here .*(SWITCHML_MPI_THRESHOLD=64K over'
expect_right "a share in every rank" "$with SWITCHML_SWITCH=embedded" "36 of 41" 3 communicators

# With a separate switch, and without one.
local_switch "$work/switch"
expect_right "a switch of its own" "$with SWITCHML_SWITCH=$address" "36 of 41" 3 communicators
expect_right "equal arrays at a switch" "$with SWITCHML_SWITCH=$address" "2 of 4" 3 equal
expect_right "a switch that gains nothing" "$by_default SWITCHML_SWITCH=$address" "0 of 41" 3 communicators
expect_once "a switch that gains nothing" \
	"none of 41 all-reduces went through the switch $address; MPI got [0-9]* that no switch speeds up here"
kill $switch
wait $switch 2>/dev/null
if start_switch_in_kernel; then
	expect_right "equal arrays where a switch adds integers" \
		"$with SWITCHML_SHARED_MEMORY=0 SWITCHML_SWITCH=$address" "2 of 4" 3 equal
	kill $switch
	wait $switch 2>/dev/null
else
	echo "left out: a switch in the kernel: $(tail -n 1 "$work/switch")"
fi
inside=
expect_right "a switch that is not there" "$with SWITCHML_SWITCH=$address" "0 of 41" 3 communicators
expect_once "a switch that is not there" "because of rank 0: the switch at $address cannot be reached"
expect_right "a wrong threshold" "$with SWITCHML_MPI_THRESHOLD=64q" "0 of 41" 2 communicators
expect_right "a wrong setting" "$with SWITCHML_SLOTS=0" "0 of 41" 2 communicators
expect_once "a wrong setting" 'rank 0: SWITCHML_SLOTS="0" is not allowed'

mkdir "$work/ranks"
launch "$with" 3 failing types "$work/ranks" &&
	[ "$(grep -c '^rank [0-2]: class new: .* made different calls: .* float64 from rank 0' "$work/out")" = 3 ]
say $? "other types in a broadcast: every rank is told" "$work/out"
rm -r "$work/ranks"

# A switch dies while ranks are in the middle of calls. The time limit applies to a call and to
# opening the job: ranks wait so long for the switch to come back, and then get the error. So these
# parts run at the same time, each with its own switch and in its own folder, and together they
# take one time limit.
seconds=6
have_begun() {
	[ "$(find "$work/ranks" -type f | wc -l)" = 3 ]
}

kill_under_way() {
	await have_begun
	sleep 0.2
	kill -9 "$switch"
}

# How the program makes its calls. The file "dead" says that the switch is.
launch_and_kill() {
	local status
	local_switch "$work/switch"
	rm -rf "$work/ranks"
	mkdir "$work/ranks"
	(kill_under_way; touch "$work/ranks/dead") &
	launch "$with SWITCHML_SWITCH=$address SWITCHML_TIMEOUT=$seconds" 3 failing "$1" "$work/ranks"
	status=$?
	# It lives if the program has not come so far, and would be waited for, too.
	kill -9 "$switch" 2>/dev/null
	wait 2>/dev/null
	return $status
}

calls_fail() {
	launch_and_kill "$1" && [ "$(grep -c '^rank [0-2]: class new: switchml: .*127.0.0.1' "$work/out")" = 3 ]
	say $? "a switch that dies, $1: every rank is told" "$work/out"
}

# Calls are under way, and cannot end: each way to complete them returns the error.
requests_fail() {
	launch_and_kill "$1"
	say $? "a switch that dies, $1" "$work/out"
	for way in wait waitall waitsome waitany testsome; do
		[ "$(grep -c "^rank [0-2]: $way: class new: switchml: .*127.0.0.1" "$work/out")" = 3 ]
		say $? "a switch that dies, $1: MPI's error of $way" "$work/out"
	done
}

# MPI's own error handler ends the program, and the error text is shown. (Open MPI
# sometimes loses the text between rank and launcher, and says so: then try again.)
program_ends() {
	local ended
	for _ in 1 2 3; do
		launch_and_kill "$1"
		ended=$?
		says "$work/out" ORTE_ERROR_LOG || break
	done
	[ $ended != 0 ] && says "$work/out" "switchml: .*127.0.0.1" && ! grep -q '^rank' "$work/out"
	say $? "a switch that dies, $1: the program ends" "$work/out"
}

parts=()
for part in calls_fail:{blocking,reduce,waitall} requests_fail:ways program_ends:fatal; do
	mkdir "$work/${part#*:}"
	(
		work=$work/${part#*:} switch=
		# Launchers that start at the same moment all try to make one directory in it, and fail.
		export TMPDIR=$work
		# The launcher and the switch end with this shell.
		# shellcheck disable=SC2046
		trap 'kill $switch $(jobs -p) 2>/dev/null' EXIT
		failures=0
		${part%:*} "${part#*:}" >"$work/said"
		exit $((failures > 0))
	) &
	parts+=("$!:${part#*:}")
done
for part in "${parts[@]}"; do
	wait "${part%:*}" || failures=$((failures + 1))
	cat "$work/${part#*:}/said"
done

# A rank is killed. The launcher would let the others go on, but each says why it ends, in one line.
# Where, environment.
kill_a_rank() {
	local where=$1 setting=$2 options="$options $survivors" status
	rm -rf "$work/ranks"
	mkdir "$work/ranks"
	(
		await have_begun
		await test -s "$work/ranks/running.2"
		kill -9 "$(cat "$work/ranks/running.2")"
	) &
	launch "$with SWITCHML_TIMEOUT=60 $setting" 3 failing fatal "$work/ranks"
	status=$?
	wait 2>/dev/null
	[ $status != 124 ] && [ "$(grep -c '^switchml\[rank [01]\]: rank 2 (.* died' "$work/out")" = 2 ]
	say $? "a rank that is killed, $where" "$work/out"
}

kill_a_rank "in shared memory" A=
kill_a_rank "a share in every rank" SWITCHML_SWITCH=embedded

# A rank is stopped, and another one says that it waits for it. Where, environment.
stop_a_rank() {
	local where=$1 setting=$2 said='^switchml\[rank 0\]: waiting .* for rank 2 of 3 (.*, pid .*) in job '
	rm -rf "$work/ranks" "$work"/out.*
	mkdir "$work/ranks"
	(
		await test -s "$work/ranks/running.2"
		stopped=$(cat "$work/ranks/running.2")
		trap 'kill -CONT "$stopped"; touch "$work/ranks/enough"' EXIT
		kill -STOP "$stopped"
		await says "$work/out.0" "$said"
	) &
	launch "$with SWITCHML_WAIT_NOTICE=0.3 SWITCHML_HEARTBEAT=60 $setting" 3 failing blocking "$work/ranks" &&
		says "$work/out" "$said" && [ "$(grep -c '^rank [0-2]: no error' "$work/out")" = 3 ]
	say $? "a rank that waits, $where" "$work/out"
	wait $!
}

local_switch "$work/switch"
stop_a_rank "through a switch" "SWITCHML_SWITCH=$address SWITCHML_SHARED_MEMORY=0"
stop_a_rank "in shared memory" A=
kill "$switch"

# The switch comes back: no rank gets an error, because nothing is lost.
local_switch "$work/switch" --listen "$(steady_address)"
rm -rf "$work/ranks"
mkdir "$work/ranks"
(
	kill_under_way
	# Calls that begin from now on need the new switch.
	touch "$work/ranks/enough"
	sleep 0.5
	exec "$switchml" switch --listen "$address" >/dev/null 2>&1
) &
back=$!
launch "$with SWITCHML_SWITCH=$address" 3 failing waitall "$work/ranks" &&
	says "$work/out" "$address .*; it is back, and the job goes on there" &&
	[ "$(grep -c '^rank [0-2]: no error' "$work/out")" = 3 ]
say $? "a switch that comes back: $(through) through the switches" "$work/out"
kill $back
exit $((failures > 0))
