#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The program for Tofino compiles, assembles and fits, and the daemon's module for BF Runtime finds in
# its description what it needs. Nothing is run here: p4-tofino-model.sh does that.
#
#	tests/p4/p4-tofino.sh src/p4/tna/compile BUILD-DIRECTORY/src/p4 [test_p4_bfrt]
compile=$1
constants=$2
bfrt_test=$3
here=$(dirname "$0")
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"
stages=12 # that a Tofino 1 has

for tool in p4c-barefoot bfas; do
	command -v $tool >/dev/null || {
		echo "skipped: P4 for Tofino was not tested: there is no $tool (docs/internals/p4.md)"
		exit 77
	}
done

"$compile" "$constants" "$work/tofino" >"$work/log" 2>&1
say $? "the program for Tofino compiles and assembles" "$work/log"
[ -s "$work/tofino/pipe/tofino.bin" ]
say $? "the assembler wrote $(stat -c %s "$work/tofino/pipe/tofino.bin" 2>&1) bytes" "$work/log"
# The assembler may still take what it cannot prove to be right: two actions in one place.
! grep -qE "Conflicting instruction slot usage|Action bus byte .* set in table" "$work/log"
say $? "no two actions of tables that can both run use one place" "$work/log"
# Nor does it refuse a parser whose states match nothing (docs/internals/p4.md names the compilers).
sed -n '/^parser ingress:/,/^deparser ingress:/p' "$work/tofino/pipe/switchml.bfa" >"$work/parser"
grep -q "^ *0x0800:" "$work/parser" && ! grep -q "Can't match parser state" "$work/log"
say $? "the parser compares types with 0x0800, and each of its ways can be taken" "$work/log"
used=$(sed -n 's/^stage \([0-9]*\) .*/\1/p' "$work/tofino/pipe/switchml.bfa" | sort -n | tail -n 1)
[ -n "$used" ] && [ "$used" -lt $stages ]
say $? "the last of $stages stages that it uses is number ${used:-(none)}, from 0" "$work/log"
if [ -n "$bfrt_test" ]; then
	SML_BF_RT=$work/tofino/bf-rt.json "$bfrt_test" >"$work/out" 2>&1
	say $? "the module for BF Runtime works with the program's description" "$work/out"
else
	echo "left out: the module for BF Runtime, which was not built"
fi
exit $((failures > 0))
