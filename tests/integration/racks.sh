#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trees of switches on this host's loopback interface: joins, exact sums, deaths of ranks, leaves
# and the root, and what is refused.
# Usage: racks.sh SWITCHML
set -u

switchml=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
. "$here/../support/await.sh"
. "$here/../support/report.sh"
cd "$work" || exit 1
export SWITCHML_HOST_GROUP=0 SWITCHML_TIMEOUT=60

# Name, address, options: start a switch there; sets at[name] and process[name].
declare -A at process
switch() {
	: >"$1.switch"
	"$switchml" switch -vv --listen "$2" "${@:3}" >>"$1.switch" 2>&1 &
	process[$1]=$!
	await_switch "$1.switch"
	at[$1]=$address
}

# Name, parent's name, options: a leaf, attached.
leaf() {
	switch "$1" "${at[$1]:-127.0.0.1:0}" --parent "${at[$2]}" "${@:3}"
	await says "$1.switch" 'attached to the parent'
}

again() {
	if [ "$1" = root ]; then switch root "${at[root]}"; else leaf "$@"; fi
}

dies() {
	kill -9 "${process[$1]}"
	wait "${process[$1]}" 2>/dev/null
}

# Job, bench's options, then -- and each rank's switch: start the ranks.
start() {
	local job=$1 options=() rank=0 name
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	pids=()
	for name; do
		RANK=$rank WORLD_SIZE=$# "$switchml" bench --switch "${at[$name]}" \
			--job "$job" "${options[@]}" >"$job.$rank" 2>&1 &
		pids+=($!)
		rank=$((rank + 1))
	done
}

# Title, job: all of its ranks end well.
ends_well() {
	local bad=0 pid
	for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
	say $bad "$1" "$2".*
}

# Job, its ranks' switches: a job that goes on until it is told to end, in the middle of it.
under_way() {
	start "$1" -b 1M -e 1M -w 0 -n 1 -c 1 --seconds 1000 -- "${@:2}"
	await is_over_or job_is "${at[root]}" "$1" running
	await is_over_or moves "${at[root]}" "$1"
	all_run || give_up "job $1 is over already"
}

# Switch, job: has it completed slots?
moves() {
	"$switchml" status --switch "$1" | awk -v job="job \"$2\"" '
		index($0, job) == 1 { here = 1 }
		here && $1 == "completed" && $2 > 50 { found = 1 }
		END { exit !found }'
}

# File, number: has it more lines of failovers than that?
has_more() {
	[ "$(grep -c 'takes over' "$1")" -gt "$2" ]
}

