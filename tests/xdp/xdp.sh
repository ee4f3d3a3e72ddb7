#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The switch in the kernel, on a box between network namespaces. Needs root and BPF.
#
#	tests/xdp/xdp.sh build/switchml build/demo/switchml-demo build/src/bpf/tag.bpf.o build/tests/rank-of-bits
#
#	"ports": each rank on a port of the box, which is their bridge, too
#
#	  rank 0 ---- port-0 +--------------+ port-2 ---- rank 2
#	  rank 1 ---- port-1 | bridge   box |             XDP on port-0, port-1, port-2
#	                     +--------------+
#
#	"nic": all of them behind the box's one interface
#
#	  rank 0 ---+
#	  rank 1 ---+ net (a bridge) ---- eth0 box        XDP on eth0
#	  rank 2 ---+
#
#	"mixed": rank 0 on a port of its own, ranks 1 and 2 behind another
#
# veths transmit for XDP when their other end has GRO: the ends that are not the
# box's get it here, but where that is what is tested.
switchml=$(realpath "$1")
demo=$2
tag=$3 # tests/xdp/tag.bpf.c, compiled
rank_of_bits=$4
network=10.77.0
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"
# shellcheck source=tests/support/boxes.sh
. "$(dirname "$0")/../support/boxes.sh"

build_network() {
	add_box box 1 && plug_ranks box "$ranks"
}

build_nic() {
	add_bridge net && plug box net 1 && gro net port-box on || return 1
	for ((rank = 0; rank < ranks; rank++)); do
		plug $rank net 1$rank || return 1
	done
	interfaces=eth0
}

build_mixed() {
	add_box box 1 && add_bridge net && plug 0 box 10 && plug 1 net 11 && plug 2 net 12 &&
		join_boxes net box &&
		gro 0 eth0 on && gro net uplink on || return 1
	interfaces=port-0,port-net
}

# Removes hosts, but not their output.
tear_down() {
	work=$work/none remove_hosts
}

# Options: start the daemon on the box; $daemon is its process.
start_switch() {
	: >"$work/switch"
	# Not with `on`, whose process would be a shell.
	ip netns exec "$name-box" "$switchml" switch --dataplane xdp --iface "$interfaces" "$@" \
		>"$work/switch" 2>&1 &
	daemon=$!
	await_xdp "$work/switch" "$daemon" || fail "the switch does not start"
}

stop_switch() {
	kill "$daemon" && wait "$daemon"
}

no_program() {
	on box ip link show >"$work/links"
	! says "$work/links" xdp
}

no_trace() {
	await no_program
	on box bpftool prog show >"$work/programs" 2>/dev/null || bpftool prog show >"$work/programs"
	if grep xdp "$work/links"; then
		fail "$1: the interfaces are as they were"
	else
		echo "ok: $1: no program is left on an interface"
	fi
}

# ---- what a job sees ----

sums() {
	local type
	exact_sums "$1" -b 4 -e 1M -f 16
	SWITCHML_THREADS=2 start_job shards -b 4 -e 64K -f 16 -n 2 -d all -o all
	expect_success "$1: all types and operations, two sockets a rank" "${pids[@]}"
	switch=[fd77::1] start_job six -b 4 -e 1M -f 16 -n 2
	expect_success "$1: IPv6" "${pids[@]}"
	start_job faults -b 4 -e 256K -f 16 -n 5 --drop 2% --duplicate 1% --reorder 1%
	expect_success "$1: packets lost, duplicated and late, both ways" "${pids[@]}"
	lose 0.02 0 1 2
	for type in float double int64 uint8; do
		start_job lossy -b 8 -e 256K -f 16 -n 5 -d $type
		expect_success "$1: results lost on their way, $type" "${pids[@]}"
	done
	lose 0 0 1 2
	expect_counter "$1: results are sent again" box resend 1
	two_jobs
}

# Host, options: start an ordinary switch; $udp is its process.
start_udp_switch() {
	: >"$work/udp-switch"
	ip netns exec "$name-$1" "$switchml" switch "${@:2}" >"$work/udp-switch" 2>&1 &
	udp=$!
	await says "$work/udp-switch" 'ready on' || fail "a UDP switch does not start"
}

