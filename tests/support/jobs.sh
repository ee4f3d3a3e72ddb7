# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after hosts.sh: runs jobs on its hosts and checks their ends.
# shellcheck shell=bash

# Probability, hosts: this share of the UDP packets that arrive there is lost. $tables: iptables, and
# ip6tables where addresses are of both kinds.
lose() {
	local host table
	for host in "${@:2}"; do
		for table in ${tables:-iptables}; do
			ip netns exec "$name-$host" "$table" -F INPUT || return 1
			[ "$1" = 0 ] || ip netns exec "$name-$host" "$table" -A INPUT -p udp \
				-m statistic --mode random --probability "$1" -j DROP || return 1
		done
	done
}

# Job, switchml bench's options: start its ranks.
start_job() {
	begin_ranks "$ranks" "$1" timeout 250 "$switchml" bench --switch "${switch:-10.77.0.1}" --job "$1" "${@:2}"
}

# For start(): a place is HOST=SWITCH.
limit=250
at_place() {
	echo "ip netns exec $name-${1%%=*} env SWITCHML_SWITCH=${1#*=}"
}

# Bytes that all hosts have sent so far.
bytes_sent() {
	local host sum=0
	for ((host = 0; host < ranks; host++)); do
		sum=$((sum + $(on $host cat /sys/class/net/eth0/statistics/tx_bytes)))
	done
	echo $sum
}

# Status, what should be true: as say, and if it is not, with all output.
holds() {
	[ "$1" = 0 ] || show_output
	say "$1" "$2"
}

fail() {
	holds 1 "$1"
}

# Title, pids: all of them end well.
expect_success() {
	end_well "${@:2}"
	holds $? "$1"
}

# Title, job: its ranks end well, and each has said $form, if it is set.
expect_form() {
	local rank
	expect_success "$1${form:+: $form}" "${pids[@]}"
	for rank in "${!pids[@]}"; do
		[ -z "${form:-}" ] || says "$work/$2.$rank" "$form" || fail "$1: rank $rank does not say '$form'"
	done
}

# Title, options of switchml bench: each type and wire, with every result checked.
exact_sums() {
	local title=$1 type wire
	for type in float int32; do
		for wire in int32 int16; do
			start_job "exact-$type-$wire" -n 2 -w 1 -d $type --wire $wire "${@:2}"
			expect_form "$title: $type, $wire wire" "exact-$type-$wire"
		done
	done
	# Limbs, pairs and shared lanes are the same on every wire.
	for type in "double sum" "int64 max" "uint8 sum"; do
		start_job "exact-${type% *}" -n 2 -w 1 -d "${type% *}" -o "${type#* }" "${@:2}"
		expect_form "$title: $type" "exact-${type% *}"
	done
}

# Job, arguments of the program: sums of every type and wire, and $work/JOB.N has the hash of each of rank N's results.
start_bits() {
	pids=()
	for ((rank = 0; rank < ranks; rank++)); do
		ip netns exec "$name-$rank" env RANK=$rank WORLD_SIZE=$ranks SWITCHML_JOB="$1" \
			SWITCHML_SWITCH="${switch:-10.77.0.1}" timeout "${bits_seconds:-100}" "${rank_of_bits:?}" "${@:2}" \
			>"$work/$1.$rank" 2>"$work/said-$1.$rank" &
		pids+=($!)
	done
}

# Title, job, arguments: the same bits as those of the job "bits".
same_bits() {
	start_bits "${@:2}"
	expect_success "$1" "${pids[@]}"
	for ((rank = 0; rank < ranks; rank++)); do
		[ -s "$work/bits.0" ] && cmp "$work/bits.0" "$work/$2.$rank" || fail "$1: the same bits"
	done
}

two_jobs() {
	start_job one -b 4 -e 1M -f 16 -n 5 -d float
	local first=("${pids[@]}")
	start_job two -b 4 -e 1M -f 16 -n 5 -d int32 -o all
	expect_success "two jobs at once" "${first[@]}" "${pids[@]}"
}

killed_worker_is_named() {
	start_job killed -b 1M -e 1M -n 1000000
	await_under_way killed "${switch:-10.77.0.1}"
	ip netns pids "$name-2" | xargs -r kill -9
	wait "${pids[2]}" 2>/dev/null
	for rank in 0 1; do
		wait "${pids[$rank]}"
		local status=$?
		[ $status = 1 ] && grep -q "rank $rank: .*rank 2.*its connection" "$work/killed.$rank" # not its silence
		holds $? "rank $rank names the dead rank 2: $(tail -n 1 "$work/killed.$rank")"
	done
}
