#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A set-user-ID program takes no setting from the environment of its caller: a variable
# could name a file to write, or a key. Needs root, to make such a program.
#
#	tests/switch/set-user-id.sh build/switchml
switchml=$(realpath "$1")

if [ "$(id -u)" != 0 ]; then
	echo "SKIP: only root can make a program that runs as somebody else"
	exit 77
fi
. "$(dirname "$0")/../support/report.sh"
chmod 755 "$work"
if findmnt -no OPTIONS --target "$work" | tr ',' '\n' | grep -qx nosuid; then
	echo "SKIP: $work is mounted nosuid"
	exit 77
fi
cp "$switchml" "$work/plain"
cp "$switchml" "$work/secure"
chown nobody "$work/secure"
chmod 4755 "$work/secure"

# Title, program, variable with a wrong value, whether the program must notice it,
# command.
notices() {
	local title=$1 program=$2 setting=$3 wanted=$4 noticed=no
	shift 4
	env -i PATH="$PATH" ASAN_OPTIONS="${ASAN_OPTIONS:-}" "$setting" timeout 60 \
		"$work/$program" "$@" >"$work/out" 2>&1
	grep -q "${setting%%=*}" "$work/out" && noticed=yes
	# The program has run, and did not fail in another way.
	grep -q 'environment\|busbw\|SWITCHML' "$work/out" || noticed="no answer"
	[ "$noticed" != "$wanted" ] || noticed=0
	say "$noticed" "$title" "$work/out"
}

# Title of two checks, variable with a wrong value, command.
pair() {
	local title=$1 setting=$2
	shift 2
	notices "$title: heeded where a user runs the program" plain "$setting" yes "$@"
	notices "$title: not where it is set-user-ID" secure "$setting" no "$@"
}

pair "a setting" SWITCHML_WIRE=int9 doctor
pair "the flight recorder's file" SWITCHML_RECORD=failure:/no/such/directory/record \
	bench --local-workers 1 -e 4 -n 1
exit $((failures > 0))
