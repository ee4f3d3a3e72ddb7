#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduces of the sizes of Intel's MPI benchmarks, 0 to 4 MiB, of float, double, int and long,
# through a switch: every element is checked. If IMB-MPI1 is installed, it runs, too, with its own
# check (-DCHECK), in the type of its buffers, float.
# Usage: mpi-sizes.sh PRELOAD-LIBRARY PROGRAMS SWITCHML
set -u

preload=$(realpath "$1")
folder=$(realpath "$2")
switchml=$(realpath "$3")
support=$(realpath "$(dirname "$0")")/../support
. "$support/report.sh"
ranks=3

skip() {
	echo "skipped: $1"
	exit 77
}

if ldd "$preload" | grep -q libmpich; then
	launch=("$(command -v mpiexec.mpich || command -v mpiexec.hydra)")
else
	launch=("$(command -v mpirun.openmpi || command -v mpirun)" --allow-run-as-root --oversubscribe
		--mca btl "self,vader" --mca oob_tcp_if_include lo --mca mpi_yield_when_idle 1)
fi
[ -n "${launch[0]}" ] || skip "mpirun is not installed"
sanitizer=$(ldd "$preload" | sed -n 's/.*=> \(.*lib[at]san[^ ]*\).*/\1/p')
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
unset "${!SWITCHML_@}"

# Sizes in bytes, from rank 0's table of them: 0, one element, … 4 MiB.
sizes_of() {
	local size
	echo 0
	for ((size = $1; size <= 4 << 20; size *= 2)); do echo $size; done
}

# Program, arguments: run it under the preload.
run() {
	timeout 200 "${launch[@]}" -n $ranks env LD_PRELOAD="${sanitizer:+$sanitizer:}$preload" \
		SWITCHML_SWITCH="$address" SWITCHML_MPI_THRESHOLD=1 SWITCHML_SUMMARY=all "$@" >"$work/out" 2>&1
}

# Was it the switch that computed all sums? The summary counts those with 0 bytes, and IMB's own, and
# would list what the table leaves to MPI.
through_the_switch() {
	grep -q '\[rank 0\]: [1-9][0-9]* of .* through the switch' "$work/out" &&
		! grep -q 'that the table leaves' "$work/out"
}

local_switch "$work/switch"

for type in float:4 double:8 int:4 long:8; do
	run "$folder/mpi-sizes" "${type%:*}" && [ "$(grep -x '[0-9][0-9]*' "$work/out")" = "$(sizes_of "${type#*:}")" ] &&
		through_the_switch
	say $? "${type%:*}: every element of every size is right" "$work/out"
done

if imb=$(command -v IMB-MPI1); then
	run "$imb" Allreduce -npmin $ranks -iter 12 -time 20 && through_the_switch &&
		[ "$(awk '$1 ~ /^[0-9]+$/ && NF == 6 && $6 == 0 { print $1 }' "$work/out")" = "$(sizes_of 4)" ]
	say $? "IMB-MPI1 Allreduce: no defects" "$work/out"
else
	echo "left out: IMB-MPI1 is not installed (github.com/intel/mpi-benchmarks, built with -DCHECK)"
fi
exit $((failures > 0))