# Switches die and come back: each rank goes on, and every sum is right. Title, job, what dies.
survives() {
	local title=$1 job=$2 name rank before=()
	shift 2
	for rank in "${!pids[@]}"; do before+=("$(grep -c 'takes over' "$job.$rank")"); done
	for name; do dies "$name"; done
	for name; do [ "$name" = root ] && again root; done
	for name; do [ "$name" != root ] && again "$name" "${parent[$name]}"; done
	for name in "${!parent[@]}"; do await says "$name.switch" 'attached to the parent'; done
	for rank in "${!pids[@]}"; do
		await is_over_or has_more "$job.$rank" "${before[$rank]}"
	done
	all_run
	say $? "$title" "$job".* ./*.switch
}

declare -A parent=([a]=root [b]=root)
switch root 127.0.0.1:0
leaf a root
leaf b root --slots 200

# ---- sums ----

for what in "float sum" "int32 max" "double sum" "half avg" "uint8 sum"; do
	start "sums-${what% *}" -b 4 -e 1M -f 16 -n 2 -w 1 -d "${what% *}" -o "${what#* }" -- a a b b root
	ends_well "two leaves with two ranks each, and one rank at the root: $what" "sums-${what% *}"
done
start int16 -b 4 -e 1M -f 16 -n 2 -w 1 --wire int16 -- a b b
ends_well "leaves with one and two ranks, int16 wire" int16
start lossy -b 1M -e 1M -n 5 --drop 2% --duplicate 2% --reorder 2% -- a a b root
ends_well "packets that are lost, doubled and late" lossy
SWITCHML_MTU=1000 start narrow -b 4 -e 1M -f 16 -n 2 -- a b
ends_well "short packets" narrow
start one -b 4 -e 1M -f 16 -n 5 -- a a b root
first=("${pids[@]}")
start two -b 4 -e 1M -f 16 -n 5 -d int32 -- b b
pids+=("${first[@]}")
ends_well "two jobs, one of them behind one leaf" one two

# ---- what is shown ----

under_way shown a a b root
"$switchml" status --switch "${at[root]}" >root.status
grep -q 'leaf.*:.* 2 ranks' root.status && grep -q "2  .*${at[b]##*:}" root.status
say $? "status shows the leaves, and the ranks at each" root.status
"$switchml" status --switch "${at[a]}" >a.status
grep -q "parent ${at[root]}" a.status
say $? "a leaf's status shows its parent" a.status

# ---- deaths ----

began=$(date +%s%N)
kill -9 "${pids[2]}"
for rank in 0 1 3; do
	wait "${pids[$rank]}"
	says "shown.$rank" "rank $rank: rank 2 .*died.*at the leaf"
	say $? "rank $rank names the rank that was killed behind a leaf" "shown.$rank"
done
took=$((($(date +%s%N) - began) / 1000000))
echo "# that took $took ms"
wait "${pids[2]}" 2>/dev/null

under_way goes-on a a b root
survives "a leaf dies and comes back" goes-on b
survives "the root dies and comes back" goes-on root
survives "a leaf and the root die and come back" goes-on a root
kill "${pids[0]}"
ends_well "all sums were right" goes-on

# ---- three levels ----

leaf c a
parent[c]=a
under_way deep c c a b root
survives "of three levels, the one in the middle dies and comes back" deep a
survives "of three levels, the lowest dies and comes back" deep c
survives "of three levels, the root dies and comes back" deep root
kill "${pids[0]}"
ends_well "all sums of three levels were right" deep
under_way low c c root
kill -9 "${pids[1]}"
wait "${pids[0]}" "${pids[2]}"
says low.2 "rank 2: rank 1 .*died.*at the leaf $(hostname):${at[c]##*:}"
say $? "the rank at the root names the rank that was killed two levels below" low.2

# ---- what is refused, in one line ----

: >d.switch
"$switchml" switch --listen 127.0.0.1:0 --parent "${at[c]}" >d.switch 2>&1 &
process[d]=$!
expect "a fourth level" d.switch "more than 3 levels of switches: connect the leaf to ${at[a]}"
for options in "--multicast 239.77.0.0" "--dataplane p4 --target 127.0.0.1:1" "--parent 127.0.0.1:0" "--parent nowhere.invalid"; do
	# shellcheck disable=SC2086 # words
	! "$switchml" switch --listen 127.0.0.1:0 --parent "${at[root]}" $options >refused 2>&1 && [ "$(wc -l <refused)" = 1 ]
	say $? "refused: $options: $(cat refused)" refused
done
differ() {
	RANK=0 WORLD_SIZE=2 "$switchml" bench --switch "${at[$1]}" --job differ -b 1K -e 1K >differ.0 2>&1 &
	RANK=1 WORLD_SIZE=2 "$switchml" bench --switch "${at[$2]}" --job differ -b 2K -e 2K >differ.1 2>&1 &
	wait %% 2>/dev/null
	await grep -q 'made different calls' differ.0
	says differ.1 'ranks of job "differ" made different calls: rank . called .*; rank . called .*all-reduce'
	say $? "ranks at $1 and $2 that make different calls are told" differ.0 differ.1
}
differ a b
differ c c
differ c root

# ---- a leaf without its parent ----

dies root
: >e.switch
"$switchml" switch --listen 127.0.0.1:0 --parent "${at[root]}" >e.switch 2>&1 &
process[e]=$!
await_switch e.switch
at[e]=$address
expect "a leaf that starts before its parent says so" e.switch "the parent ${at[root]} cannot be reached: Connection refused"
start early -b 4K -e 4K -n 1 -- e
wait "${pids[0]}"
expect "its ranks are told" early.0 "is a leaf, and its parent ${at[root]}: Connection refused"
again root
await says e.switch 'attached to the parent'
start later -b 4K -e 4K -n 1 -- e e
ends_well "when the parent has come, the leaf attaches itself" later

# ---- certificates: a leaf is as strict as any switch ----

secured() {
	local tls=(--tls-certificate switch.pem --tls-key switch.key --tls-authority authority.pem)
	as=(SWITCHML_TLS_CERTIFICATE=worker.pem SWITCHML_TLS_KEY=worker.key SWITCHML_TLS_AUTHORITY=authority.pem)
	switch sroot 127.0.0.1:0 "${tls[@]}"
	leaf sleaf sroot "${tls[@]}"
	env "${as[@]}" RANK=0 WORLD_SIZE=2 "$switchml" bench --switch "${at[sleaf]}" -b 4K -e 4K -n 1 >secured.0 2>&1 &
	pids=($!)
	env "${as[@]}" RANK=1 WORLD_SIZE=2 "$switchml" bench --switch "${at[sroot]}" -b 4K -e 4K -n 1 >secured.1 2>&1 &
	pids+=($!)
	ends_well "a secured leaf, and a rank at its secured root" secured
	RANK=0 WORLD_SIZE=1 "$switchml" bench --switch "${at[sleaf]}" -b 4K -e 4K -n 1 >plain 2>&1
	expect "a secured leaf refuses a rank without a certificate" plain 'TLS'
	"$switchml" switch --listen 127.0.0.1:0 --parent "${at[sroot]}" >plain.leaf 2>&1 &
	process[plain]=$!
	expect "a secured root refuses a leaf without a certificate" plain.leaf 'refuses this leaf: .*TLS'
	"$switchml" switch --listen 127.0.0.1:0 --parent "${at[root]}" "${tls[@]}" >strict.leaf 2>&1 &
	process[strict]=$!
	expect "a secured leaf refuses a root without a certificate" strict.leaf 'cannot be reached: TLS failed'
	"$switchml" switch --listen 127.0.0.1:0 --parent "${at[sroot]}" --tls-certificate other.pem \
		--tls-key other.key --tls-authority authority.pem >other.leaf 2>&1 &
	process[other]=$!
	expect "a secured root refuses a leaf of another authority" other.leaf 'cannot be reached: '
}
if ! command -v openssl >/dev/null; then
	echo "left out: certificates (the openssl command is not installed)"
elif "$switchml" switch --listen 127.0.0.1:0 --tls-key x 2>&1 | grep -q 'built without TLS'; then
	echo "left out: certificates (this build has no TLS)"
else
	"$here/../support/certificates" "$work" && secured
fi

for pid in "${process[@]}"; do kill "$pid" 2>/dev/null; done
wait
exit $((failures > 0))
