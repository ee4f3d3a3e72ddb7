#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SWITCHML_PORTS: jobs on hosts whose firewalls let in nothing but these ports and, at the
# switch, its own. Needs root.
#
#	tests/net/ports.sh build/switchml
switchml=$(realpath "$1")
ranks=3
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"

ports=30000-30015

# Host, ports: lets in TCP connections and UDP packets for these ports, whoever sends them, and
# of all other TCP connections those that the host has opened itself. There is no connection
# tracking: a UDP packet gets in by its port alone, even an answer.
wall() {
	on "$1" iptables -P INPUT DROP &&
		on "$1" iptables -A INPUT -i lo -j ACCEPT &&
		on "$1" iptables -A INPUT -p tcp --dport "${2/-/:}" -j ACCEPT &&
		on "$1" iptables -A INPUT -p udp --dport "${2/-/:}" -j ACCEPT &&
		on "$1" iptables -A INPUT -p tcp ! --syn -j ACCEPT
}

# Job, environment: start its ranks, one on each host.
start_job() {
	begin_ranks $ranks "$1" LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.10 MASTER_PORT=29500 SWITCHML_DEBUG=info \
		"${@:2}" timeout 250 "$switchml" bench --job "$1" -b 4K -e 256K -f 16 -n 3 -w 1
}

# Title, job, a text that every rank must have written.
expect_success() {
	local bad=0
	for ((rank = 0; rank < ranks; rank++)); do
		wait "${pids[$rank]}" || bad=1
		says "$work/$2.$rank" "$3" || bad=1
	done
	say $bad "$1" "$work/$2".*
}

# Title, job, text: all ranks fail. Some rank says why in one line with this text; the others may
# only say that a rank has failed.
expect_refusal() {
	local bad=0
	for ((rank = 0; rank < ranks; rank++)); do
		wait "${pids[$rank]}" && bad="rank $rank succeeds"
	done
	grep -q "$3" "$work/$2".* || bad="no rank says: $3"
	say "$bad" "$1" "$work/$2".*
}

# Title, job, text, ranks: these ranks all fail, and each says why with this text.
expect_each() {
	local rank bad=0
	for rank in $4; do
		wait "${pids[$rank]}" && bad="rank $rank succeeds"
		says "$work/$2.$rank" "$3" || bad="rank $rank does not say: $3"
	done
	say "$bad" "$1 (rank $4)" "$work/$2".*
}

set_up_hosts
wall switch 28500-28500 || skip "iptables has no --dport here"
for ((rank = 0; rank < ranks; rank++)); do
	wall $rank $ports
done
start_switch --listen 10.77.0.1:28500 2>/dev/null

start_job embedded SWITCHML_PORTS=$ports
expect_success "without a switch, one stripe in every rank" embedded "ports $ports (SWITCHML_PORTS)"
start_job threads SWITCHML_PORTS=$ports SWITCHML_THREADS=3
expect_success "the same with three threads each" threads "3 threads"
start_job other SWITCHML_PORTS=$ports MASTER_PORT=30006
expect_success "a launcher's port within the range" other "ports $ports"
start_job dedicated SWITCHML_PORTS=$ports SWITCHML_SWITCH=10.77.0.1
expect_success "with a switch" dedicated "dedicated switch 10.77.0.1.*ports $ports"

# Without the setting, nobody gets through.
start_job unset-embedded SWITCHML_TIMEOUT=10
expect_refusal "without the setting" unset-embedded "10.77.0.10:29501.*SWITCHML_PORTS"
start_job unset-dedicated SWITCHML_TIMEOUT=60 SWITCHML_SWITCH=10.77.0.1
expect_refusal "with a switch, without the setting" unset-dedicated "UDP.*SWITCHML_PORTS"

# Each rank explains a blocked path by itself, not only the first rank that fails.
on switch iptables -I INPUT -p udp -j DROP
start_job blocked SWITCHML_PORTS=$ports SWITCHML_TIMEOUT=60 SWITCHML_SWITCH=10.77.0.1
expect_each "UDP is blocked at the switch" blocked \
	"TCP to the switch at 10.77.0.1:28500 works, but UDP port 28500 there does not answer" "0 1 2"
on switch iptables -D INPUT -p udp -j DROP

# Nobody has this address, and without a switch it is rank 0 that is missing there.
start_job nowhere SWITCHML_PORTS=$ports SWITCHML_TIMEOUT=8 SWITCHML_MASTER_ADDR=10.77.0.99
# The kernel says so when nobody has answered its ARP, or the library because that takes long.
expect_each "rank 0's address is wrong" nowhere \
	"rank 0 at 10.77.0.99:.* cannot be reached: \(no answer\|No route to host\)" "1 2"
expect_each "rank 0's address is wrong" nowhere "is that address one of rank 0's host?" "0"

# Too few ports.
start_job few SWITCHML_PORTS=30000-30001 SWITCHML_THREADS=3 SWITCHML_TIMEOUT=20
expect_refusal "too few ports" few \
	"all 2 UDP ports of SWITCHML_PORTS=30000-30001 are in use on this host. A rank needs 3 (3 threads"
start_job one SWITCHML_PORTS=30000-30000 SWITCHML_SWITCH=10.77.0.1 SWITCHML_THREADS=2 SWITCHML_TIMEOUT=20
expect_refusal "one port for two threads" one "A rank needs 2 (2 threads x 1 switch)"
start_job wrong SWITCHML_PORTS=30000,30015
expect_refusal "a range that is none" wrong 'SWITCHML_PORTS="30000,30015" is not allowed'

[ $failures = 0 ]
