#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trees of switches on this host's loopback interface: joins, exact sums, deaths of ranks, leaves
# and the root, and what is refused.
# Usage: racks.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
# Longer than the switches of a tree take to come back, one after the other, on a busy machine.
export SWITCHML_SHARED_MEMORY=0 SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=20

declare -A parent=([a]=root [b]=root)
switch root
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
ends_well "packets that are lost, duplicated and late" lossy
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
kill "${pids[0]}"
ends_well "they run until they are told to end" shown

# ---- deaths ----

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
# Host groups, victim: the one that sends for others is the first of them.
killed_below() {
	local rank
	SWITCHML_SHARED_MEMORY=$1 under_way "low-$1" c c c root
	kill -9 "${pids[$2]}"
	for rank in 0 1 2 3; do
		[ "$rank" = "$2" ] && continue
		wait "${pids[$rank]}"
		says "low-$1.$rank" "rank $rank: rank $2 .*died.*at the leaf $(hostname):${at[c]##*:}"
		say $? "rank $rank names rank $2, which was killed two levels below the root, host groups $1" "low-$1.$rank"
	done
}
killed_below 0 1
killed_below 1 0

# ---- hosts of several ranks, behind leaves ----

# Job, rank, ranks: has this rank said that these share memory?
shares() {
	says "$1.$2" "ranks $3 share this host's memory, and rank ${3%%[, ]*} sends"
}
export SWITCHML_SHARED_MEMORY=1 SWITCHML_DEBUG=info
start grouped -b 4 -e 1M -f 16 -n 2 -w 1 -- c c b b root root c
ends_well "hosts of several ranks at three levels" grouped
shares grouped 6 "0, 1 and 6" && shares grouped 3 "2 and 3" && shares grouped 4 "4 and 5"
say $? "ranks at one switch are one host" grouped.*
start lossy-hosts -b 1M -e 1M -n 5 --drop 2% --duplicate 2% --reorder 2% -- c b c b root
ends_well "hosts of several ranks, and packets that are lost, duplicated and late" lossy-hosts
under_way hosts c c b b root root
survives "hosts of several ranks survive the death of their leaf" hosts c
survives "hosts of several ranks survive the death of the leaf in the middle" hosts a
survives "hosts of several ranks survive the death of the root" hosts root
kill "${pids[0]}"
ends_well "all sums of hosts of several ranks were right" hosts
# The leader's memory is a file, which its limit forbids.
ulimit -S -f 100
start poor -b 4 -e 64K -f 16 -n 2 -- c c b b root
ulimit -S -f unlimited
ends_well "hosts behind leaves whose ranks cannot share memory" poor
says poor.0 'could not share memory'
say $? "these ranks say so" poor.*
export SWITCHML_SHARED_MEMORY=0
unset SWITCHML_DEBUG

# ---- what is refused, in one line ----

: >d.switch
"$switchml" switch --listen 127.0.0.1:0 --parent "${at[c]}" >d.switch 2>&1 &
process[d]=$!
expect "a fourth level" d.switch "more than 3 levels of switches: connect the leaf to ${at[a]}"
for options in "--dataplane p4 --target 127.0.0.1:1" "--parent 127.0.0.1:0" "--parent nowhere.invalid"; do
	# shellcheck disable=SC2086 # words
	! "$switchml" switch --listen 127.0.0.1:0 --parent "${at[root]}" $options >refused 2>&1 && [ "$(wc -l <refused)" = 1 ]
	say $? "refused: $options: $(cat refused)" refused
done
differ() {
	RANK=0 WORLD_SIZE=2 "$switchml" bench --switch "${at[$1]}" --job differ -b 1K -e 1K >differ.0 2>&1 &
	RANK=1 WORLD_SIZE=2 "$switchml" bench --switch "${at[$2]}" --job differ -b 2K -e 2K >differ.1 2>&1 &
	wait %% 2>/dev/null
	await grep -q 'made different calls' differ.0
	says differ.1 'ranks of job "differ" made different calls: rank . (host .*) called .*; rank . (host .*) called .*all-reduce'
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
	at[sroot]=127.0.0.1:0 at[sleaf]=127.0.0.1:0 # which their certificate names
	switch sroot "${tls[@]}"
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
