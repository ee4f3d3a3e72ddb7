#!/bin/bash
# `switchml bench` over loopback: types, operations, wires, faults, end by signal, a wrong option.
#
#	tests/cmd/bench.sh build/switchml build/tests/chaos
switchml=$(realpath "$1")
chaos=$(realpath "$2")
. "$(dirname "$0")/../support/report.sh"

# Title, command: it must succeed.
expect_success() {
	"${@:2}" >"$work/out" 2>&1
	say $? "$1" "$work/out"
}

bench="timeout 100 $switchml bench -n 2 -w 1"
for wire in int32 int16; do
	expect_success "all types and operations, $wire wire" \
		$bench --local-workers 3 -b 4 -e 64K -f 16 -d all -o all --wire $wire
	expect_success "one rank, $wire wire" \
		$bench --local-workers 1 -b 4 -e 64K -f 16 -d all -o all --wire $wire
	expect_success "4 MiB from 4 ranks, $wire wire" \
		$bench --local-workers 4 -b 4M -e 4M --wire $wire
done
expect_success "all types and operations, exact wire, with loss" \
	$bench --local-workers 3 -b 4 -e 8K -f 4 -d all -o all --wire exact --drop 1%
for collective in all_gather reduce_scatter broadcast reduce; do
	expect_success "$collective, all types and operations, with loss" \
		$bench --local-workers 3 --collective $collective --root 2 -b 8 -e 64K -f 16 -d all -o all \
		-c 2 --drop 1%
done
expect_success "barrier" $bench --local-workers 3 --collective barrier
says "$work/out" '^ *0 *0 *float *none '
say $? "the line for the barrier" "$work/out"
for faults in "--drop 10%" "--duplicate 5%" "--reorder 5%"; do
	expect_success "with $faults" $bench --local-workers 4 -b 8 -e 256K -f 16 -d all $faults
done

local_switch "$work/switch" -vv
# Local workers use the switch of the environment, too.
expect_success "SWITCHML_SWITCH" env SWITCHML_SWITCH="$address" $bench --job environment -b 4K -e 4K
await says "$work/switch" 'job "environment"'

# Title, exit status, what it must say, then the command.
expect_refusal() {
	"${@:4}" >"$work/out" 2>&1
	[ $? = "$2" ] && says "$work/out" "$3"
	say $? "$1" "$work/out"
}
expect_refusal "SWITCHML_SWITCH with a wrong name" 1 'nosuch\.invalid.*SWITCHML_SWITCH' \
	env SWITCHML_SWITCH=nosuch.invalid $bench -b 4K -e 4K
expect_refusal "--chaos with SWITCHML_SWITCH" 2 'unset SWITCHML_SWITCH' \
	env SWITCHML_SWITCH="$address" "$chaos" --chaos -b 4K -e 4K
expect_refusal "--chaos with --switch" 2 'leave out --switch' "$chaos" --chaos --switch "$address"
expect_refusal "a world size without a rank" 1 'RANK' env WORLD_SIZE=2 $bench -b 4K -e 4K
expect_success "status" "$switchml" status --switch "$address"

# ---- the table fits the terminal; elsewhere it has all columns, because programs read it ----
# Title, pattern: the last output has it.
expect_line() {
	says "$work/out" "$2"
	say $? "$1" "$work/out"
}
small="--local-workers 2 -b 8 -e 4K -f 512 -n 2 -w 1"
for columns in 80 110 150; do
	for more in "" --percentiles; do
		title="$columns columns${more:+, $more}"
		expect_success "$title" "$(dirname "$0")/../support/in-terminal" $columns "$switchml" bench $small $more
		expect_line "$title: what it must have" '^# *size .* time .*busbw .* time .*busbw'
		widest=$(grep -v '^# [sWA]' "$work/out" | wc -L)
		[ "$widest" -lt $columns ]
		say $? "$title: the widest line has $widest" "$work/out"
	done
done
expect_success "no terminal" $bench $small --percentiles
expect_line "no terminal: all columns" \
	'^# *size *count *type *redop\( *time *algbw *busbw *#wrong *wire tx *#retx *p50 *p90 *p99 *max\)\{2\}$'
