#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Control connections with TLS: jobs that run, and one clear line at each end for
# everything that does not fit together. The other ends are our own programs and openssl.
# Usage: tls.sh SWITCHML
set -u

switchml=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
command -v openssl >/dev/null || { echo "the openssl command is not installed"; exit 77; }
if "$switchml" switch --listen 127.0.0.1:0 --tls-key x 2>&1 | grep -q 'built without TLS'; then
	echo "this build has no TLS"
	exit 77
fi
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"
# shellcheck source=tests/support/secured.sh
. "$here/../support/secured.sh"

"$here/../support/certificates" "$work" || exit 1
cd "$work" || exit 1
mkfifo silence # a program may read it forever
export SWITCHML_TIMEOUT=30

tls_switch() {
	start_switch "$1" --tls-certificate "$2.pem" --tls-key "$2.key" --tls-authority authority.pem
}

# The variables of a worker: certificate, authority.
as() {
	echo "SWITCHML_TLS_CERTIFICATE=$1.pem SWITCHML_TLS_KEY=$1.key SWITCHML_TLS_AUTHORITY=$2.pem"
}

# The switch's text, openssl's options: openssl connects, and the switch prints the text
# soon.
openssl_is_told() {
	timeout 60 openssl s_client -connect "$address" -CAfile authority.pem "${@:2}" <>silence >client.out 2>&1
	says switch.out "$1"
}

# Title, openssl's text, the switch's text, then openssl's options.
openssl_refused() {
	: >switch.out
	await openssl_is_told "$3" "${@:4}"
	expect "$1, switch" switch.out "$3"
	expect "$1, client" client.out "$2"
}

# ---- jobs ----

tls_switch switch.out switch
main_address=$address main_switch=$switch
# shellcheck disable=SC2046
begin_ranks 3 job SWITCHML_SWITCH="localhost:${address##*:}" $(as worker authority) \
	timeout 90 "$switchml" bench -b 4K -e 256K -f 8 -n 5
ends_well "three ranks with TLS, the switch by its name" job

# shellcheck disable=SC2046
env $(as worker authority) "$switchml" status --switch "$address" >status.out 2>&1
say $? "status with TLS" status.out
# shellcheck disable=SC2046
env $(as worker authority) "$switchml" doctor --switch "$address" >doctor.out 2>&1
expect "doctor with TLS" doctor.out 'ok *tls'
expect "doctor with TLS" doctor.out 'ok *data port'
if has_peers; then
	# Rank 0's certificate need not be a switch's.
	peers peers "SWITCHML_SWITCH=localhost:${address##*:} $(as worker authority)"
	say $? "doctor --peers with workers' certificates" peers.0 peers.1
	expect "doctor --peers with workers' certificates" peers.0 'ok *trial'
	peers foreign "SWITCHML_SWITCH=localhost:${address##*:} $(as worker authority)" "$(as other authority)"
	expect "doctor --peers, another authority, rank 0" foreign.0 'problem *tls .*not issued by the authority'
fi

# Rank 0's own switch, with a certificate that names the master's address.
port=$(free_port)
# shellcheck disable=SC2046
begin_ranks 2 embedded SWITCHML_MASTER_PORT="$port" $(as switch authority) \
	timeout 90 "$switchml" bench -b 4K -e 4K -n 3
ends_well "an embedded switch with TLS" embedded

# A name that is not looked up: the other ranks look at rank 0's own switch, too, if that is late.
own=("" "SWITCHML_SWITCH=$address")
# shellcheck disable=SC2046
begin_ranks 2 without SWITCHML_MASTER_PORT="$port" SWITCHML_MASTER_ADDR=localhost $(as local authority) \
	timeout 90 "$switchml" bench -b 4K -e 4K -n 3
unset own
for r in 0 1; do
	! wait "${pids[r]}"
	expect "a switch for one rank only, and TLS: rank $r" without.$r \
		'without one: set SWITCHML_SWITCH on all ranks, or on none'
done

# The commands of docs/security.md, unchanged except for the switch's names.
mkdir -p documented && cd documented || exit 1
sed -n '/^    openssl req/,/[^\\]$/p' "$here/../../docs/security.md" | sed 's/DNS:switch1,IP:10.0.0.1/IP:127.0.0.1/' >commands
[ "$(grep -c '^    openssl req' commands)" = 3 ] && sh -e commands >commands.log 2>&1
say $? "the documented commands make certificates" commands.log
tls_switch switch.out switch
# shellcheck disable=SC2046
rank rank.out $(as worker authority)
say $? "a rank with them" rank.out
kill "$switch"
cd .. || exit 1
address=$main_address switch=$main_switch

# ---- ends that do not fit together ----

refused "no TLS at a TLS switch" 'this switch requires TLS with certificates: set SWITCHML_TLS_CERT' \
	'it did not use TLS: set SWITCHML_TLS' "A="
refused "a certificate of another authority" "does not trust the authority of this end's" \
	'"CN=other" was not issued by the authority' "$(as other authority)"
refused "a switch of another authority" 'was not issued by the authority that this end trusts' \
	"does not trust the authority of this end's" "$(as worker other)"
