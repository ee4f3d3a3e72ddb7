#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The job key, as users set it. Jobs with a key run. A peer with another key or without a
# key gets one clear line at each end, and cannot hold up others. Whoever has no key sees no
# job's name, and no log and no switch's memory has the secret.
# Usage: key.sh SWITCHML
set -u

switchml=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
if SWITCHML_JOB_KEY_FILE=x "$switchml" switch --listen 127.0.0.1:0 2>&1 | grep -q 'built without TLS'; then
	echo "this build has no TLS"
	exit 77
fi
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"
# shellcheck source=tests/support/secured.sh
. "$here/../support/secured.sh"
switch_options=(-v)

cd "$work" || exit 1
export SWITCHML_TIMEOUT=60
secret="the-secret-of-this-test-$RANDOM$RANDOM"
umask 077
echo "$secret" >key
echo "another secret, as long" >other.key
right="SWITCHML_JOB_KEY_FILE=key" wrong="SWITCHML_JOB_KEY_FILE=other.key"

# ---- jobs ----

start_switch switch.out --key-file key
begin_ranks 3 job SWITCHML_SWITCH="$address" "$right" timeout 90 "$switchml" bench -b 4K -e 256K -f 8 -n 5
ends_well "three ranks with the switch's key" job

# A switch that has the file from its environment is the same.
kill "$switch"
wait "$switch" 2>/dev/null
SWITCHML_JOB_KEY_FILE=key start_switch switch.out
rank rank.out "$right"
say $? "a switch with the file in its environment" rank.out

begin_ranks 2 embedded SWITCHML_MASTER_PORT="$(free_port)" "$right" timeout 90 "$switchml" bench -b 4K -e 4K -n 3
ends_well "rank 0's own switch with a key" embedded

if has_peers; then
	peers same "$right"
	say $? "doctor --peers with a key" same.0 same.1
	expect "doctor --peers with a key" same.0 'ok *trial'
	peers other "$right" "$wrong" &
	pids=($!)
	peers none "$right" SWITCHML_JOB_KEY_FILE= &
	pids+=($!)
	peers plain A= "$right" &
	wait "${pids[@]}" $!
	expect "doctor --peers, another key, rank 0" other.0 \
		'problem *tls *the connection of 127.0.0.1 was refused: it has another job key'
	expect "doctor --peers, another key, rank 1" other.1 'rank 1: TLS failed: it has another job key'
	expect "doctor --peers, no key, rank 0" none.0 'problem *tls .*it did not use a job key'
	expect "doctor --peers, no key, rank 1" none.1 'requires a job key: set SWITCHML_JOB_KEY_FILE'
	expect "doctor --peers, rank 0 without one" plain.0 'it uses a job key or certificates, and rank 0 does not'
	expect "doctor --peers, rank 0 without one, rank 1" plain.1 'TLS failed: it has no job key'
fi

# ---- what a peer without the key learns ----

# A rank that waits for another one: its job exists and has a name.
env SWITCHML_SWITCH="$address" SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2 SWITCHML_JOB=the-name "$right" \
	timeout 90 "$switchml" bench -b 4K -e 4K -n 1 >waiting.out 2>&1 &
waiting=$!
SWITCHML_JOB_KEY_FILE=key await job_is "$address" the-name joining
say $? "with the key, status shows the job's name"
env "$right" "$switchml" doctor --switch "$address" >doctor.out 2>&1
expect "doctor with the key" doctor.out 'ok *tls *version 1.3, the switch has the same job key'
expect "doctor with the key" doctor.out 'ok *data port'

"$switchml" status --switch "$address" >status.out 2>&1
expect "status without the key" status.out 'this switch requires a job key: set SWITCHML_JOB_KEY_FILE'
"$switchml" doctor --switch "$address" >doctor.out 2>&1
expect "doctor without the key" doctor.out 'this switch requires a job key: set SWITCHML_JOB_KEY_FILE'
python3 - "$address" >raw.out <<'PYTHON'
"""All that the switch sends to whoever asks plainly, in any way: a status, a join, or rubbish."""
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
for asked in (b"\0\0\0\2\x6a\0", b"\0\0\0\3\x0a\1\0", b"\x16\3\1\0\5hello", b"GET / HTTP/1.0\r\n\r\n"):
    with socket.create_connection((host, int(port)), timeout=30) as tcp:
        tcp.sendall(asked)
        while heard := tcp.recv(65536):
            print(repr(heard))
PYTHON
say $? "whoever asks plainly is answered, and the connection ends" raw.out
! grep -q the-name status.out doctor.out raw.out
say $? "nobody without the key sees a job's name" status.out doctor.out raw.out
env "$wrong" "$switchml" status --switch "$address" >status.out 2>&1
expect "status with another key" status.out 'it has another job key: give both ends the same'

