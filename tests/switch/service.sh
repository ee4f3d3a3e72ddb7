#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The daemon as a service: its configuration file, SIGHUP, its messages to systemd, and the
# installed unit.
#
#	tests/switch/service.sh build/switchml SYSTEMD ("yes": this build knows systemd) UNIT
switchml=$(realpath "$1")
systemd=$2
unit=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/support/report.sh"
chmod 755 "$work" # the daemon is user nobody when it reads its file again
unset SWITCHML_SWITCH SWITCHML_JOB_KEY_FILE NOTIFY_SOCKET WATCHDOG_USEC

equal() {
	[ "$1" = "$2" ]
}

# Title, pattern: the switch prints it soon.
prints() {
	expect "$1" "$work/out" "$2"
}

start() {
	: >"$work/out"
	"$switchml" switch --config "$work/conf" "$@" >"$work/out" 2>&1 &
	switch=$!
	await_switch "$work/out"
}

end() {
	kill $switch
	wait $switch
}

# Status, title, pattern, the switch's options: it does not start, and says why.
ends() {
	local status
	timeout 20 "$switchml" switch "${@:4}" >"$work/out" 2>&1
	status=$?
	[ $status = "$1" ] && says "$work/out" "$3"
	say $? "$2 (status $status)" "$work/out"
}

# Title, pattern, lines of the file.
refuses() {
	printf '%s\n' "$3" >"$work/conf"
	ends 2 "$1" "$2" --listen 127.0.0.1:0 --config "$work/conf"
}

# ---- the file ----

printf '%s\n' '# a comment' 'listen = 127.0.0.1:0' 'jobs=3' 'slots = 64 ; of all jobs' >"$work/conf"
start
prints "the file's settings hold" '64 slots, 3 jobs'
end
start --jobs 7
prints "the command line wins" '64 slots, 7 jobs'
end
refuses "an unknown setting" "conf, line 1: there is no setting 'slotz'" 'slotz = 7'
refuses "a value out of range" "conf, line 3: slots must be a number from 16 to 1048576, not '1'" \
	$'# a comment\n\nslots = 1'
for digits in 196 197 198 1000; do
	refuses "a line after one of $digits digits" "conf, line 2: heartbeat must be a number" \
		"$(printf "# %0${digits}d\nheartbeat = x" 0)"
done
refuses "a setting after the longest" "conf, line 2: heartbeat must be a number" \
	"$(printf 'hosts = %0190d\nheartbeat = x' 0)"
refuses "a dataplane that there is not" "conf, line 1: dataplane is udp, xdp or p4, not 'x'" 'dataplane = x'
refuses "a setting of another dataplane" 'conf, line 2: iface is for dataplane = xdp' $'jobs = 1\niface = eth0'
refuses "one of the P4 switch" 'conf, line 1: target is for dataplane = p4' 'target = 127.0.0.1:9090'
ends 2 "the option wins over the file's: it is the mistake" '^switchml switch: --target is for --dataplane p4' \
	--listen 127.0.0.1:0 --config "$work/conf" --target 127.0.0.1:9
refuses "a line that is too long" 'conf, line 2: longer than 198 bytes: put the rest .*indented' \
	"$(printf 'jobs = 1\nhosts = %01000d' 0)"
