#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A job runs through all attacks at once: every sum is exact, and no rank reports
# anything. The job begins before the attacks and ends after them. It uses a switch
# without TLS, with certificates, or with a job key, or it uses no switch. Meanwhile, the
# switch serves a new job and stays within its bounds. As root, the attacks include forged
# ICMP, too. Usage: attacks.sh SWITCHML ATTACKS [MODE…]
set -u

# Use a separate loopback where that is allowed: forged packets must not reach other
# tests.
if [ -z "${SML_OWN_NETWORK:-}" ] && unshare -n ip link set lo up 2>/dev/null; then
	# shellcheck disable=SC2016
	SML_OWN_NETWORK=yes exec unshare -n sh -c 'ip link set lo up && exec "$0" "$@"' "$0" "$@"
fi
switchml=$(realpath "$1")
attacks=$(realpath "$2") # tests/switch/attacks/
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"
cd "$work" || exit 1
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
export SWITCHML_TIMEOUT=100 SWITCHML_HEARTBEAT=15
# A sanitizer uses additional memory.
has_sanitizer=$(ldd "$switchml" | grep -cE 'lib[at]san')
# Memory that a process may use in addition: 64 MiB of strangers' messages, TLS data for a
# thousand strangers, members of half-complete worlds (docs/security.md), and all slots: 4096
# of 34 KiB each, because meson's MALLOC_PERTURB_ touches also the words of exact sums.
most_kib=$(((200 + 136) * 1024))

# Job, then variables: two ranks make calls and check nearly all of them, until rank 0 is
# told to end. $pids are their processes.
start_ranks() {
	local job=$1 rank
	shift
	pids=()
	for rank in 0 1; do
		env SWITCHML_RANK=$rank SWITCHML_WORLD_SIZE=2 SWITCHML_JOB="$job" SWITCHML_THREADS=1 "$@" \
			"$switchml" bench -b 64K -e 64K -w 0 -n 1 -c 50 --seconds 1000 \
			>"$job.$rank.out" 2>"$job.$rank.err" &
		pids+=($!)
	done
}

# Title, job: the ranks end when told to, and report only zero wrong elements.
end_ranks() {
	local title=$1 job=$2 bad=0 rank
	kill -TERM "${pids[0]}"
	end_well "${pids[@]}" || bad=1
	for rank in 0 1; do
		# If rank 0 has the control port, it writes one line per second about refused peers. bench says
		# how far it is.
		! grep -qv -e ' switchml switch: warn: the connection of .* was refused' -e '^# .* s since the start$' \
			"$job.$rank.err" || bad=1
	done
	grep -q '^# Wrong elements: 0 OK' "$job.0.out" || bad=1
	say $bad "$title: exact results, and not a word" "$job".[01].out "$job".[01].err
}

# Process, field of its status.
status_of() {
	awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"
}