stop_udp_switch() {
	kill "$udp" && wait "$udp"
}

same_training() {
	[ -x "$demo" ] || { echo "left out: the demo is not built"; return; }
	start_udp_switch box --listen :28600
	train xdp $network.1 $network.1 $network.1
	train udp $network.1:28600 $network.1:28600 $network.1:28600
	stop_udp_switch
	expect_same_training "both dataplanes train to the same bits" xdp udp
}

# Ranks 0 and 1 share host 0's memory, 2 and 3 host 1's; 4 is alone on host 2. The switch has a child for each.
shared_hosts() {
	local places=("0=$network.1" "0=$network.1" "1=$network.1" "1=$network.1" "2=$network.1")
	SWITCHML_DEBUG=info start shared -b 4 -e 1M -f 16 -n 2 -d all -- "${places[@]}"
	expect_success "hosts whose ranks share memory" "${pids[@]}"
	expect_words "ranks of one host are one child" "ranks 2 and 3 share this host's memory, and rank 2 sends" shared.3
	start shared-lossy -b 4 -e 256K -f 16 -n 5 --drop 2% --duplicate 1% --reorder 1% -- "${places[@]}"
	expect_success "hosts whose ranks share memory, with losses" "${pids[@]}"
}

# ---- what an administrator sees ----

# The box still works as a bridge, also for another switch on the same UDP port behind it.
other_traffic() {
	start_udp_switch 0
	start_job near -b 64K -e 64K -n 50
	local near=("${pids[@]}")
	switch=$network.10 start_job far -b 4 -e 1M -f 16 -n 2
	expect_success "other traffic passes through the box: a switch behind it" "${pids[@]}" "${near[@]}"
	stop_udp_switch
}

# The numbers of the kernel's slots, and the share of a link whose speed is known. Ranks tell their
# numbers about once a second, so in three seconds each of them has.
metrics_agree() {
	local url share
	start_switch --metrics 127.0.0.1:0
	url=$(sed -n 's/.*metrics at \([^ ]*\).*/\1/p' "$work/switch")
	start_job counted -b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000 --pause 20
	await_under_way counted $network.1
	on box python3 "$(dirname "$0")/../cmd/metrics.py" agree "$switchml" 127.0.0.1 "$url" >"$work/agreed" 2>&1
	expect_words "the metrics agree with the status" "counters agree" agreed
	share='.*"link_share":0\.[0-9]*[1-9]'
	on box timeout 60 "$switchml" status --switch 127.0.0.1 --json --watch=3 |
		grep -m 1 "$share$share$share" | cut -c 1-80 >"$work/share"
	expect_words "each rank's share of its link is known" address share
	kill "${pids[0]}"
	expect_success "and its sums are right" "${pids[@]}"
	stop_switch
}

stop_a_rank() {
	local stopped
	stopped=$(pgrep -P "${pids[2]}")
	kill -STOP "$stopped"
	await says "$work/late.0" 'waiting .* for rank 2 of 3 (.*, pid .*) in job "late"'
	kill -CONT "$stopped"
}

waiting_is_told() {
	SWITCHML_WAIT_NOTICE=0.3 SWITCHML_HEARTBEAT=60 in_the_middle late $network.1 stop_a_rank -b 256K -e 256K
	expect_success "a rank that had stopped goes on" "${pids[@]}"
	expect_words "meanwhile, another one waits and says for whom" "waiting .* for rank 2 of 3" late.0
}

kill_daemon() {
	kill -9 "$daemon"
	wait "$daemon" 2>/dev/null
}

kill_and_start_again() {
	kill_daemon
	no_trace "kill -9 in the middle of a job"
	start_switch
}

killed_daemon() {
	in_the_middle resumed $network.1 kill_and_start_again -b 256K -e 256K
	expect_success "the daemon is killed and started again in the middle of a job" "${pids[@]}"
	expect_words "the job went on" "it is back, and the job goes on there (epoch 2)" resumed.
}