refuses "a line that goes on" "conf, line 1: slots must be .*, not '1x'" $'slots = 1\n x'
refuses "a line without a value" 'conf, line 1: expected NAME = VALUE' 'jobs'
refuses "a section" 'conf, line 1: expected NAME = VALUE' $'[switch]\njobs = 1'
refuses "a section alone" 'conf, line 1: expected NAME = VALUE' '[switch]'
refuses "a section at the end" 'conf, line 2: expected NAME = VALUE' $'jobs = 1\n[switch]'
refuses "a file in the file" "there is no setting 'config'" 'config = /etc/passwd'
# Values that show only in use that they are wrong.
# Status, title, pattern, lines of the file, options. 1: the service manager tries again.
fails() {
	printf '%s\n' "$4" >"$work/conf"
	ends "$1" "$2" "$3" --config "$work/conf" "${@:5}"
}
here=$'jobs = 1\nlisten = 127.0.0.1:0\n'
fails 2 "a listen that is no address" "--listen is not .* (.*conf, line 2: listen = 999.1.1.1:0)" $'jobs = 1\nlisten = 999.1.1.1:0'
fails 2 "a listen with a wrong port" "--listen is not .* (.*conf, line 1: listen = 127.0.0.1:99999)" 'listen = 127.0.0.1:99999'
fails 1 "a listen of another host" "Cannot assign .* (.*conf, line 1: listen = 192.0.2.77:0)" 'listen = 192.0.2.77:0'
fails 1 "a parent that is no name" "(.*conf, line 3: parent = a b)" "${here}parent = a b"
fails 2 "metrics that are no address" "(.*conf, line 3: metrics = 1.2:x)" "${here}metrics = 1.2:x"
fails 2 "a key file that is missing" "(.*conf, line 3: key-file = $work/nowhere)" "${here}key-file = $work/nowhere"
fails 2 "a certificate alone" "--tls-key is not set.*(the other two: --tls-certificate and --tls-authority) (.*conf, line 3: tls-certificate = a)" \
	"${here}tls-certificate = a"
fails 2 "the option wins over the file's listen: the file is not named" "--listen is not [^(]*$" 'listen = 127.0.0.1:0' --listen 999.1.1.1
# The options' names may be shortened.
echo 'slotz = 7' >"$work/conf"
ends 2 "--conf is --config" "conf, line 1: there is no setting 'slotz'" --listen 127.0.0.1:0 --conf="$work/conf"
rm "$work/conf"
ends 2 "a file that is missing" "cannot read $work/conf: No such file" --config "$work/conf"
ends 2 "a folder instead of a file" "cannot read $work: Is a directory" --listen 127.0.0.1:0 --config "$work"
mkfifo "$work/fifo"
for other in /dev/zero "$work/fifo"; do
	ends 2 "${other##*/} instead of a file" "cannot read $other: it is not a regular file" \
		--listen 127.0.0.1:0 --config "$other"
done
# The example file of the program: its comments are settings that exist.
sed 's/^#\([a-z-]* = \)/\1/; /^tls-/d; /^key-/d; /^iface/d; /^xdp/d; /^metrics/d; /^target/d; /^hosts/d; /^program/d; /^parent/d; s/^listen.*/listen = 127.0.0.1:0/; /^data-port/d' \
	"$root/packaging/systemd/switch.conf" >"$work/conf"
start
prints "every setting of the file that is installed exists" '4096 slots, 64 jobs'
end
# And each setting that exists is in it.
"$switchml" switch --help | sed -n 's/^ *\(-., \)\?--\([a-z-]*\).*/\2/p' | grep -vxE 'config|help|usage|verbose|version' |
	sort -u >"$work/options"
sed -n 's/^#\([a-z-]*\) = .*/\1/p' "$root/packaging/systemd/switch.conf" | sort | diff "$work/options" - >"$work/diff" &&
	[ "$(wc -l <"$work/options")" -gt 15 ]
say $? "the file that is installed has every setting" "$work/diff"

# ---- SIGHUP ----

printf '%s\n' 'listen = 127.0.0.1:0' 'heartbeat = 30' 'jobs = 3' >"$work/conf"
start
printf '%s\n' 'listen = 127.0.0.1:0' 'heartbeat = 20' 'jobs = 5' 'debug = INFO' >"$work/conf"
kill -HUP $switch
prints "SIGHUP: it says what holds now, and what needs a restart" \
	"from $work/conf: debug info, heartbeat 20 s; needs a restart: jobs"
