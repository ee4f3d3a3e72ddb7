#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the program's commands have in common and scripts rely on: exit statuses, the form
# of JSON, and the choice of the switch that is asked.
#
#	tests/cmd/commands.sh build/switchml
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/report.sh"

unset SWITCHML_SWITCH SWITCHML_MASTER_ADDR SWITCHML_MASTER_PORT MASTER_ADDR MASTER_PORT

ok() {
	say 0 "$1"
}

fail() {
	say 1 "$1" "$work/out" "$work/err"
}

# The status that a command had, and the one that it should have; title, command.
had() {
	if [ "$1" = "$2" ]; then ok "$3"; else fail "$3: status $1, not $2: ${*:4}"; fi
}

# Title, exit status, command.
expect() {
	timeout 60 "${@:3}" >"$work/out" 2>"$work/err"
	had $? "$2" "$1" "${@:3}"
}

# Title, Python expression over the JSON of the last output: it is true.
expect_json() {
	if python3 -c "import json, sys; all = json.load(open('$work/out')); sys.exit(not ($2))" \
		2>>"$work/err"; then
		ok "$1"
	else
		fail "$1: not $2"
	fi
}

nobody=127.0.0.1:$(free_port)

# ---- one exit status for all wrong command lines ----
expect "no command" 2 "$switchml"
expect "a command that there is not" 2 "$switchml" reduce
grep -q 'did you mean' "$work/err" && fail "no command is like reduce"
expect "a command with a typing error" 2 "$switchml" swich
grep -q "there is no command 'swich': did you mean switch?" "$work/err" || fail "no command is proposed"
for option in -d --datatype; do
	expect "a value like an option" 2 "$switchml" bench $option --itres
	grep -q "did you mean --iters?" "$work/err" && fail "the value of $option is taken for an option"
done
expect "an option like a hidden one" 2 "$switchml" switch --prot
grep -q "did you mean --port?" "$work/err" && fail "a hidden option is proposed"
expect "a type with a typing error" 2 "$switchml" bench --datatype flaot
grep -q "did you mean float?" "$work/err" || fail "no type is proposed"
for command in switch bench status top doctor trace; do
	"$switchml" $command --help >"$work/help"
	for asked in "$command -h" "help $command" "$command --json -h"; do
		# shellcheck disable=SC2086
		expect "$asked" 0 "$switchml" $asked
		cmp -s "$work/help" "$work/out" || fail "switchml $asked is not switchml $command --help"
	done
	expect "$command: its release" 0 "$switchml" $command -V
	expect "$command: an option with a typing error" 2 "$switchml" $command --hlep
	grep -q "did you mean --help?" "$work/err" || fail "$command: no option is proposed"
	expect "$command: an option like no other" 2 "$switchml" $command --reduce=all
	grep -q "did you mean" "$work/err" && fail "$command: no option is like --reduce"
done
for command in switch bench status top doctor; do
	expect "$command: an option that there is not" 2 "$switchml" $command --no-such-option
	expect "$command: an argument that it does not take" 2 "$switchml" $command nonsense
done
for command in status top; do
	expect "$command: a switch without its option" 2 "$switchml" $command 127.0.0.1
	grep -q 'name the switch with --switch 127.0.0.1' "$work/err" || fail "$command does not say how to name it"
done
expect "status: --watch 2" 2 "$switchml" status --watch 2
grep -q 'seconds are a part of the option, --watch=2' "$work/err" || fail "status --watch 2 is not explained"
expect "a value that is no number" 2 "$switchml" bench --iters many
expect "a value out of range" 2 "$switchml" switch --threads 1000
expect "help" 0 "$switchml" --help
expect "help of a command" 0 "$switchml" status --help

# ---- a variable that there is not ----
expect "a wrong variable" 0 env SWITCHML_SWTICH=127.0.0.1 SWITCHML_WIRE=int32 "$switchml" bench --local-workers 2 -b 4 -e 4 -n 2 -w 0
[ "$(grep -c SWTICH "$work/err")" = 1 ] &&
	grep -qx 'switchml bench: warning: SWITCHML_SWTICH has no effect.* did you mean SWITCHML_SWITCH?' "$work/err" ||
	fail "it is not warned of once: $(grep -c SWTICH "$work/err") lines"

