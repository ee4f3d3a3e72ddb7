#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Elastic jobs with the switch in the kernel, on a box between network namespaces: examples/elastic.c.
# Needs root and BPF.
#
#	tests/xdp/elastic-xdp.sh SWITCHML ELASTIC
#
#	worker 0 ---- port-0 +-----+ port-2 ---- worker 2
#	worker 1 ---- port-1 | box | port-3 ---- worker 3
#	                     +-----+ port-4 ---- worker 4
switchml=$(realpath "$1")
elastic=$(realpath "$2")
network=10.77.0
ranks=5
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/boxes.sh
. "$(dirname "$0")/../support/boxes.sh"
# shellcheck source=tests/support/elastic.sh
. "$(dirname "$0")/../support/elastic.sh"
export SWITCHML_SHARED_MEMORY=0

build_network() {
	add_box box 1 && plug_ranks box "$ranks" || return 1
	for ((rank = 0; rank < ranks; rank++)); do
		declare -g "where_$rank=ip netns exec $name-$rank"
	done
}

set_up_hosts
ip netns exec "$name-box" "$switchml" switch --dataplane xdp --iface "$interfaces" >"$work/switch" 2>&1 &
daemon=$!
await_xdp "$work/switch" "$daemon" || give_up "the switch does not start"
export SWITCHML_SWITCH=$network.1
survive xdp