SWITCHML_SWITCH=$address "$switchml" bench --local-workers 2 -b 4K -e 4K -n 5 -c 1 >"$work/bench" 2>&1
say $? "a job after SIGHUP" "$work/bench"
"$switchml" bench --switch "$address" --job struck --local-workers 2 -b 4K -e 4K -n 1000000 >"$work/bench" 2>&1 &
bench=$!
await is_under_way "$address" struck
kill -9 "$(pgrep -o -P $bench)"
wait $bench
prints "its log tells more from then on" 'job "struck" failed'
time='[0-9-]*T[0-9:]*\.[0-9]*Z'
prints "each line of the log has a time and a level" \
	"^$time switchml switch: info: from .*: debug info"
prints "a failed job is a warning" "^$time switchml switch: warn: job \"struck\" failed"
echo 'slots = 1' >>"$work/conf"
kill -HUP $switch
prints "a mistake in the file: nothing changes" "nothing changes: $work/conf, line 5: slots must be a number"
kill -0 $switch && "$switchml" status --switch "$address" >/dev/null
say $? "it goes on after a mistake" "$work/out"
end
prints "its first line has a time and a level" "^$time switchml switch: info: ready on "
prints "and its last line" "^$time switchml switch: info: ended by SIGTERM$"

# ---- the library's words of levels, in any case ----

for level in WARNING Error; do
	printf '%s\n' 'listen = 0.0.0.0:0' "debug = $level" >"$work/conf"
	start
	warnings=$(grep -c ' warn: the switch listens on all addresses' "$work/out")
	equal "$level $warnings" "$([ $level = Error ] && echo Error 0 || echo WARNING 1)"
	say $? "debug = $level" "$work/out"
	end
done

# ---- the log as JSON ----

