# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: what await.sh has, and a directory, which is removed at the end.
# shellcheck shell=bash

# shellcheck source=tests/support/await.sh
. "$(dirname "${BASH_SOURCE[0]}")/await.sh"
work=$(mktemp -d)
failures=0

clean_up() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT

# Title, file, and the text that should soon be in it (await.sh).
expect() {
	await says "$2" "$3"
	say $? "$1: $(grep -m 1 "$3" "$2" | cut -c 1-170)" "$2"
}