# It has a line, however many others were refused just before.
: >switch.out
rank wrong.out "$wrong"
expect "another key, just after others" switch.out 'it has another job key: give both ends the same'

refused "no key" 'this switch requires a job key: set SWITCHML_JOB_KEY_FILE to a file' \
	'it did not use a job key: set SWITCHML_JOB_KEY_FILE there' A=
refused "another key" 'it has another job key: give both ends the same key (SWITCHML_JOB_KEY_FILE' \
	'it has another job key: give both ends the same key (SWITCHML_JOB_KEY_FILE' "$wrong"
kill -0 "$waiting" && job_is_there=$(SWITCHML_JOB_KEY_FILE=key job_is "$address" the-name joining && echo yes)
[ "$job_is_there" = yes ]
say $? "the job that waits was not touched by either" waiting.out

# Strangers connect as fast as they can while a job begins and runs.
floods=()
flood() {
	while :; do env "$1" "$switchml" status --switch "$address"; done >"$2" 2>&1 &
	floods+=($!)
}
flood "$wrong" other-key.out
flood A= no-key.out
python3 -c '"""Handshakes of TLS without a key."""
import socket, ssl, sys
socket.setdefaulttimeout(1)
while True:
    try:
        ssl.get_server_certificate(("127.0.0.1", int(sys.argv[1])))
    except OSError:
        pass' "${address##*:}" &
floods+=($!)
await says other-key.out 'it has another job key'
begin_ranks 2 job SWITCHML_SWITCH="$address" SWITCHML_JOB=in-flood "$right" \
	timeout 120 "$switchml" bench -b 4K -e 256K -f 64 -n 5 --seconds 1
ends_well "a job begins and runs while others flood the switch" job
await eval '[ "$(grep -c "it has another job key" other-key.out)" -gt 1 ]'
kill "${floods[@]}"
wait "${floods[@]}" 2>/dev/null

# ---- where the secret is not ----

cat >look.py <<'PYTHON'
"""Is the secret in the memory of a process? Usage: look.py PID SECRET"""
import sys

pid, secret = int(sys.argv[1]), sys.argv[2].encode()
found = looked = 0
with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
    for line in maps:
        place, rights = line.split()[:2]
        if not rights.startswith("r") or "[vvar" in line or "[vsyscall" in line:
            continue
        begin, end = (int(part, 16) for part in place.split("-"))
        if end - begin > 1 << 28:
            continue
        try:
            memory.seek(begin)
            bytes_there = memory.read(end - begin)
        except (OSError, ValueError):
            continue
        looked += len(bytes_there)
        found += bytes_there.count(secret)
print(found, "in", looked, "bytes")
sys.exit(found > 0 or looked < 100000)
PYTHON
# A process with the secret in its environment: otherwise the search could find nothing.
A="$secret" sleep 60 &
sleeper=$!
if ! await says "/proc/$sleeper/environ" "$secret" || python3 look.py $sleeper "$secret" >look.out 2>&1; then
	say 1 "the secret can be looked for" look.out
elif grep -qE 'lib[at]san' "/proc/$switch/maps"; then
	echo "skipped: a sanitizer keeps a copy of the environment for itself"
elif grep -q Permission look.out; then
	echo "skipped: this user may not read the memory of processes"
else
	python3 look.py "$switch" "$secret" >look.out
	say $? "a switch does not keep what it read in the file: $(cat look.out)" look.out
fi
kill $sleeper
rank rank.out "$right" SWITCHML_DEBUG=trace
say $? "a rank that logs all" rank.out
! grep -rqF "$secret" ./*.out job.* embedded.*
say $? "no line of any log has the secret"

# ---- settings that do not fit together ----

kill "$switch"
wait "$switch" 2>/dev/null
start_switch switch.out
refused "a key at a switch without" 'it has no job key: start it with --key-file' \
	'it speaks TLS, and this switch has neither a job key nor a certificate' "$right"
env "$right" "$switchml" status --switch "$address" >status.out 2>&1
expect "status with a key at a switch without" status.out 'it has no job key: start it'

# ---- a key in a variable, which nothing reads: nothing must run without one then ----

# Who runs, the program's arguments.
no_key() {
	SWITCHML_JOB_KEY=$secret "$switchml" "${@:2}" >files.out 2>&1
	expect "a key in a variable, $1" files.out 'SWITCHML_JOB_KEY is not a setting.* set SWITCHML_JOB_KEY_FILE to its name'
}
no_key switch switch --listen 127.0.0.1:0
no_key status status --switch "$address"
SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=1 no_key rank bench -b 4K -e 4K -n 1

[ $failures = 0 ] || echo "$failures failed"
exit $((failures > 0))
