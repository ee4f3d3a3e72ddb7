#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `switchml doctor --peers` on three hosts and a switch: all fine, and each fault that it can
# find. Two ranks are on host 0. Needs root.
#
#	tests/cmd/peers.sh build/switchml build/tests/clock.so
switchml=$(realpath "$1")
clock=$(realpath "$2")
ranks=3
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"

processes=4
place=(0 0 1 2) # the host of each rank

# The names of all hosts, on all hosts: `ip netns exec` shows each its own /etc/hosts.
name_hosts() {
	local host
	for host in switch 0 1 2; do
		mkdir -p "/etc/netns/$name-$host"
		printf '127.0.0.1 localhost\n%s\n' "10.77.0.1 hostswitch" >"/etc/netns/$name-$host/hosts"
		for ((rank = 0; rank < ranks; rank++)); do
			echo "10.77.0.1$rank host$rank"
		done >>"/etc/netns/$name-$host/hosts"
	done
}

clean_up() {
	remove_hosts
	rm -rf "/etc/netns/$name-"*
}

# Job, environment of all ranks: start them. ${own[RANK]} is one rank's own environment, and
# ${program[RANK]} its program ("-": it does not start).
check() {
	local job=$1 rank
	shift
	pids=()
	for ((rank = 0; rank < processes; rank++)); do
		[ "${program[$rank]:-}" != - ] || continue
		# shellcheck disable=SC2086
		(on_host "${place[$rank]}" env RANK=$rank WORLD_SIZE=$processes \
			MASTER_ADDR=10.77.0.10 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "$@" \
			${own[$rank]:-} timeout 250 "${program[$rank]:-$switchml}" doctor --peers ${options:-}) \
			>"$work/$job.$rank" 2>&1 &
		pids[rank]=$!
	done
	wait "${pids[0]}"
	status=$?
	for rank in "${!pids[@]}"; do
		wait "${pids[$rank]}"
	done
	own=() program=()
}

# Title, job, status, texts: what rank 0 must say, and how it must end.
expect() {
	local title=$1 job=$2 wanted=$3 bad=0
	shift 3
	[ "$status" = "$wanted" ] || bad="exit status $status"
	for text; do
		says "$work/$job.0" "$text" || bad="it does not say: $text"
	done
	say "$bad" "$title" "$work/$job".*
}

# Job, pattern: rank 0 must not say that.
expect_not() {
	! says "$work/$1.0" "$2"
	say $? "$1: it does not say: $2" "$work/$1.0"
}

set_up_hosts
trap clean_up EXIT
name_hosts
own=() program=()

check fine
cat "$work/fine.0"
expect "all is fine without a switch" fine 0 'ok  *trial  *4 ranks .* without a switch' \
	'^0 *0-1 *host0 *10.77.0.10 .* 1500 *- *1500 *1500$' '^2 *3 *host2 .*1500 *1500 *-$' \
	'^ranks 0-1 can share memory$'
expect_not fine 'warning\|problem'
expect_not fine 'ranks .*2.* can share memory'
for rank in 1 2 3; do
	[ ! -s "$work/fine.$rank" ]
	say $? "rank $rank says nothing" "$work/fine.$rank"
done

options=--json check json
python3 - "$work/json.0" <<'JSON'
import json, sys
told = json.load(open(sys.argv[1]))
assert told["problems"] == 0, told
assert [host["name"] for host in told["hosts"]] == ["host0", "host1", "host2"], told
assert told["hosts"][0]["ranks"] == [{"rank": 0, "memory": 0}, {"rank": 1, "memory": 0}], told
assert {path["largest"] for host in told["hosts"] for path in host["paths"]} == {1500}, told
assert {path["name"] for host in told["hosts"] for path in host["paths"]} == {"ok"}, told
JSON
say $? "--json" "$work/json.0"

