#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every type and operation in every form of a job that one machine can have without root, with
# packets that are lost, duplicated and late; `switchml bench` checks each element. Forms on
# separate hosts are in stripes.sh, racks-hosts.sh, xdp.sh and p4.sh.
# Usage: types.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
unset "${!SWITCHML_@}"
export SWITCHML_TIMEOUT=60 SWITCHML_DEBUG=info
limit=100

# The rank `alone` shares no memory, whatever SWITCHML_SHARED_MEMORY says.
alone=
at_place() {
	echo "env SWITCHML_SWITCH=${at[$1]} ${alone:+SWITCHML_SHARED_MEMORY=$((rank != alone))}"
}

# Title, text that every rank must log, bench's options, then -- and each rank's switch.
sums() {
	local title=$1 text=$2 rank bad=0
	start rank -n 1 -w 0 -c 1 "${@:3}"
	end_well "${pids[@]}" || bad=1
	for rank in "${!pids[@]}"; do says "rank.$rank" "$text" || bad=1; done
	says rank.0 'Wrong elements: 0 OK' || bad=1
	say $bad "$title" rank.*
}

# Packets that the ranks of the last job sent again.
sent_again() {
	sed -n 's/.* received, \([0-9]*\) sent again .* \([0-9]*\) because later .*/\1/p' rank.* |
		awk '{ n += $1 } END { print n + 0 }'
}

# The same arguments, without the options. Loss that no packet suffers would test nothing.
form() {
	local type n=0
	sums "$1: all types and operations" "$2" -b 8 -e 32K -f 64 -d all -o all "${@:3}"
	for type in double int64 uint8; do
		sums "$1: $type, with loss" "$2" -b 64K -e 64K -d $type --drop 2% --duplicate 2% --reorder 2% "${@:3}"
		n=$((n + $(sent_again)))
	done
	[ $n -gt 0 ]
	say $? "$1: with loss, $n packets were sent again" rank.*
}

# The packets of Ethernet: short ones, so that there are many.
export SWITCHML_MTU=1500
for name in one other third; do switch $name; done
at[three]=${at[one]},${at[other]},${at[third]}
at[none]='' at[embedded]=embedded
form "one switch" 'dedicated switch' -- one one one one
form "three switches" '3 dedicated switches' -- three three three three
SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_PORT
form "a stripe in every rank" '4 stripes, one in every rank' -- embedded embedded embedded embedded
# Faults need packets, so there is no loss in shared memory.
sums "shared memory: all types and operations" "share this host's memory" -b 8 -e 32K -f 64 -d all -o all -- none none none none
SWITCHML_SHARED_MEMORY=0 form "no switch, and packets" 'stripe' -- none none none none
SWITCHML_THREADS=2 form "two threads" 'dedicated switch' -- one one one one
alone=3
form "shared memory without a switch" '2 stripes, one on every host' -- none none none none
says rank.1 "ranks 0, 1 and 2 share this host's memory, and rank 0 sends"
say $? "shared memory without a switch: three ranks share it, and one sends its own packets" rank.*
form "shared memory under a switch" 'dedicated switch' -- one one one one
says rank.0 "ranks 0, 1 and 2 share this host's memory, and rank 0 sends"
say $? "shared memory under a switch: three ranks share it, and one sends its own packets" rank.*
form "shared memory under three switches" '3 dedicated switches' -- three three three three
says rank.0 "stripe 2: .*ranks 0, 1 and 2 share this host's memory, and rank 0 sends"
say $? "shared memory under three switches: three ranks share it, and one sends its own packets" rank.*
alone=
for name in left right; do leaf $name one; done
form "two leaves, and a rank at the root" 'dedicated switch' -- left left right one
exit $((failures > 0))