# ---- status: always an array ----
local_switch "$work/one"
one=$address
local_switch "$work/two"
two=$address
expect "one switch" 0 "$switchml" status --json --switch "$one"
expect_json "one switch is an array" "len(all) == 1 and all[0]['address'] == '$one' and all[0]['error'] is None and all[0]['jobs'] == []"
expect "two switches" 0 "$switchml" status --json --switch "$one,$two"
expect_json "two switches are an array" "[a['address'] for a in all] == ['$one', '$two']"
expect "a switch that is not there" 1 "$switchml" status --json --switch "$nobody"
expect_json "it stands there, and why" "len(all) == 1 and all[0]['address'] == '$nobody' and 'refused' in all[0]['error']"
expect "a switch that is not there, for people" 1 "$switchml" status --switch "$nobody"
grep -q 'refused: start .switchml switch. there' "$work/err" || fail "status does not say what to do"

# ---- nothing is known of a rank that has not come ----
: >"$work/waits"
RANK=1 WORLD_SIZE=3 "$switchml" bench --switch "$one" --job early -b 4K -e 4K >"$work/waits" 2>&1 &
waits=$!
joining() { "$switchml" status --switch "$one" | grep -q 'job "early": joining'; }
await joining
expect "status of a job that waits" 0 "$switchml" status --switch "$one"
grep -Eq '^job "early": joining, 3 ranks, [0-9]+ slots reserved$' "$work/out" &&
	[ "$(grep -Ec '^ +[02]  -  +-  missing +-( +-){2}$' "$work/out")" = 2 ] ||
	fail "status shows numbers that it does not know"
kill $waits
wait $waits

# ---- names of hosts take columns, not bytes ----
if unshare --uts true 2>/dev/null; then
	# shellcheck disable=SC2016
	RANK=1 WORLD_SIZE=3 unshare --uts sh -c 'echo rüßnet >/proc/sys/kernel/hostname; exec "$@"' sh \
		"$switchml" bench --switch "$one" --job named -b 4K -e 4K >"$work/waits" 2>&1 &
	waits=$!
	await eval '"$switchml" status --switch "$one" | grep -q "net .* joined"'
	LC_ALL=C.UTF-8 expect "status of a host whose name is not ASCII" 0 "$switchml" status --switch "$one"
	grep -Eq '^     1  rüßnet {15} *[0-9]+  ' "$work/out" || fail "status counts bytes of names"
	kill $waits
	wait $waits
else
	echo "left out: a host whose name is not ASCII: this user may not name hosts"
fi

# ---- a letter, an exit code and - have one meaning in all commands ----
for command in switch bench status doctor trace top; do
	"$switchml" $command --help 2>/dev/null
done | grep -oE '^  -[a-zA-Z], --[a-z-]+' | sort -u >"$work/letters"
grep -q -- '-w, --warmup-iters' "$work/letters" && [ -z "$(cut -c 4 "$work/letters" | uniq -d)" ] ||
	fail "a letter means two things: $(cat "$work/letters")"
expect "status --json -" 0 "$switchml" status --json - --switch "$one"
expect_json "status --json - is status --json" "all[0]['error'] is None"
expect "a wrong variable of bench" 2 env SWITCHML_TIMEOUT=x "$switchml" bench
expect "a key that is not there" 2 "$switchml" switch --listen 127.0.0.1:0 --key-file "$work/none"
expect "a trace that is not there" 2 "$switchml" trace merge "$work/none"
expect "a level that is none" 2 "$switchml" switch --listen 127.0.0.1:0 --debug loud

# ---- a port has no option of its own ----
expect "switch --port" 2 "$switchml" switch --port 4711
grep -q 'a part of --listen: --listen :4711' "$work/err" || fail "switch --port: no hint"

expect "one of two is not there" 1 "$switchml" status --json --switch "$nobody,$one"
expect_json "both stand there" "'refused' in all[0]['error'] and all[1]['error'] is None and 'jobs' in all[1]"

