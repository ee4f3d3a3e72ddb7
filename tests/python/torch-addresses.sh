#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch's ranks find rank 0 where no variable says where it is: on two hosts whose own names mean
# the loopback, as Debian's do, and on a host that has only ::1, or no /proc. Needs root, and a
# Python with PyTorch.
#
#	tests/python/torch-addresses.sh build/switchml
ranks=2 # hosts
support=$(dirname "$0")/../support
root=$(realpath "$support/../..")
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"

for place in "${SML_TORCH:-}" "$root/build-python/venv/bin"; do
	[ ! -x "$place/python3" ] || ! "$place/python3" -c "import numpy, torch" 2>/dev/null || python=${python:-$place/python3}
done
[ -n "${python:-}" ] || skip "build-python/venv has no PyTorch (make test-python)"

cat >"$work/rank.py" <<'END'
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import switchml.torch

rank, how = int(sys.argv[1]), sys.argv[2]
where = {"init_method": how}
if not "://" in how:  # a store at this address
    where = {"store": dist.TCPStore(how, 29521, 2, rank == 0)}
dist.init_process_group("switchml", rank=rank, world_size=2, timeout=timedelta(seconds=60), **where)
turned = dist.group.WORLD.split_group([1, 0])  # its rank 0 is on the other host
for group in (dist.group.WORLD, turned):
    tensor = torch.full((1000,), float(rank + 1))
    group.allreduce([tensor]).wait()
    assert tensor.unique().tolist() == [3.0], tensor
turned.shutdown()
dist.destroy_process_group()
END

# Rank, command: run the rank there, with an environment that does not say where rank 0 is.
run_rank() {
	local rank=$1 how=$2
	shift 2
	"$@" env -u MASTER_ADDR -u SWITCHML_MASTER_ADDR PYTHONPATH="$root/bindings/python" OMP_NUM_THREADS=1 \
		timeout 200 "$python" "$work/rank.py" "$rank" "$how" >"$work/rank.$rank" 2>&1
}

# Title, how: the ranks on two hosts.
expect_two_hosts() {
	pids=()
	for ((host = 0; host < ranks; host++)); do
		(run_rank $host "$2" in_place $host) &
		pids+=($!)
	done
	expect_success "two hosts, $1" "${pids[@]}"
}

# Host, command: run it there, where the host's own name is 127.0.1.1 and other names are unknown.
in_place() {
	local host=$1
	shift
	ip netns exec "$name-$host" unshare --uts --mount sh -c \
		"hostname host$host; mount --bind '$work/hosts.$host' /etc/hosts; exec \"\$@\"" in_place "$@"
}

# Title, how, command: both ranks on one host.
expect_one_host() {
	local title=$1 how=$2
	shift 2
	pids=()
	for ((rank = 0; rank < 2; rank++)); do
		(run_rank $rank "$how" "$@") &
		pids+=($!)
	done
	expect_success "one host, $title" "${pids[@]}"
}

set_up_hosts
for ((host = 0; host < ranks; host++)); do
	printf '127.0.0.1 localhost\n127.0.1.1 host%s\n' $host >"$work/hosts.$host"
	ip -n "$name-$host" route add default dev eth0
done
expect_two_hosts "tcp://" tcp://10.77.0.10:29520
expect_two_hosts "TCPStore" 10.77.0.10
expect_two_hosts "a file that both see" "file://$work/store"

ip netns add "$name-six" && ip -n "$name-six" link set lo up
expect_one_host "without /proc" tcp://127.0.0.1:29520 ip netns exec "$name-six" \
	unshare --mount sh -c "mount -t tmpfs none /proc && exec \"\$@\"" without_proc
ip -n "$name-six" address del 127.0.0.1/8 dev lo
expect_one_host "only ::1" "tcp://[::1]:29520" ip netns exec "$name-six"
[ $failures = 0 ]