n_files() {
	local files=("/proc/$1/fd"/*)
	echo ${#files[@]}
}

# Process, number: it has at most this many open files.
has_few_files() {
	[ "$(n_files "$1")" -le "$2" ]
}

# Title, control port, data port, job, mode, attacked process, command that runs
# meanwhile: run all attacks until each has done enough and the command has ended.
attack() {
	local title=$1 victim=$6 before_kib before_files most_files
	before_kib=$(status_of "$victim" VmHWM)
	before_files=$(n_files "$victim")
	mkfifo input
	"$attacks" "$2" "$3" "$4" 2 "$5" "$victim" "${pids[@]}" <input >attacks.out 2>&1 &
	local attacker=$!
	exec 3>input
	rm input
	await says attacks.out begun
	"${@:7}"
	await_long says attacks.out enough
	most_files=$(n_files "$victim")
	exec 3>&-
	wait $attacker
	say $? "$title: every attack has done what it had to, and members are served" attacks.out
	sed 's/^/    /' attacks.out
	all_run
	say $? "$title: nobody died" "$4".[01].err
	local limit
	limit=$(awk '/^Max open files/ { print $4 }' "/proc/$victim/limits")
	[ "$most_files" -le $((limit * 3 / 4 + before_files)) ]
	say $? "$title: $most_files open files, of $limit"
	# Peers that had half-joined are gone, and so are their descriptors.
	await has_few_files "$victim" $((before_files + 3))
	[ "$has_sanitizer" != 0 ] || {
		local more_kib=$(($(status_of "$victim" VmHWM) - before_kib))
		[ $more_kib -le $most_kib ]
		say $? "$title: $((more_kib >> 10)) MiB more at most"
	}
}

# Like await, for something that takes a minute on a fast machine.
await_long() {
	local end=$((SECONDS + 150))
	until "$@"; do
		[ $SECONDS -lt $end ] || give_up "still not: $*"
		all_run || give_up "a rank is gone"
		sleep 0.1
	done
}

# Title, job, variables: two more ranks join, run, and leave.
new_job() {
	local pids
	begin_ranks 2 "$2" SWITCHML_JOB="$2" SWITCHML_THREADS=1 "${@:3}" \
		timeout 200 "$switchml" bench -b 4K -e 256K -f 8 -n 1 -c 10
	ends_well "$1" "$2"
}

# Mode, variables of ranks, then options of the switch.
with_switch() {
	local mode=$1 ranks=$2
	shift 2
	: >"switch.$mode"
	"$switchml" switch --listen 127.0.0.1:0 "$@" >>"switch.$mode" 2>&1 &
	local switch=$!
	await_switch "switch.$mode"
	local port=${address##*:}
	# shellcheck disable=SC2086
	{
		start_ranks "$mode" SWITCHML_SWITCH="$address" $ranks
		await env $ranks "$switchml" status --switch "$address" >/dev/null
		export_for_status "$ranks" await_under_way "$mode" "$address"
		export_for_status "$ranks" attack "$mode" "$port" "$port" "$mode" "$mode" $switch \
			new_job "$mode: a new job, meanwhile" "$mode-new" SWITCHML_SWITCH="$address" $ranks
		end_ranks "$mode" "$mode"
		new_job "$mode: a new job, afterwards" "$mode-late" SWITCHML_SWITCH="$address" $ranks
	}
	kill -0 $switch
	say $? "$mode: the switch is still there" "switch.$mode"
	kill $switch
	wait $switch
	say $? "$mode: it ends as it should" "switch.$mode"
}

# Variables, command: run the command with these variables.
export_for_status() {
	local variable
	for variable in $1; do export "${variable?}"; done
	"${@:2}"
	for variable in $1; do unset "${variable%%=*}"; done
}

embedded() {
	local port
	port=$(free_port)
	start_ranks embedded SWITCHML_SWITCH=embedded SWITCHML_MASTER_PORT="$port"
	await job_is "127.0.0.1:$port" embedded running
	attack embedded "$port" 0 embedded embedded "${pids[0]}" true
	end_ranks embedded embedded
}

has_tls() {
	command -v openssl >/dev/null &&
		! SWITCHML_JOB_KEY_FILE=x "$switchml" switch --listen 127.0.0.1:0 2>&1 | grep -q 'built without TLS'
}

plain() {
	with_switch plain ""
}

tls() {
	"$here/../support/certificates" "$work" || exit 1
	with_switch tls "SWITCHML_TLS_CERTIFICATE=$work/worker.pem SWITCHML_TLS_KEY=$work/worker.key
		SWITCHML_TLS_AUTHORITY=$work/authority.pem" \
		--tls-certificate switch.pem --tls-key switch.key --tls-authority authority.pem
}

key() {
	(umask 077 && openssl rand -base64 32 >job.key)
	with_switch key "SWITCHML_JOB_KEY_FILE=$PWD/job.key" --key-file job.key
}

modes=("${@:3}")
if [ ${#modes[@]} = 0 ] && has_tls; then
	modes=(plain tls key embedded)
elif [ ${#modes[@]} = 0 ]; then
	modes=(plain embedded)
	echo "left out: with TLS: this build has none, or this machine no openssl command"
fi
for mode in "${modes[@]}"; do
	case $mode in
	plain) plain ;;
	tls) tls ;;
	key) key ;;
	embedded) embedded ;;
	*) give_up "no mode: $mode" ;;
	esac
done
[ $failures = 0 ] || echo "$failures failed"
exit $((failures > 0))