here_address=$address
address=localhost.localdomain:${address##*:}
if getent hosts localhost.localdomain >/dev/null; then
	refused "a switch by another name" \
		'names DNS:localhost, IP Address:127.0.0.1, not localhost.localdomain' '' \
		"$(as worker authority)"
fi
address=$here_address

# Our own program refuses an expired certificate when it starts, so openssl presents it.
openssl_refused "an expired certificate" 'alert certificate expired' \
	'CN=expired.*" expired on' -cert expired.pem -key expired.key
openssl_refused "no certificate" 'alert certificate required' 'it sent no certificate'
openssl_refused "TLS 1.2" 'alert protocol version' 'it does not speak TLS 1.3' -tls1_2 \
	-cert worker.pem -key worker.key
kill -0 "$switch"
say $? "the switch lives"

start_switch switch.out
refused "TLS at a switch without" 'it does not use TLS: start it with --tls-certificate' \
	'it speaks TLS, and this switch has neither a job key nor a certificate' "$(as worker authority)"
# shellcheck disable=SC2046
env $(as worker authority) "$switchml" status --switch "$address" >status.out 2>&1
expect "status with TLS at a switch without" status.out 'it does not use TLS'

# A certificate for clients only is not valid for a switch.
tls_switch switch.out worker
refused "a worker's certificate at a switch" 'is not for a server: make one whose extendedKeyUsage' \
	'this end.s certificate is not valid for this purpose' "$(as worker authority)"

# openssl as the switch. Its answers to our messages are never valid ones.
for version in "-tls1_3 -cert expired.pem -key expired.key" "-tls1_2 -cert switch.pem -key switch.key"; do
	: >server.out
	# shellcheck disable=SC2086
	openssl s_server -accept 127.0.0.1:0 $version -CAfile authority.pem -Verify 2 \
		<>silence >server.out 2>&1 &
	server=$!
	await says server.out '^ACCEPT .*:[0-9]'
	port=$(sed -n 's/^ACCEPT .*:\([0-9]*\)$/\1/p' server.out)
	# shellcheck disable=SC2046
	SWITCHML_SWITCH=127.0.0.1:$port rank rank.out $(as worker authority) \
		SWITCHML_SWITCH=127.0.0.1:$port
	case $version in
	*1_3*) expect "an expired switch" rank.out 'expired on' ;;
	*) expect "a switch of TLS 1.2" rank.out 'it does not speak TLS 1.3' ;;
	esac
	kill $server
done

# A peer that accepts connections and sends nothing is given up after the heartbeat.
python3 -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print("listens on", listener.getsockname()[1], flush=True)
time.sleep(600)' >listener.out &
server=$!
await says listener.out listens
port=$(sed -n 's/listens on //p' listener.out)
began=$SECONDS
# shellcheck disable=SC2046
SWITCHML_HEARTBEAT=1 rank rank.out $(as worker authority) SWITCHML_SWITCH=127.0.0.1:$port
expect "a silent listener" rank.out 'has been silent for 1000 ms before it had proved its identity'
[ $((SECONDS - began)) -lt 20 ]
say $? "a silent listener holds a rank up for $((SECONDS - began)) s, with a heartbeat of 1 s"
kill $server

# ---- files ----

# Title, text, options of a switch.
wrong_files() {
	"$switchml" switch --listen 127.0.0.1:0 "${@:3}" >files.out 2>&1
	expect "$1" files.out "$2"
}
c="--tls-certificate switch.pem" k="--tls-key switch.key" a="--tls-authority authority.pem"
# shellcheck disable=SC2086
{
	wrong_files "no key" 'needs three files, and --tls-key is not set.*the other two: --tls-certificate and --tls-authority' $c $a
	wrong_files "a key alone" 'and --tls-certificate is not set.*the other two: --tls-key and --tls-authority' $k
	wrong_files "no authority" 'and --tls-authority is not set.*the other two: --tls-certificate and --tls-key' $c $k
	wrong_files "no such key" 'nowhere.key of --tls-key cannot be read: No such file' $c $a \
		--tls-key nowhere.key
	mkfifo fifo
	wrong_files "a key that would block" 'fifo of --tls-key cannot be read: it is not a regular file' $c $a \
		--tls-key fifo
	wrong_files "a certificate without end" 'zero of --tls-certificate cannot be read: it is not a regular' $k $a \
		--tls-certificate /dev/zero
	wrong_files "a key with a passphrase" 'has a passphrase, which cannot be entered' $c $a \
		--tls-key locked.key
	wrong_files "another's key" "does not belong to the certificate" $c $a --tls-key worker.key
	wrong_files "a key that is none" 'is not a private key in PEM' $c $a --tls-key garbage.pem
	wrong_files "a certificate that is none" 'is not a certificate in PEM' $k $a \
		--tls-certificate garbage.pem
	wrong_files "an authority that is none" 'has no certificate in PEM' $k $c \
		--tls-authority garbage.pem
	wrong_files "an expired certificate" 'expired.pem of --tls-certificate expired on' $a \
		--tls-certificate expired.pem --tls-key expired.key
}
# shellcheck disable=SC2046
rank rank.out $(as nobody authority)
expect "a rank without its certificate" rank.out \
	'nobody.pem of SWITCHML_TLS_CERTIFICATE cannot be read: No such file'
if [ "$(id -u)" != 0 ]; then
	chmod 0 switch.key
	# shellcheck disable=SC2086
	wrong_files "an unreadable key" 'switch.key of --tls-key cannot be read: Permission denied' $c $a $k
fi

[ $failures = 0 ] || echo "$failures failed"
exit $((failures > 0))
