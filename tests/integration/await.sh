# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: a test waits for what it goes on from, never for a time. On a busy machine, and
# with sanitizers, any process may stand still for seconds.
# shellcheck shell=bash

# Command: until it succeeds. After a minute the test says so, and goes on.
await() {
	local end=$((SECONDS + 60))
	until "$@"; do
		if [ $SECONDS -ge $end ]; then
			echo "after a minute still not: $*"
			return 1
		fi
		sleep 0.05
	done
}

# File, pattern.
says() {
	grep -q "$2" "$1"
}

# Switch, job, state: so says the switch. Who asks from another host sets $asking, a command.
job_is() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | grep -q "job \"$2\": $3"
}

# Switch, job: it runs, and every rank has sent a hundred packets there.
is_under_way() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | awk -v job="job \"$2\": running" '
		/^job / { here = index($0, job) == 1 }
		here && $6 == "ms" { ranks++; busy += $7 >= 100 }
		END { exit !(ranks && busy == ranks) }'
}