# One pair, one way.
on 1 iptables -A INPUT -p udp -s 10.77.0.12 -j DROP
check oneway SWITCHML_PORTS=30000-30031
expect "UDP from host2 to host1 is lost" oneway 1 \
	'problem *udp  *UDP from host2 (10.77.0.12) does not arrive at host1 (10.77.0.11); the other' \
	"fix: let host1's firewall pass UDP from 10.77.0.12 to ports 30000-30031" '^2 .*1500 *none *-$'
[ "$(grep -c ' udp ' "$work/oneway.0")" = 1 ]
say $? "one line for one fault" "$work/oneway.0"
on 1 iptables -F INPUT

# A small MTU.
ip -n "$name-2" link set eth0 mtu 1400
check narrow
expect "a smaller MTU on host2" narrow 0 'warning *mtu  *the MTU of host2 is 1400, others have 1500' \
	'ip link set dev INTERFACE mtu 1500' '^0 .*1500 *1092$' '^2 .* 1400 *1092 *1092 *-$'
ip -n "$name-2" link set eth0 mtu 1500

# Something between the hosts that takes only small packets.
ip -n "$name-net" link set port-1 mtu 1400
check path
expect "a narrow path to host1" path 0 \
	'warning *mtu  *packets of more than 1092 bytes from host0 to host1 are lost'
ip -n "$name-net" link set port-1 mtu 1500

# TCP between hosts, and names.
on 1 iptables -A INPUT -p tcp --syn -s 10.77.0.12 -j REJECT --reject-with tcp-reset
sed -i 's/10.77.0.12 host2/10.9.9.9 host2/' "/etc/netns/$name-1/hosts"
check names
expect "TCP and a wrong name" names 0 'warning *tcp *TCP from host2 to host1 (10.77.0.11): Connection refused' \
	'warning *name *on host1, the name host2: has the address 10.9.9.9 here (its address is 10.77.0.12)'
on 1 iptables -F INPUT
sed -i 's/10.9.9.9 host2/10.77.0.12 host2/' "/etc/netns/$name-1/hosts"

# A name that no host knows: one line.
sed -i 's/ host2$/ other2/' "/etc/netns/$name-"[012]/hosts
check nameless
expect "a name that nobody knows" nameless 0 'warning *name *on host0 and 1 other host, the name host2: '
[ "$(grep -c 'warning *name' "$work/nameless.0")" = 1 ]
say $? "one line for one name" "$work/nameless.0"
sed -i 's/ other2$/ host2/' "/etc/netns/$name-"[012]/hosts

# The chosen interface, and one that does not exist.
check interface SWITCHML_SOCKET_IFNAME=eth0
expect "a chosen interface" interface 0 'ok  *trial *4 ranks .* without a switch' '^2 *3 *host2 .*1500 *1500 *-$'
own[2]=SWITCHML_SOCKET_IFNAME=ib
options="--wait 10" check nosuch
expect "an interface that is not there" nosuch 1 'problem *ranks *rank 2 of 4 did not connect within 10 s' \
	'fix: .*set SWITCHML_MASTER_ADDR'
says "$work/nosuch.2" 'no interface with an IPv4 address matches SWITCHML_SOCKET_IFNAME="ib"'
say $? "rank 2 names the interface" "$work/nosuch.2"

# mpirun on two hosts, without rank 0's address: no rank waits.
begun=$SECONDS
env -u RANK OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
	"$switchml" doctor --peers >"$work/lost.0" 2>&1
status=$?
expect "mpirun without rank 0's address" lost 2 'rank 1: there are ranks on other hosts, .* set SWITCHML_MASTER_ADDR'
[ $((SECONDS - begun)) -lt 30 ]
say $? "it does not wait"

# A name server that does not answer.
on switch iptables -A INPUT -p udp --dport 53 -j DROP
printf 'nameserver 10.77.0.1\noptions timeout:30\n' >"/etc/netns/$name-1/resolv.conf"
sed -i '/ host2$/d' "/etc/netns/$name-1/hosts"
check silent
expect "a silent name server" silent 0 'warning *name *on host1, the name host2: no answer in time'
rm "/etc/netns/$name-1/resolv.conf"
echo 10.77.0.12 host2 >>"/etc/netns/$name-1/hosts"

