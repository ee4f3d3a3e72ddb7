#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# examples/elastic.c: workers are killed, the others go on, and another one joins; through a
# switch, which decides who goes on or leaves that to them, and without one.
#
#	tests/job/elastic.sh SWITCHML ELASTIC
set -u

switchml=$1 elastic=$2
. "$(dirname "$0")/../support/await.sh"
. "$(dirname "$0")/../support/elastic.sh"
work=$(mktemp -d)
switch=
trap 'kill -9 $switch "${worker[@]}" 2>/dev/null; rm -rf "$work"' EXIT

local_switch "$work/switch" -v
export SWITCHML_SWITCH=$address
survive switch
# How many members there are at a time depends on who is late: tests/job/test_job_join.c has numbers.
grep -q ' job "elastic .*" follows job "elastic .*" (change [1-9].*): [1-9] ranks*, of which [0-9] joined; [0-9] left$' \
	"$work/switch" || give_up "the switch's log has no change: $(cat "$work/switch")"
SWITCHML_SHARED_MEMORY=1 survive shared
switch_decides=1
survive decided
grep -q ' job "decided #[2-9]" follows job "decided.*" (change [1-9].*): 3 ranks, of which 1 joined; 0 left$' \
	"$work/switch" || give_up "the switch's log has no new process: $(cat "$work/switch")"
SWITCHML_SHARED_MEMORY=1 survive decided-shared
switch_decides=
unset SWITCHML_SWITCH
SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_PORT
survive alone
