#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `switchml switch --metrics`: its numbers are those of `switchml status` while a job runs;
# promtool and Prometheus accept them, if this machine has them (tools/get-prometheus); hostile clients do not disturb
# the job.
#
#	tests/cmd/metrics.sh build/switchml METRICS ("yes": this build has them)
[ "$2" = yes ] || { echo "this build lacks --metrics (libmicrohttpd)"; exit 77; }
. "$(dirname "$0")/../support/trees.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
unset SWITCHML_SWITCH
unpacked=$("$here/../../tools/get-prometheus" --where)
PATH=${unpacked:+$unpacked:}$PATH

# Options: a switch that serves metrics. Sets $switch, $address and $url.
start_switch() {
	local_switch "$work/switch" "$@"
	url=$(url_of "$work/switch")
}

# A switch's output.
url_of() {
	sed -n 's/.*metrics at \([^ ]*\).*/\1/p' "$1"
}

# Title, what metrics.py does.
check() {
	python3 "$here/metrics.py" "$2" "$switchml" "$address" "${3:-$url}" "${@:4}" >"$work/said" 2>&1
	say $? "$1: $(tail -n 1 "$work/said")" "$work/said"
}

# ---- options ----
printf '%s\n' 'metrics = 127.0.0.1:0' >"$work/conf"
chmod 755 "$work"
start_switch --config "$work/conf"
python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=60)' "$url"
say $? "the file's metrics are served at $url"
kill $switch
wait $switch
say $? "it ends" "$work/switch"
for wrong in 2:nonsense:x 1:203.0.113.1:80; do
	timeout 60 "$switchml" switch --listen 127.0.0.1:0 --metrics ${wrong#*:} >"$work/out" 2>&1
	[ $? = "${wrong%%:*}" ] && ! says "$work/out" 'which process'
	say $? "--metrics $wrong: $(cat "$work/out")" "$work/out"
done
start_switch --metrics :0
[[ $url == http://127.0.0.1:* ]]
say $? "without an address, only this host can ask: $url"

# ---- a job that loses packets ----
name='of "quotes" and \'
SWITCHML_RECORD=metrics:$work/worker.prom "$switchml" bench --switch "$address" --job "$name" --local-workers 2 -b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000 --pause 20 \
	--drop 1% >"$work/bench" 2>&1 &
bench=$!
check "the metrics agree with the status" agree
await test -s "$work/worker.0.prom"

# ---- a tree: two ranks of one host and a leaf's leaf at the leaf, one rank at the root ----
plain=$address
cd "$work" || exit 1
switch root --metrics :0
leaf middle root --slots 300 --metrics :0
leaf low middle --metrics :0
SWITCHML_SHARED_MEMORY=1 start tree -b 64K -e 64K -w 0 -n 1 -c 0 --seconds 1000 --pause 20 -- middle middle low root
await job_is "${at[root]}" tree running
for name in root middle low; do
	address=${at[$name]}
	check "the metrics of the tree's switch $name" agree "$(url_of $name.switch)"
done
address=$plain
check "the dashboard" dashboard "$url" "$work/worker.0.prom" "$(url_of root.switch)" "$(url_of middle.switch)"
if command -v promtool >/dev/null; then
	promtool check rules "$here/../../packaging/prometheus/switchml.rules.yml" >"$work/promtool" 2>&1
	say $? "promtool has nothing against the alerts" "$work/promtool"
	for at_url in "$url" "$(url_of root.switch)" "$(url_of middle.switch)"; do
		python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"Accept": "text/plain"}), timeout=60).read().decode(), end="")' \
			"$at_url" | promtool check metrics >"$work/promtool" 2>&1
		say $? "promtool has nothing against the metrics at $at_url" "$work/promtool"
	done
else
	echo "left out: promtool check metrics (tools/get-prometheus gets it)"
fi
if command -v prometheus >/dev/null; then
	targets=
	for name in switch root.switch middle.switch; do
		place=$(url_of $name)
		place=${place#http://}
		targets=$targets${targets:+,}"'${place%/metrics}'"
	done
	printf '%s\n' 'global: {scrape_interval: 1s, scrape_timeout: 1s}' 'scrape_configs:' \
		"- {job_name: switchml, static_configs: [{targets: [$targets]}]}" >"$work/prometheus.yml"
	: >"$work/prometheus"
	prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
		--web.listen-address="$(steady_address)" >"$work/prometheus" 2>&1 &
	prometheus=$!
	await says "$work/prometheus" 'ready to receive web requests'
	prometheus_url=http://$(steady_address)
	check "a Prometheus that scrapes agrees with the status" prometheus "$prometheus_url" "$url"
	for name in root middle; do
		address=${at[$name]}
		check "and with that of the tree's switch $name" prometheus "$prometheus_url" "$(url_of $name.switch)"
	done
	address=$plain
	kill $prometheus
	wait $prometheus
else
	echo "left out: a Prometheus that scrapes (tools/get-prometheus gets it)"
fi

# ---- hostile clients ----
check "hostile clients do not disturb the job" hostile
await eval '[ "$(find "/proc/$switch/fd" | wc -l)" -lt 60 ]'
kill $bench
wait $bench
say $? "the job ends with exact results" "$work/bench"
says "$work/bench" '^# Wrong elements: 0 OK'
say $? "no element is wrong"
kill $switch
wait $switch
say $? "the switch ends" "$work/switch"
[ $failures = 0 ]
