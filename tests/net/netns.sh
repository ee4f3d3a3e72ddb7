#!/bin/bash
# Real ranks in network namespaces, with lost packets: packets that arrive over UDP are
# dropped at random. Both ends drop packets, so packets are lost in both directions. Needs
# root.
#
#	tests/net/netns.sh build/switchml
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/hosts.sh"
. "$(dirname "$0")/../support/jobs.sh"

set_up_hosts
lose 0.5 switch 0 1 2 2>"$work/why" || skip "iptables cannot drop here: $(tail -n 1 "$work/why")"
lose 0 switch 0 1 2
start_switch

exact_sums "no loss" -b 4 -e 4M -f 16
lose 0.01 switch 0 1 2
exact_sums "1 % lost each way" -b 4 -e 1M -f 16
two_jobs
lose 0.1 switch 0 1 2
exact_sums "10 % lost each way" -b 4 -e 256K -f 16
lose 0 switch 0 1 2
killed_worker_is_named
[ $failures = 0 ]