expect_line "small rates are not 0" '^ *8 .* \(0\.0*[1-9][0-9]*\|[1-9][.0-9]*e-[0-9]*\) '
! grep -q '^ *[1-9].* 0\.000 \|bandwidth: 0.000 ' "$work/out"
say $? "no rate is 0.000" "$work/out"
expect_success "--chaos" timeout 100 "$chaos" --chaos -b 1M -e 1M -n 1 -c 1 --seconds 3
expect_line "--chaos says how it ended" \
	'^# Chaos: the switch was killed [1-9][0-9]* times\? (--seed 1), and the job went on each time$'
expect_success "doctor" "$switchml" doctor --switch "$address"


# It ends successfully when told to, however many processes were told: here only the first one,
# which is not a rank.
timeout 100 "$switchml" bench --switch "$address" --local-workers 2 --job told -b 4K -e 4K -n 1 -w 0 \
	--seconds 1000 >"$work/told" 2>&1 &
pids=($!)
await_under_way told "$address"
kill "$(pgrep -P "${pids[0]}")"
wait "${pids[0]}" && says "$work/told" 'Wrong elements: 0 OK'
expect_success "--seconds, told to end" [ $? = 0 ]
began=$SECONDS
expect_success "--seconds" $bench --local-workers 2 -b 4K -e 4K --seconds 3
cp "$work/out" "$work/kept"
expect_success "a file is told how far it is after five seconds without a row" \
	says "$work/kept" '^# 4096 bytes of float, sum, .*[0-9] s since the start$'
expect_success "--seconds takes as long, twice" [ $((SECONDS - began)) -ge 3 ]

expect_success "JSON" $bench --local-workers 2 -b 4K -e 4K --json "$work/json"
$bench --local-workers 2 -b 4K -e 4K --json - 2>"$work/table" >"$work/json"
expect_success "JSON on standard output" python3 -m json.tool "$work/json"
cp "$work/table" "$work/kept"
expect_success "the table goes to standard error then" says "$work/kept" 'Wrong elements: 0 OK'
for key in size_bytes count type op wire in_place time_us algbw_GBps busbw_GBps wrong \
	wire_tx_bytes retransmits; do
	[ "$(grep -c "\"$key\":" "$work/json")" -ge 2 ]
	say $? "JSON has $key" "$work/json"
done
for key in collective p50_us p90_us p99_us max_us; do
	says "$work/json" "\"$key\":"
	say $? "JSON has $key" "$work/json"
done

# The columns and the last lines of nccl-tests, to the space.
expect_success "nccl-tests" $bench --local-workers 3 --nccl-tests -b 1K -e 1M -f 32
cat >"$work/nccl" <<'END'
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
ROW
ROW
ROW
# Out of bounds values : 0 OK
# Avg bus bandwidth    : NUMBER 
#
# Collective test concluded: all_reduce_perf
END
number='[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?'
# A busy machine takes longer than 5 seconds, and is told how far it is.
sed -nE '/out-of-place/,$p' "$work/out" | sed -E -e '/ s since the start$/d' \
	-e "s/^( [ 0-9]{11})  ([ 0-9]{12})     float     sum      -1(  [ 0-9.e+-]{7}(  [ 0-9.e+-]{6}){2}       0){2}\$/ROW/" \
	-e "s/(Avg bus bandwidth    :) $number /\1 NUMBER /" | diff "$work/nccl" -
say $? "nccl-tests' table" "$work/out"

# A line about a long run on a terminal. Elsewhere, see --seconds, above.
script -qec "$bench --local-workers 2 -b 4K -e 4K --seconds 2" /dev/null >"$work/out" 2>&1 </dev/null
says "$work/out" 's since the start'
say $? "a long run says how far it is" "$work/out"
expect_success "-h" "$switchml" bench -h
for wrong in --collective --datatype; do
	! $bench $wrong nonsense --local-workers 1 >"$work/out" 2>&1
	say $? "$wrong nonsense is refused" "$work/out"
done
[ $failures = 0 ]