# Settings, clocks.
own[3]="SWITCHML_WIRE=int16 SWITCHML_HEARTBEAT=7"
# A sanitizer's runtime must be the first library.
sanitizer=$(ldd "$switchml" | sed -n 's/.*=> \(.*lib[at]san[^ ]*\).*/\1/p')
own[2]="LD_PRELOAD=${sanitizer:+$sanitizer:}$clock SML_TEST_CLOCK=30"
check differ
expect "other settings, and another clock" differ 1 \
	'problem *settings *SWITCHML_WIRE of rank 3 on host2 is "int16", that of rank 0 is "default"' \
	'warning *settings *SWITCHML_HEARTBEAT of rank 3 on host2 is 7000, that of rank 0 is 5000' \
	'warning *clock *the clock of host1 is [23][0-9].[0-9] s ahead'

# A rank that does not come, and a stranger who claims to be it, with a name that would clear the screen.
cat >"$work/stranger" <<'PYTHON'
#!/usr/bin/env python3
import os, socket, sys, time


def varint(number):
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def field(number, value):
    """Of a message of control.proto: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


older = sys.argv[0].endswith("older")
hello = field(1, 7) * older + field(2, b"0.1.0") + field(3, 3)
hello += field(4, b"host3" if older else b"\x1b[2Jhost3") + field(6, b"3") + field(7, 1) + field(8, 1)
message = field(52, hello)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        # Next to the launcher's port.
        with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1), 60) as link:
            link.sendall(len(message).to_bytes(4, "big") + message)
        break
    except OSError:
        time.sleep(0.1)
PYTHON
chmod +x "$work/stranger"
program[3]=$work/stranger
options="--wait 10" check missing
expect "a rank that does not come" missing 1 'problem *ranks *rank 3 of 4 did not connect within 10 s' \
	'^0 .*1500$' '^switchml doctor: 3 of 4 ranks have come; waiting 5 s more for rank 3$'
expect_not missing $'\033'

# A rank that is stopped after it has met rank 0: the others report all the same, though one
# connection takes a second, because its first packet is lost. The last rank comes after the stop.
cat >"$work/last" <<SCRIPT
#!/bin/bash
until grep -q 'waiting .* more for rank 2$' "$work/frozen.0"; do sleep 0.1; done
ip netns pids $name-2 | xargs kill -STOP
"$switchml" "\$@"
ip netns pids $name-2 | xargs kill -CONT
SCRIPT
chmod +x "$work/last"
on 1 iptables -A INPUT -p tcp --syn -s 10.77.0.10 -m statistic --mode nth --every 2 --packet 0 -j DROP
program[2]=$work/last
check frozen
expect "a rank that is stopped" frozen 1 'problem *ranks *rank 3 on host2 has ended, or does not answer' \
	'^0 *0-1 *host0 .*1500 *- *1500 *?$' '^1 *2 *host1 .*1500 *1500 *- *?$' '^2 *3 *host2 '
expect_not frozen ' udp \| tcp '
on 1 iptables -F INPUT

# A rank whose release is called alike: the protocol's number is the fault, not the settings that it does not know.
cp "$work/stranger" "$work/older"
program[3]=$work/older
check older
expect "another protocol" older 1 'problem *version *rank 3 on host3 (0.1.0) has control protocol 7, rank 0 (0.1.0) has'
expect_not older ' settings '

# With a switch.
start_switch 2>/dev/null
check switched SWITCHML_SWITCH=10.77.0.1
expect "all is fine at a switch" switched 0 'ok  *trial *4 ranks .* at the switch'
on switch iptables -A INPUT -p udp -s 10.77.0.11 -j DROP
ip -n "$name-1" route add unreachable 10.77.0.12/32
check cut SWITCHML_SWITCH=10.77.0.1
expect "UDP from host1 does not reach the switch" cut 1 \
	'problem *switch *from host1: UDP packets do not arrive at port 28500' \
	'warning *tcp *TCP from host1 to host2 (10.77.0.12): No route to host'

[ $failures = 0 ]