# Prints what is wrong with a JSON log, of which every line is an object; $1: a message that it has.
wrong_json() {
	python3 - "$work/out" "$1" <<'END'
import datetime, json, re, sys
path, wanted = sys.argv[1:]
entries = [json.loads(line) for line in open(path)]
for entry in entries:
    if list(entry) != ["time", "level", "program", "message"]:
        print("its members:", entry)
    moment = datetime.datetime.strptime(entry["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
    age = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - moment
    if not 0 <= age.total_seconds() < 600 or entry["level"] not in ("error", "warn", "info", "trace"):
        print("time or level:", entry)
if not any(re.search(wanted, entry["message"]) for entry in entries):
    print("no message has", wanted, entries)
END
}

# Title, message.
is_json() {
	wrong_json "$2" >"$work/wrong" 2>&1
	equal "$(cat "$work/wrong")" ""
	say $? "$1" "$work/wrong"
}

printf '%s\n' 'listen = 127.0.0.1:0' 'log-json = True' 'debug = trace' >"$work/conf"
start
"$switchml" bench --switch "$address" --job 'a "quoted\" job' --local-workers 2 -b 4K -e 4K -n 5 -c 1 \
	>"$work/bench" 2>&1
say $? "a job" "$work/bench"
await says "$work/out" 'has ended'
is_json "the file's log-json: a JSON object in each line" '^ready on '
is_json "what a job does, in JSON" '^job "a "quoted\\" job" runs: 2 ranks, '
is_json "its end, in JSON" '^job "a "quoted\\" job" has ended$'
echo 'slots = 1' >>"$work/conf"
kill -HUP $switch
await says "$work/out" 'nothing changes'
is_json "a mistake in the file, in JSON" '^nothing changes: .*conf, line [0-9]*: slots must be a number'
end
is_json "its last line, in JSON" '^ended by '
printf '%s\n' 'listen = 127.0.0.1:0' 'log-json = no' >"$work/conf"
start --log-json
is_json "--log-json wins over the file" '^ready on '
end
refuses "log-json has two values" "conf, line 1: log-json must be 0 or 1, no or yes, not 'maybe'" 'log-json = maybe'

# ---- the journal ----

printf '%s\n' 'listen = 127.0.0.1:0' 'debug = info' >"$work/conf"
: >"$work/out"
JOURNAL_STREAM=$(stat -c %d:%i "$work/out") start
prints "the journal gets a priority" '^<6>ready on '
echo 'slots = 1' >>"$work/conf"
kill -HUP $switch
prints "and that of an error" '^<3>nothing changes: '
end
printf '%s\n' 'listen = 127.0.0.1:0' >"$work/conf"
JOURNAL_STREAM=$(stat -c %d:%i "$work/conf") start
prints "another file than the journal gets the time" "^$time switchml switch: info: ready on "
end
: >"$work/journal"
: >"$work/out"
JOURNAL_STREAM=$(stat -c %d:%i "$work/journal") "$switchml" switch --config "$work/conf" \
	>"$work/out" 2>"$work/journal" &
switch=$!
await_switch "$work/out"
prints "standard output is a file beside the journal" "^$time switchml switch: info: ready on "
echo 'slots = 1' >>"$work/conf"
kill -HUP $switch
expect "and standard error is the journal" "$work/journal" '^<3>nothing changes: '
end

# ---- systemd ----

# Prints what the switch tells the service manager, line by line, and ends after the line
# $1.
listen_as_manager() {
	python3 - "$work/notify" "$1" <<'END'
import os, socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
manager.settimeout(60)
print("listening", flush=True)
said = ""
while said != sys.argv[2]:
    said = manager.recv(4096).decode()
    print(said, flush=True)
END
}

# Only the control thread stops, because a tracer holds it: is the watchdog still fed?
starves_when_it_hangs() {
	python3 - "$work/notify" "$1" "$work/conf" <<'END'
import ctypes, os, socket, subprocess, sys, time
path, program, conf = sys.argv[1:]
if os.path.exists(path):
    os.unlink(path)
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(path)
os.chmod(path, 0o777)
switch = subprocess.Popen([program, "switch", "--config", conf],
                          env={**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
manager.settimeout(60)
while manager.recv(4096) != b"WATCHDOG=1":
    pass
tasks = f"/proc/{switch.pid}/task"
thread = next(int(t) for t in os.listdir(tasks) if open(f"{tasks}/{t}/comm").read() == "sml-control\n")
SEIZE, INTERRUPT = 0x4206, 0x4207
libc = ctypes.CDLL(None, use_errno=True)
for request in (SEIZE, INTERRUPT):
    if libc.ptrace(request, thread, None, None) != 0:
        print("no process can be traced here:", os.strerror(ctypes.get_errno()))
        switch.kill()
        sys.exit(77)
# The watchdog may be fed for up to half its time. Then there is silence.
manager.settimeout(3)
end = time.monotonic() + 60
try:
    while time.monotonic() < end:
        manager.recv(4096)
    starved = False
except TimeoutError:
    starved = True
switch.kill()
sys.exit(not starved)
END
	status=$?
	case $status in
	77) echo "left out: a control thread that hangs" ;;
	*) say $status "the watchdog starves when the control thread hangs" ;;
	esac
}

if [ "$systemd" = yes ]; then
	printf '%s\n' 'listen = 127.0.0.1:0' >"$work/conf"
	listen_as_manager STOPPING=1 >"$work/said" &
	manager=$!
	await says "$work/said" listening
	NOTIFY_SOCKET=$work/notify WATCHDOG_USEC=1000000 start
	await says "$work/said" WATCHDOG=1
	kill -HUP $switch
	await says "$work/said" RELOADING=1
	end
	wait $manager
	equal "$(grep -v WATCHDOG "$work/said" | tr '\n' ' ')" "listening READY=1 RELOADING=1 READY=1 STOPPING=1 "
	say $? "systemd hears READY, RELOADING, STOPPING, and the watchdog" "$work/said"
	starves_when_it_hangs "$switchml"
	if command -v systemd-analyze >/dev/null; then
		sed "s|^ExecStart=[^ ]*|ExecStart=$switchml|; /^Documentation=/d" "$unit" >"$work/switchml-switch.service"
		systemd-analyze verify "$work/switchml-switch.service" >"$work/out" 2>&1 && [ ! -s "$work/out" ]
		say $? "systemd takes the unit" "$work/out"
	else
		echo "left out: the unit (there is no systemd-analyze; Debian: systemd)"
	fi
else
	echo "left out: systemd (this build has no libsystemd)"
fi

[ $failures = 0 ]