# ---- without a separate switch, rank 0 is asked ----
for where in SWITCHML_SWITCH=embedded SWITCHML_SWITCH= ; do
	expect "status, $where" 0 env $where SWITCHML_MASTER_ADDR=${one%:*} \
		SWITCHML_MASTER_PORT=${one##*:} "$switchml" status
	grep -q "$one: switchml" "$work/out" || fail "status, $where: the master port is not asked"
done
expect "status, embedded, no rank 0" 1 env SWITCHML_SWITCH=embedded \
	SWITCHML_MASTER_PORT=${nobody##*:} "$switchml" status
grep -q "embedded: Name" "$work/err" && fail "it takes 'embedded' for a host"
grep -q "${nobody##*:}.*refused.*rank 0" "$work/err" || fail "it does not say that rank 0 is asked"
expect "doctor, embedded" 0 env SWITCHML_MASTER_PORT="$(free_port)" "$switchml" doctor --switch embedded

# ---- doctor ----
for command in doctor status; do
	expect "$command, a name that does not resolve" 1 "$switchml" $command --switch no.such.host.invalid
	cat "$work/out" "$work/err" | grep -q "correct the host's name" || fail "$command: no advice about the name"
	! cat "$work/out" "$work/err" | grep -q 'start .switchml' || fail "$command: advice about a switch"
done
expect "doctor" 0 "$switchml" doctor --switch "$one"
grep -q '^ok *data port' "$work/out" || fail "doctor: the data port is not ok"
port=$(steady_address 4) port=${port##*:}
local_switch "$work/three" --listen "$(steady_address 3)" --data-port "$port"
expect "doctor, another data port" 0 "$switchml" doctor --switch "$address"
grep -q "^ok *data port.*$port" "$work/out" || fail "doctor: the other data port is not ok"
expect "status" 0 "$switchml" status --json --switch "$address"
expect_json "status has the data port" "all[0]['data_port'] == $port"

# A switch whose release is called alike, and whose protocol is another one: bytes of Envelope.status.
cat >"$work/other" <<'PYTHON'
import socket, sys
status = b"\x0a\x05" + sys.argv[1].encode() + (b"\x50" + bytes([int(sys.argv[2])]) if sys.argv[2] != "0" else b"")
message = b"\x72" + bytes([len(status)]) + status
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
link = listener.accept()[0]
while link.recv(4096):
    link.sendall(len(message).to_bytes(4, "big") + message)
PYTHON
# Title, release, number of the protocol, what doctor says of them.
expect_version() {
	local asked
	: >"$work/at"
	python3 "$work/other" "$2" "$3" >"$work/at" &
	await test -s "$work/at"
	asked=127.0.0.1:$(cat "$work/at")
	# Its data port does not exist.
	expect "doctor, $1" 1 "$switchml" doctor --switch "$asked"
	grep -q "$4" "$work/out" || fail "doctor, $1: not said"
}
release=$("$switchml" --version) protocol=$(sed -n 's/.*control protocol \([0-9]*\),.*/\1/p' <<<"$release")
[[ $release =~ ^switchml\ 0\.1\.0\ \(control\ protocol\ [0-9]+,\ commit\ [0-9a-z-]+\)$ ]] || fail "--version: $release"
[ "$("$switchml" status --version)" = "$release" ] && ok "--version" || fail "status --version"
expect_version "another protocol" 0.1.0 7 '^problem *switch version *0.1.0 has control protocol 7, and 0.1.0 here has'
expect_version "an old switch" 0.1.0 0 '^problem *switch version .*control protocol before 22,'
expect_version "another release of the same protocol" 0.1.9 "$protocol" '^ok *switch version *0.1.9, with control protocol'

expect "doctor, a wrong setting" 1 env SWITCHML_RANK=none "$switchml" doctor
grep -q '^ *fix: correct or unset' "$work/out" || fail "doctor does not say how to fix the setting"
for json in --json "--json -"; do
	# shellcheck disable=SC2086
	expect "doctor $json, a wrong setting" 1 env SWITCHML_RANK=none "$switchml" doctor $json
	expect_json "doctor $json names the fix" \
		"[f['fix'] for f in all['findings'] if f['check'] == 'environment'] == ['correct or unset the variable']"
done

# ---- standard descriptors that are closed ----
# Redirections, exit status, command.
expect_closed() {
	local closed=$1 wanted=$2
	shift 2
	eval "timeout 60 \"\$@\" >'$work/out' 2>'$work/err' $closed"
	had $? "$wanted" "$2 with $closed"
}

# A report that nobody can read is a failure.
for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&- 2>&-'; do
	[[ $closed == *1* ]] && unread=1 || unread=0
	expect_closed "$closed" $unread "$switchml" status --switch "$one"
	expect_closed "$closed" $unread "$switchml" doctor --switch "$one"
	expect_closed "$closed" $unread "$switchml" bench --local-workers 2 --switch "$one" -b 4 -e 4 -n 2 -w 0
	expect_closed "$closed" 2 "$switchml" top --no-such-option
done

# A switch serves without them, and none of its sockets has their numbers.
address=$(steady_address 5)
"$switchml" switch --listen "$address" 0<&- 1>&- 2>&- &
silent=$!
answers() {
	"$switchml" status --switch "$address" >"$work/out" 2>"$work/err"
}
await answers
expect "a job at a silent switch" 0 "$switchml" bench --local-workers 2 --switch "$address" -b 4 -e 4 -n 2 -w 0
[ "$(readlink /proc/$silent/fd/{0,1,2} | sort -u)" = /dev/null ] && ok "nothing has the numbers of standard descriptors" ||
	fail "a socket has the number of a standard descriptor"
kill $silent

# ---- few descriptors ----
expect "rank 0 without descriptors" 1 env -u SWITCHML_SWITCH RANK=0 WORLD_SIZE=2 \
	bash -c "ulimit -n 10; exec '$switchml' bench -b 4 -e 4"
grep -q 'of the 10 descriptors .* raise the limit (ulimit -n' "$work/err" || fail "it does not name the limit"
! grep -q SWITCHML_MASTER_PORT "$work/err" || fail "it names the port, which is not the cause"
expect "a switch without descriptors for ranks" 1 bash -c "ulimit -n 12; exec '$switchml' switch --listen 127.0.0.1:0"
grep -q 'of the 12 descriptors .* raise the limit (ulimit -n' "$work/err" || fail "it does not name the limit"
: >"$work/raised"
(ulimit -Sn 12; exec "$switchml" switch --listen 127.0.0.1:0 >"$work/raised" 2>&1) &
await_switch "$work/raised"
ok "a switch raises its soft limit"

# The reader of the output may go away: that must not end the program by a signal (status
# 141).
mkfifo "$work/unread"
exec 7<>"$work/unread" 8>"$work/unread" 7>&-
"$switchml" doctor >&8 2>"$work/err"
status=$?
exec 8>&-
[ $status -le 1 ] && ok "doctor, unread" || fail "doctor, unread: status $status"

# ---- doctor --peers on one host: no paths, and so no MTU ----
doctor_on_one_host() {
	local meeting pids status
	meeting=$(steady_address)
	begin_ranks 2 peers MASTER_ADDR="${meeting%:*}" MASTER_PORT="${meeting##*:}" timeout 60 "$switchml" doctor --peers
	end_well "${pids[@]}"
	status=$?
	cp "$work/peers.0" "$work/out"
	if [ $status = 0 ] && grep -Eq '^host +ranks .* mtu$' "$work/out" &&
		grep -Eq '^0 +0-1 .* [0-9]+\.[0-9] +-$' "$work/out" && ! grep -q -- '-0\.0' "$work/out"; then
		ok "doctor --peers on one host"
	else
		fail "doctor --peers on one host: status $status"
	fi
}

# Rank 0 has a child with threads of its own, which ThreadSanitizer's runtime does not survive.
if ldd "$switchml" | grep -q libtsan; then
	echo "left out: doctor --peers with ThreadSanitizer: it cannot follow threads of a forked child"
else
	doctor_on_one_host
fi

[ $failures = 0 ]
