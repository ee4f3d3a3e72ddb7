#!/bin/bash
# How many instructions an element costs a worker and a slot, at a switch and in the memory of a
# host: no row of bench/micro_worker may need a third more than when its limit was set. Counts, unlike
# times, are the same on a busy machine. Limits are a quarter above what GCC 12 needed for AVX2, which
# is the widest that valgrind knows; a tenth for small calls, whose elements are the least of it.
#
#	tests/bench/instructions.sh BUILD-DIRECTORY
program=$1/bench/micro_worker
ranks=4 calls=9

skip() {
	echo "SKIP: $1"
	exit 77
}

command -v valgrind >/dev/null || skip "nothing counts instructions without valgrind (Debian: valgrind)"
grep -qw avx2 /proc/cpuinfo || skip "the limits are for processors with AVX2"
nm "$program" | grep -qF combine_float32.avx2 || skip "this compiler makes no AVX2 versions of functions"

# count ROW LANES ELEMENTS: instructions within calls, in hundredths for each element
count() {
	local sum
	sum=$(valgrind --tool=callgrind '--toggle-collect=call_once*' --callgrind-out-file=/dev/null \
		"$program" $ranks "$2" "$3" "$1" 2>&1 | sed -n 's/.* Collected : //p')
	[ "${sum:-0}" -gt 0 ] && echo $((100 * sum / (ranks * $3 * calls)))
}

failed=0
while read -r row lanes elements limit; do
	found=$(count "$row" "$lanes" "$elements") || { echo "FAILED: $row: nothing was counted"; exit 1; }
	printf '%-16s %4d lanes %6d elements %6d (limit %d)\n' "$row" "$lanes" "$elements" "$found" "$limit"
	[ "$found" -le "$limit" ] || failed=1
done <<'END'
int32             352 40000   1360
int16             352 40000    950
float32           352 40000   1420
float16           352 40000   1200
bfloat16          352 40000   1070
int32-memory     2208 40000    670
float32-memory   2208 40000    745
float16-memory   2208 40000    850
bfloat16-memory  2208 40000    700
float16           352     8  48800
float16-memory   2208     8  51000
END
[ $failed = 0 ] || { echo "FAILED: hundredths of an instruction for each element are above a limit"; exit 1; }
