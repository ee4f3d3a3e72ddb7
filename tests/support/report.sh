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

# An address whose server may go and return: nobody else takes it. The host is this process's
# own, and the system gives no one such a port unasked.
steady_address() {
	echo "127.$((64 + ($$ >> 16 & 63))).$(($$ >> 8 & 255)).$(($$ & 255)):$((21000 + $$ % 1000))"
}

free_port() {
	python3 -c 'import socket
tcp = socket.create_server(("127.0.0.1", 0))
print(tcp.getsockname()[1])'
}
