# SPDX-License-Identifier: BSD-3-Clause
# To be sourced by a script whose first argument is the program: trees of switches on this host's
# loopback interface, and jobs of them. Sets at[name], process[name] and pids; needs parent[name].
# shellcheck shell=bash

switchml=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
. "$here/../support/report.sh"

# Name, options: start a switch at at[name], which is an address that stays its own if there is none yet;
# sets process[name].
declare -A at=() process=()
switch() {
	local switch
	at[$1]=${at[$1]:-$(steady_address $((${#at[@]} + 1)))}
	local_switch "$1.switch" --listen "${at[$1]}" "${@:2}"
	process[$1]=$switch
	at[$1]=$address
}

# Name, parent's name, options: a leaf, attached.
leaf() {
	switch "$1" --parent "${at[$2]}" "${@:3}"
	await says "$1.switch" 'attached to the parent'
}

again() {
	if [ "$1" = root ]; then switch root; else leaf "$@"; fi
}

dies() {
	kill -9 "${process[$1]}"
	wait "${process[$1]}" 2>/dev/null
}

# For start(): a place is a switch's name.
at_place() {
	echo "env SWITCHML_SWITCH=${at[$1]}"
}

# Job, its ranks' switches: a job that goes on until it is told to end, in the middle of it.
under_way() {
	start "$1" -b 1M -e 1M -w 0 -n 1 -c 1 --seconds 1000 -- "${@:2}"
	await is_over_or job_is "${at[root]}" "$1" running
	await is_over_or moves "${at[root]}" "$1"
	all_run || give_up "job $1 is over already"
}

# Switches die and come back: each rank goes on, and every sum is right. Title, job, what dies.
survives() {
	local title=$1 job=$2 name rank before=()
	shift 2
	for rank in "${!pids[@]}"; do before+=("$(grep -c 'it is back' "$job.$rank")"); done
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
