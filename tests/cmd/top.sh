#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `switchml top` in a pseudo-terminal: what its screen shows of two jobs and of a tree of switches,
# its keys, terminals of any size, and switches that vanish and return.
#
#	tests/cmd/top.sh build/switchml TOP ("yes": this build has it)
[ "$2" = yes ] || { echo "this build lacks switchml top (ncurses)"; exit 77; }
# The distribution's packages belong to the distribution's Python.
for python in python3 /usr/bin/python3; do
	$python -c 'import pexpect, pyte' 2>/dev/null && break
	python=
done
[ -n "$python" ] ||
	{ echo "there is no pexpect or no pyte (Debian: python3-pexpect python3-pyte)"; exit 77; }
. "$(dirname "$0")/../support/trees.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
unset SWITCHML_SWITCH

local_switch "$work/switch" --listen "$(steady_address)"
for job in alpha beta; do
	"$switchml" bench --switch "$address" --job $job --local-workers 2 -b 64K -e 64K -w 0 -n 1 -c 0 \
		--seconds 1000 --pause 20 --drop 0.5% >"$work/$job" 2>&1 &
	await is_under_way "$address" $job
done
# A process that waits to be in a job which nobody has begun. Its name has more bytes than columns.
SWITCHML_SWITCH=$address SWITCHML_JOB=größe SWITCHML_JOIN=1 SWITCHML_RANK=0 SWITCHML_TIMEOUT=600 \
	"$switchml" bench >"$work/gamma" 2>&1 &
plain=$address
cd "$work" || exit 1
switch root
leaf middle root --slots 300
leaf low middle
SWITCHML_SHARED_MEMORY=1 start tree -b 64K -e 64K -w 0 -n 1 -c 0 --seconds 1000 --pause 20 -- low low middle root
await job_is "${at[root]}" tree running
timeout 280 "$python" "$here/top.py" "$switchml" "$plain" $switch "${at[root]}" "${at[middle]}"
say $? "the screen"
[ $failures = 0 ]
