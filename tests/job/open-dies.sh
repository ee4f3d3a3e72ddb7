#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch, a leaf or a root is stopped, freezes or dies while a rank waits in sml_open(). The ranks
# begin at the next address, or at the same one if the switch comes back. Otherwise the error says
# what died, and which ranks were awaited. open-cuts.sh has each message of a job's beginning.
# Usage: open-dies.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
export SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=5

# Job, rank, ranks, list of switches, options: one rank.
rank() {
	RANK=$2 WORLD_SIZE=$3 "$switchml" bench --switch "$4" --job "$1" -b 4 -e 4 -n 5 "${@:5}" \
		>"$1.$2" 2>&1 &
	pids+=($!)
}

# Job, list, where it waits first: rank 0 waits there for rank 1.
first_rank_waits() {
	pids=()
	rank "$1" 0 2 "$2"
	await is_over_or knows "$3" "$1"
}

knows() {
	"$switchml" status --switch "$1" 2>/dev/null | grep -q "job \"$2\""
}

looks_again() {
	says "$1.0" "$died while rank 1 was awaited\|has been silent\|was stopped"
}

# Title, job, list: rank 0 has lost its switch; now rank 1 comes.
then_begins() {
	await is_over_or looks_again "$2"
	rank "$2" 1 2 "$3"
	ends_well "$1" "$2"
}

switch one
switch two
both="${at[one]}|${at[two]}"
first_rank_waits stopped "$both" "${at[one]}"
kill "${process[one]}"
then_begins "the switch is stopped" stopped "$both"

switch one
first_rank_waits frozen "$both" "${at[one]}"
kill -STOP "${process[one]}"
then_begins "the switch is frozen" frozen "$both"
kill -CONT "${process[one]}"
dies one

switch one
first_rank_waits again "${at[one]}" "${at[one]}"
dies one
switch one
then_begins "the switch is started again, and there is no other" again "${at[one]}"

first_rank_waits never "${at[one]}" "${at[one]}"
dies one
wait "${pids[0]}"
says never.0 "$died while rank 1 was awaited, and the job could not begin at another switch" &&
	! grep -q 'is it a SwitchML switch' never.0
say $? "it does not come back, and the error says what happened" never.0

switch one
switch three
stripes="${at[two]},${at[one]}|${at[three]},${at[three]}"
first_rank_waits stripes "$stripes" "${at[one]}"
dies one
then_begins "one of two stripes' switches dies" stripes "$stripes"

# ---- what is no switch ----

# Output: something that ends each connection at once, as a proxy without its servers does.
ends_connections() {
	python3 -c 'import socket
listener = socket.create_server(("127.0.0.1", 0))
print("listens on", listener.getsockname()[1], flush=True)
while True:
    listener.accept()[0].close()
    print("connection", flush=True)' >"$1" &
	proxies+=($!)
	await says "$1" 'listens on'
	at[$1]=127.0.0.1:$(sed -n 's/listens on //p' "$1")
}

proxies=()
ends_connections proxy-1
ends_connections proxy-2
SWITCHML_TIMEOUT=2 rank proxies 0 2 "${at[proxy-1]}|${at[proxy-2]}"
wait $!
kill "${proxies[@]}"
wait "${proxies[@]}" 2>/dev/null
grep -q 'switchml bench: .*is it a SwitchML switch' proxies.0 &&
	[ "$(grep -c connection proxy-[12] | awk -F: '{ n += $2 } END { print n }')" -lt 50 ] &&
	[ "$(grep -c 'looking for a switch' proxies.0)" = 1 ]
say $? "what ends each connection is not tried in a busy loop, and is told of" proxies.0

# It may be a switch that died just then, and comes back.
at[once]=$(steady_address 9)
python3 -c 'import socket, sys
host, _, port = sys.argv[1].partition(":")
listener = socket.create_server((host, int(port)))
print("listens", flush=True)
listener.accept()[0].close()' "${at[once]}" >once.listens &
await says once.listens listens
pids=()
rank once 0 2 "${at[once]}"
await is_over_or says once.0 'is it a SwitchML switch.*looking for a switch'
switch once
rank once 1 2 "${at[once]}"
ends_well "the only switch ends a connection before it answers, and comes back" once

# ---- trees ----

declare -A parent=([leaf]=root)
switch root
leaf leaf root
first_rank_waits leaf-dies "${at[leaf]}" "${at[root]}"
dies leaf
leaf leaf root
then_begins "a leaf dies and comes back" leaf-dies "${at[leaf]}"
first_rank_waits root-dies "${at[leaf]}|${at[two]}" "${at[root]}"
dies root
then_begins "the root dies, and the standby is no tree" root-dies "${at[leaf]}|${at[two]}"

# ---- without a switch ----

SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT
begin_ranks 2 none WORLD_SIZE=3 "$switchml" bench --job none -b 4 -e 4
both_wait() {
	[ "$("$switchml" status --switch "127.0.0.1:$SWITCHML_MASTER_PORT" 2>/dev/null |
		grep -c ' joined ')" = 2 ]
}
await is_over_or both_wait
dies_0() { kill -9 "${pids[0]}" && wait "${pids[0]}" 2>/dev/null; }
dies_0
wait "${pids[1]}"
says none.1 "rank 0 died, and the job's control port .* with it: it $died"
say $? "rank 0 dies while rank 1 waits for rank 2" none.1

exit $((failures > 0))
