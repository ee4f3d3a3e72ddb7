#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Stripes on real hosts, each a network namespace: in every rank where there is
# no switch, and over two switches. Needs root.
#
#	tests/job/stripes.sh build/switchml
#
#	   rank 0         rank 3         switch a       switch b
#	+---------+    +---------+    +---------+    +---------+
#	| 10.78.  |    | 10.78.  |    | 10.78.  |    | 10.78.  |    a namespace each;
#	|   1.10  | …  |   1.13  |    |    0.1  |    |    0.2  |    what arrives over UDP
#	+----+----+    +----+----+    +----+----+    +----+----+    is lost at random here
#	     | veth         | veth         | veth         | veth
#	+----+--------------+--------------+--------------+----+
#	|                bridge, MTU 1500, and IPv6            |    one more
#	+------------------------------------------------------+
switchml=$(realpath "$1")
ranks=4
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"
tables="iptables ip6tables"
all=(a b 0 1 2 3)
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets

# Host, last parts of its addresses.
add_host_of_both() {
	add_host "$1" "10.78.$2/16" && ip -n "$name-$1" address add "fd78::${2/./:}/64" dev eth0 nodad
}

build_network() {
	build_bridge && add_host_of_both a 0.1 && add_host_of_both b 0.2 || return 1
	for ((rank = 0; rank < ranks; rank++)); do
		add_host_of_both $rank 1.1$rank || return 1
	done
}

# Job, switchml bench's options: start its ranks, in this environment.
start_job() {
	# shellcheck disable=SC2086
	begin_ranks $ranks "$1" SWITCHML_DEBUG=info $environment timeout 250 "$switchml" bench --job "$1" "${@:2}"
}

# Title, environment, what each rank must say, most bytes.
sums() {
	environment=$2 form=$3 exact_sums "$1" -b 4 -e "$4" -f 16
}

shows_all_stripes() {
	$asking "$switchml" status --switch 10.78.1.10 >"$work/status"
	says "$work/status" "a stripe in every rank" &&
		says "$work/status" "3  rank 3 at 10.78.1.13, UDP port"
}

killed_rank_takes_its_stripe_along() {
	environment=$no_switch start_job killed -b 1M -e 1M -n 1000000
	await job_is 10.78.1.10 killed running
	await shows_all_stripes
	say $? "status shows each stripe" "$work/status"
	ip netns pids "$name-2" | xargs -r kill -9
	for rank in 0 1 3; do
		wait "${pids[$rank]}"
		says "$work/killed.$rank" "rank 2 .* died, and stripe 2 of the job with it"
		say $? "rank $rank names the dead rank 2 and its stripe" "$work/killed.$rank"
	done
}

# For start(): a place is a host. Rank 1 has its switches in another order than the others.
at_place() {
	local switches=10.78.0.1,10.78.0.2
	[ $rank != 1 ] || switches=10.78.0.2,10.78.0.1
	echo "ip netns exec $name-$1 env SWITCHML_SWITCH=$switches $environment"
}

# Job, environment, hosts of the ranks. All end at once, well before the timeout of a job that waits.
swapped() {
	local job=$1 environment=$2 rank
	shift 2
	limit=120 start "$job" -b 4K -e 4K -- "$@"
	for ((rank = 0; rank < $#; rank++)); do
		wait "${pids[$rank]}"
		[ $? = 1 ] && says "$work/$job.$rank" 'disagree about stripe.*in the same order (SWITCHML_SWITCH)'
		say $? "ranks on hosts $*, rank 1 with swapped switches, $environment: rank $rank has the error at once" \
			"$work/$job.$rank"
	done
}

start_switch() {
	: >"$work/switch-$1"
	ip netns exec "$name-$1" "$switchml" switch >"$work/switch-$1" 2>&1 &
	await_switch "$work/switch-$1"
}

set_up_hosts
lose 0.5 "${all[@]}" 2>"$work/why" || skip "iptables cannot drop here: $(tail -n 1 "$work/why")"
lose 0 "${all[@]}"
no_switch=SWITCHML_MASTER_ADDR=10.78.1.10
two_switches=SWITCHML_SWITCH=10.78.0.1,10.78.0.2
start_switch a
start_switch b

sums "a stripe in every rank" "$no_switch" "4 stripes, one in every rank" 4M
sums "two switches" "$two_switches" "2 dedicated switches" 4M
sums "a stripe in every rank, by IPv6, two threads" \
	"SWITCHML_MASTER_ADDR=fd78::1:10 SWITCHML_THREADS=2" "4 stripes, one in every rank" 64K
sums "a stripe in every rank, the interface chosen" \
	"$no_switch SWITCHML_SOCKET_IFNAME=eth" "4 stripes, one in every rank" 64K
swapped swapped1 SWITCHML_SHARED_MEMORY=0 0 1 2 3
swapped swapped2 SWITCHML_SHARED_MEMORY=1 0 1
swapped swapped3 SWITCHML_SHARED_MEMORY=1 0 0 0
swapped swapped4 SWITCHML_SHARED_MEMORY=1 0 0 1 1
lose 0.01 "${all[@]}"
sums "a stripe in every rank, 1 % lost each way" "$no_switch" "4 stripes" 1M
sums "two switches, 1 % lost each way" "$two_switches" "2 dedicated switches" 1M
lose 0 "${all[@]}"
killed_rank_takes_its_stripe_along
[ $failures = 0 ]
