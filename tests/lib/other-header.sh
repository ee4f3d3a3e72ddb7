#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs of an older and a newer release run with this library: no byte beyond their structures is
# written, and what only they know is refused. They have AddressSanitizer.
#
#	other-header.sh LIBRARY
set -eu

library=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!SWITCHML_@}"

mkdir "$work/older" "$work/newer"
python3 - "$here/../../include/switchml.h" "$work" <<'END'
import re
import sys

older = newer = open(sys.argv[1]).read()
# Each structure, and how many values the older one's last member, or members, have.
for name, values in ("config", 2), ("membership", 1), ("counters", 1), ("options", 1), ("info", 1):
    body = re.compile(r"(struct sml_" + name + r" \{\n.*?)(\t[^\n]*;[^\n]*\n)\};\n", re.S)
    init = re.compile(r"(#define SML_" + name.upper() + r"_INIT.*?)((?:, (?:0|NULL|\"\")){" + str(values) + r"})(\s*\\\n\t\}\n)", re.S)
    assert body.search(newer) and init.search(newer), name
    newer = init.sub(r"\1\2, 0\3", body.sub(r"\1\2\tsize_t tomorrow;\n};\n", newer, count=1), count=1)
    older = init.sub(r"\1\3", body.sub(r"\1};\n", older, count=1), count=1)
for age, text in ("older", older), ("newer", newer):
    with open(f"{sys.argv[2]}/{age}/switchml.h", "w") as file:
        file.write(text)
END
for age in older newer; do
	${CC:-cc} -g -Wall -Wextra -Werror -fsanitize=address -D"${age^^}" -I"$work/$age" "$here/other_header.c" \
		"$library" -Wl,-rpath,"$(dirname "$library")" -o "$work/program"
	"$work/program"
	echo "ok: a program of an $age header" | sed 's/an newer/a newer/'
done
