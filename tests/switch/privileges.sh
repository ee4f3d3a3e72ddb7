#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The daemon has no privileges after it listens. Without them, it serves a job, answers
# questions, ends and is started again. As root, the test shows more: root becomes another
# user. Usage: privileges.sh SWITCHML SECCOMP ("yes": this build filters system calls)
set -u

switchml=$(realpath "$1")
seccomp=$2
here=$(cd "$(dirname "$0")" && pwd)
under= # command that starts the switch in another environment
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"

# Every thread: the distinct values of the field.
field() {
	awk -v name="$1:" '$1 == name { print $2 }' /proc/$switch/task/*/status | sort -u | tr '\n' ' '
}

# Field, value: all threads have it.
has() {
	[ "$(field "$1")" = "$2 " ]
	say $? "$1 is $2 in $(ls /proc/$switch/task | wc -l) threads: $(field "$1")"
}

look() {
	# The filter is active before the switch says that it is ready.
	has NoNewPrivs 1
	has CapEff 0000000000000000
	has CapPrm 0000000000000000
	[ "$seccomp" = yes ] && has Seccomp 2
	if [ "$(id -u)" = 0 ] && [ "$(awk '{ if ($3 > n) n = $3 } END { printf "%.0f", n }' /proc/self/uid_map)" -gt 65534 ]; then
		[ "$(field Uid)" != "0 " ]
		say $? "root has become user $(field Uid)"
		has Groups ''
	fi
}

# If root cannot become another user, it still drops its privileges.
look_under() {
	under=$1
	$under true 2>/dev/null || { echo "left out: there is no $1 here"; under=; return; }
	local_switch "$work/out" --listen 127.0.0.1:0
	has NoNewPrivs 1
	has CapEff 0000000000000000
	has CapPrm 0000000000000000
	kill $switch
	wait $switch 2>/dev/null
	under=
}

if [ "$(id -u)" = 0 ]; then
	look_under "setpriv --bounding-set=-setgid --inh-caps=-setgid --"
	look_under "unshare -Ur"
fi
local_switch "$work/out" --listen "$(steady_address)"
look
SWITCHML_SWITCH=$address "$switchml" bench --local-workers 2 -b 4K -e 64K -f 16 -n 20 -c 1 >"$work/bench" 2>&1
say $? "a job runs with it" || cat "$work/bench"
"$switchml" status --switch "$address" >"$work/status" 2>&1
say $? "it tells its status"
kill $switch
wait $switch
say $? "it ends when it is told to"
# The port that it had is completely free.
local_switch "$work/out" --listen "$address"
SWITCHML_SWITCH=$address "$switchml" bench --local-workers 2 -b 4K -e 4K -n 5 -c 1 >"$work/bench" 2>&1
say $? "one that is started again serves jobs"
! says "$work/out" 'warn:'
say $? "on the loopback alone there is nothing to warn of"
kill $switch
wait $switch
local_switch "$work/out" --listen :0
says "$work/out" 'warn: the switch listens on all addresses'
say $? "on all addresses, without TLS and key, it warns"
kill $switch
wait $switch
(umask 077 && head -c 32 /dev/urandom | base64 >"$work/key")
SWITCHML_JOB_KEY_FILE=$work/key local_switch "$work/out" --listen :0
! says "$work/out" 'warn:'
say $? "with a key it does not"
[ $failures = 0 ]
