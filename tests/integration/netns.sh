#!/bin/bash
# Real ranks in network namespaces, with packets lost on the way. Needs root.
#
#	tests/integration/netns.sh build/switchml
#
#	   rank 0        rank 1        rank 2        switch
#	+---------+   +---------+   +---------+   +---------+
#	| 10.77.  |   | 10.77.  |   | 10.77.  |   | 10.77.  |     a namespace each;
#	|    0.10 |   |    0.11 |   |    0.12 |   |    0.1  |     what arrives over UDP
#	+----+----+   +----+----+   +----+----+   +----+----+     is lost at random here
#	     | veth        | veth        | veth        | veth
#	+----+-------------+-------------+-------------+----+
#	|                  bridge, MTU 1500                 |     a fifth namespace
#	+---------------------------------------------------+
#
# Losing what arrives at both ends loses packets both ways.
switchml=$(realpath "$1")
ranks=3
network=10.77.0
# shellcheck source=tests/integration/hosts.sh
. "$(dirname "$0")/hosts.sh"

build_network() {
	add_bridge net && add_host switch net 1 || return 1
	for ((rank = 0; rank < ranks; rank++)); do
		add_host $rank net 1$rank || return 1
	done
}

check_hosts iptables
trap clean_up EXIT
build_network 2>"$work/why" || skip "no network namespaces here: $(tail -n 1 "$work/why")"
lose 0.5 switch 0 1 2 2>"$work/why" || skip "iptables cannot drop here: $(tail -n 1 "$work/why")"
lose 0 switch 0 1 2

on switch "$switchml" switch >"$work/switch" 2>&1 &
for ((i = 0; i < 50; i++)); do
	[ -s "$work/switch" ] && break
	sleep 0.1
done

exact_sums "no loss" -b 4 -e 4M -f 16
lose 0.01 switch 0 1 2
exact_sums "1 % lost each way" -b 4 -e 1M -f 16
two_jobs
lose 0.1 switch 0 1 2
exact_sums "10 % lost each way" -b 4 -e 256K -f 16
lose 0 switch 0 1 2
killed_worker_is_named
[ $failures = 0 ]
