#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An MPI program with the preload on several hosts: network namespaces, each with its own
# name. Needs root and Open MPI.
#
#	mpi-hosts.sh PRELOAD-LIBRARY PROGRAM-FOLDER SWITCHML
#
# The network is that of hosts.sh. mpirun runs on the switch's host, and its remote shell
# is `ip netns exec`. Hosts are named by their addresses, so the ranks find each other
# without a name service.
set -u

preload=$(realpath "$1")
programs=$(realpath "$2")
switchml=$(realpath "$3")
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"

mpirun=$(command -v mpirun.openmpi || command -v mpirun)
[ -n "$mpirun" ] || skip "mpirun is not installed"
ldd "$preload" | grep -q libmpi.so || skip "the library is not built for Open MPI"
if ldd "$preload" | grep -q 'lib[at]san'; then
	skip "a sanitizer's build: mpi.sh has that"
fi
command -v unshare >/dev/null || skip "unshare is not installed"
set_up_hosts
unset "${!SWITCHML_@}"

cat >"$work/shell" <<SHELL
#!/bin/bash
host=\$1
shift
exec ip netns exec $name-\${host#10.77.0.1} unshare --uts sh -c "hostname \$host; \$*"
SHELL
chmod +x "$work/shell"

# Command: run it on all hosts.
on_all_hosts() {
	timeout 100 ip netns exec "$name-switch" "$mpirun" --allow-run-as-root -n $ranks \
		--host 10.77.0.10,10.77.0.11,10.77.0.12 --mca plm_rsh_agent "$work/shell" \
		--mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl tcp,self \
		--mca btl_tcp_if_include eth0 --mca mpi_yield_when_idle 1 "$@" >"$work/out" 2>&1
}

# Title, what must go through the switch, environment.
expect_right() {
	local title=$1 expected=$2
	shift 2
	on_all_hosts env LD_PRELOAD="$preload" SWITCHML_SUMMARY=all SWITCHML_MPI_THRESHOLD=64K "$@" \
		"$programs/mpi-communicators"
	[ $? = 0 ] && grep -qx '0 wrong' "$work/out" &&
		says "$work/out" "rank 0\]: $expected of 41 all-reduces through"
	say $? "$title: $expected of 41 through the switch" "$work/out"
}

expect_right "no switch" 36 A=
expect_right "no switch, a port of ours" 36 SWITCHML_MASTER_PORT=28600
# UDP is let in on these ports only; of TCP, MPI has ports of its own.
for ((rank = 0; rank < ranks; rank++)); do
	on $rank iptables -A INPUT -p udp ! --dport 30000:30015 -j DROP
done
expect_right "no switch, a firewall and SWITCHML_PORTS" 36 SWITCHML_PORTS=30000-30015
for ((rank = 0; rank < ranks; rank++)); do
	on $rank iptables -F INPUT
done
start_switch
expect_right "a switch on another host" 36 SWITCHML_SWITCH=10.77.0.1

# A program without MPI, by mpirun: all ranks find the same name for their job.
on_all_hosts env SWITCHML_SWITCH=10.77.0.1 SWITCHML_DEBUG=info "$switchml" bench -b 4K -e 4K -n 3 &&
	[ "$(grep -o 'job "mpirun-[^"]*"' "$work/out" | sort | uniq -c | awk '{ print $1 }')" = $ranks ]
say $? "mpirun's name of the run is the same on all hosts" "$work/out"

# The control connections work, but packets do not arrive: no rank may wait for the last
# host.
ip netns exec "$name-2" iptables -A INPUT -p udp -j DROP
expect_right "a firewall in front of the last host" 0 SWITCHML_SWITCH=10.77.0.1
[ "$(grep -c 'because of rank' "$work/out")" = 1 ] && says "$work/out" 'because of rank 2: '
say $? "one line says that packets do not reach rank 2" "$work/out"
exit $((failures > 0))