# Both dataplanes for one job: side by side, then one after the other.
change_of_dataplane() {
	start_udp_switch box --listen :28600
	switch=$network.1,$network.1:28600 start_job striped -b 4 -e 1M -f 16 -n 2
	expect_success "a job over a stripe of each dataplane" "${pids[@]}"
	switch="$network.1|$network.1:28600" in_the_middle moved $network.1 kill_daemon -b 256K -e 256K
	expect_success "a UDP switch goes on where this one was" "${pids[@]}"
	expect_words "the job went on there" "28600 takes over" moved.
	stop_udp_switch
	start_switch
}

features() {
	for host in box 0 1 2 net; do
		[ -e "/var/run/netns/$name-$host" ] || continue
		for interface in $(on $host ls /sys/class/net); do
			echo "$host $interface"
			on $host ethtool -k "$interface" 2>/dev/null
			on $host ip link show dev "$interface"
		done
	done
}

interfaces_stay() {
	features >"$work/before"
	start_switch "$@"
	stop_switch
	no_trace "the end of the daemon"
	features >"$work/after"
	cmp "$work/before" "$work/after" || fail "offloads and settings of interfaces stay"
}

# Rank 2 is on a port that the switch does not have.
wrong_port() {
	interfaces=port-0,port-1 start_switch
	start_job wrong-port -b 4 -e 4 -n 1
	wait "${pids[@]}"
	expect_words "a rank on another port is refused" "rank 2 .*do not arrive at an interface" wrong-port.
	stop_switch
}

another_program() {
	start_switch
	ip netns exec "$name-box" "$switchml" switch --listen :28700 --dataplane xdp --iface "${interfaces##*,}" \
		>"$work/second" 2>&1 && fail "a second program is refused"
	expect_words "a second program is refused" "already has an XDP program" second
	stop_switch
}

privileges() {
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	on box "${user[@]}" "$switchml" switch -vv --dataplane xdp --iface "$interfaces" \
		>"$work/unprivileged" 2>&1 && fail "without privileges it is refused"
	expect_words "without privileges it is refused" "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" unprivileged
	expect_words "-vv shows libbpf's messages" "^libbpf: " unprivileged
	: >"$work/switch"
	ip netns exec "$name-box" "${user[@]}" --inh-caps +bpf,+perfmon,+net_admin --ambient-caps +bpf,+perfmon,+net_admin \
		"$switchml" switch --dataplane xdp --iface "$interfaces" >"$work/switch" 2>&1 &
	daemon=$!
	await is_ready_or_gone "$work/switch" "$daemon"
	start_job bpf -b 64K -e 64K -n 5
	expect_success "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are all that it needs" "${pids[@]}"
	grep Cap /proc/$daemon/status >"$work/capabilities"
	[ "$(awk '/CapEff/ { print $2 }' "$work/capabilities")" = 0000008000000000 ]
	holds $? "while it serves it has CAP_BPF alone"
	stop_switch
}

# All packets on the links of box and ranks have a tag, which hosts do not see.
vlan_tags() {
	for host in box 0 1 2; do
		on $host ethtool -K eth0 txvlan off >/dev/null 2>&1
		on $host tc qdisc add dev eth0 clsact &&
			on $host tc filter add dev eth0 egress bpf da obj "$tag" sec tc/push &&
			on $host tc filter add dev eth0 ingress bpf da obj "$tag" sec tc/pop || {
			fail "VLAN tags: tc cannot put them on"
			return
		}
	done
	exact_sums "VLAN tags" -b 4 -e 1M -f 16
	switch=[fd77::1] start_job six-tagged -b 4 -e 1M -f 16 -n 2 --drop 1%
	expect_success "VLAN tags and IPv6, with losses" "${pids[@]}"
	for host in box 0 1 2; do
		on $host tc qdisc del dev eth0 clsact
	done
}

# Interfaces of VLAN 5 on top. Their veths keep the tag outside the packet, where XDP
# cannot see it.
hidden_tags() {
	for host in box 0 1 2; do
		local last=1
		[ $host = box ] || last=1$host
		on $host ethtool -K eth0 txvlan on >/dev/null 2>&1
		if ! on $host ip link add link eth0 name eth0.5 type vlan id 5 2>/dev/null; then
			echo "left out: hidden VLAN tags (this kernel has no VLAN interfaces)"
			return
		fi
		on $host ip address add 10.79.0.$last/24 dev eth0.5
		on $host ip link set eth0.5 up
	done
	switch=10.79.0.1 SWITCHML_TIMEOUT=10 start_job hidden -b 4 -e 4 -n 1
	wait "${pids[@]}"
	expect_words "a tag that only the driver sees is told" "VLAN tag XDP does not see" hidden.
}

loopback() {
	interfaces=lo start_switch
	on box "$switchml" bench --local-workers 3 --switch 127.0.0.1 -b 4 -e 256K -f 16 -n 2 -d all \
		--drop 1% >"$work/loopback" 2>&1 &
	expect_success "ranks on the box itself, by the loopback" $!
	stop_switch
}

# MTU, hosts: of their eth0, and of the box's ports to them.
set_mtu() {
	for host in "${@:2}"; do
		on $host ip link set eth0 mtu "$1"
		on box ip link set port-$host mtu "$1"
	done
}

# Title, lanes: a job whose packets have so many.
sums_with_lanes() {
	SWITCHML_DEBUG=info start_job "lanes-$2" -b 4 -e 1M -f 16 -n 2 -d all
	expect_success "$1: sums" "${pids[@]}"
	expect_words "$1" "$2 lanes per packet" "lanes-$2."
}

# A veth takes XDP with an MTU of up to 3506.
jumbo_frames() {
	set_mtu 3500 0 1 2
	start_switch --xdp-mode native
	sums_with_lanes "an MTU of 3500" 832
	exact_sums "an MTU of 3500" -b 4 -e 1M -f 16
	start_udp_switch box --listen :28600
	switch=$network.1:28500 same_bits "packets of 832 lanes" bits int8
	switch=$network.1:28600 same_bits "the other dataplane" bits-udp int8
	SWITCHML_MTU=400 switch=$network.1:28600 same_bits "packets of 64 lanes there" bits-small int8
	stop_udp_switch
	switch=[fd77::1] start_job six-jumbo -b 4 -e 1M -f 16 -n 2 --drop 1%
	expect_success "an MTU of 3500, and IPv6, with losses" "${pids[@]}"
	set_mtu 1500 1
	sums_with_lanes "one rank has an MTU of 1500" 358
	switch=$network.1:28500 same_bits "packets of 358 lanes" bits-358 int8
	stop_switch
	await no_program
	set_mtu 9000 1
	on box "$switchml" switch --listen $network.1 --dataplane xdp --xdp-mode native \
		--iface "$interfaces" >"$work/too-long" 2>&1 && fail "an MTU above the driver's limit is refused"
	expect_words "an MTU above the driver's limit is refused" "port-1 refuses .*MTU" too-long
	[ "$(wc -l <"$work/too-long")" = 1 ] || fail "one line says so"
}

# ---- all of it ----

set_up_hosts
start_switch
sums "ports"
other_traffic
mismatch $network.1 $network.1 $network.1
killed_worker_is_named
shared_hosts
same_training
waiting_is_told
killed_daemon
change_of_dataplane
stop_switch
no_trace "SIGTERM"
interfaces_stay
wrong_port
loopback
if grep -q "without libmicrohttpd" <<<"$(timeout 20 "$switchml" switch --listen 127.0.0.1:0 --metrics 127.0.0.1:x 2>&1)"; then
	echo "left out: metrics (this build lacks libmicrohttpd)"
else
	metrics_agree
fi
another_program
privileges
gro 1 eth0 off
start_switch
exact_sums "a port that cannot transmit" -b 4 -e 256K -f 16
# With a program on its other end, it can.
expect_words "that is told" "cannot transmit for XDP" switch
stop_switch
tear_down

build_nic
start_switch
sums "nic"
vlan_tags
hidden_tags
killed_daemon
stop_switch
start_switch --xdp-mode generic
sums "generic"
stop_switch
interfaces_stay --xdp-mode generic
tear_down

build_network
jumbo_frames
tear_down

build_mixed
start_switch
exact_sums "mixed" -b 4 -e 1M -f 16
stop_switch
[ $failures = 0 ]
