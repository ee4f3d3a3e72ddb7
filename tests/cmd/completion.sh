#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Shell completion: bash and zsh offer every command and every option that the program has. And the
# manual page of each command has the options that --help lists, and no others. No document, manifest
# or script of ours uses an option that does not exist.
#
#	tests/cmd/completion.sh build/switchml
switchml=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/support/report.sh"
PATH=$(dirname "$switchml"):$PATH

# Command: its options as argp lists them, without the texts, which may name others.
options_of() {
	"$switchml" "$1" --help | sed -n 's/^ \{1,6\}\(-., \)\{0,1\}\(--[a-z][a-z0-9-]*\).*/\2/p' | sort -u
}

# Words of a command line, the last one incomplete: prints what bash offers, one on each line.
bash_offers() {
	bash -c '
		. "$0"
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_switchml "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		printf "%s\n" "${COMPREPLY[@]}"' "$root/packaging/completions/switchml.bash" "$@" | sort -u
}

# The same of zsh. Outside of a line editor, its functions for completion only print what they get.
zsh_offers() {
	zsh -f -c '
		_describe() { local -a list; list=(${(P)4}); print -l -- ${list%%:*} }
		compadd() { shift; print -l -- $@ }
		_files() { print files }
		file=$1
		shift
		words=("$@")
		CURRENT=$#
		PREFIX=${words[-1]}
		. $file' zsh "$root/packaging/completions/_switchml" "$@" | sort -u
}

# Shell, title, what it should offer, words.
offers() {
	local shell=$1 title=$2 wanted=$3
	shift 3
	diff <(echo "$wanted") <("${shell}_offers" switchml "$@") >"$work/diff"
	say $? "$shell: $title" "$work/diff"
}

commands=$("$switchml" --help | sed -n 's/^  \([a-z]\{1,\}\)  *[a-z].*/\1/p' | sort)
[ "$(wc -w <<<"$commands")" -ge 6 ]
say $? "commands: $(tr '\n' ' ' <<<"$commands")"

shells=bash
if command -v zsh >/dev/null; then shells="bash zsh"; else echo "left out: zsh (Debian: zsh)"; fi
for shell in $shells; do
	offers $shell "every command" "$commands" ""
	for command in $commands; do
		offers $shell "every option of $command" "$(options_of "$command")" "$command" --
	done
	offers $shell "merge of trace" merge trace ""
done
offers bash "commands that begin so" status st
offers bash "options that begin so" $'--data-port\n--dataplane' switch --dat
offers bash "the dataplanes" $'p4\nudp\nxdp' switch --dataplane ""

for command in $commands; do
	diff <(options_of "$command" | grep -vxE -- '--(help|usage|version)') \
		<(grep -oE '^\.It Fl .*' "$root/docs/man/switchml-$command.1" | grep -oE 'Fl -[a-z-]+' | sed 's/Fl -/--/' |
			grep -vxE -- '--(help|version)' | sort -u) >"$work/diff"
	say $? "switchml-$command(1) has every option" "$work/diff"
done

cd "$root" || exit 1
for command in $commands; do
	echo "$command --help $(options_of "$command" | tr '\n' ' ')"
done >"$work/known"
python3 - "$work/known" README.md docs/*.md docs/internals/*.md docs/man/*.1 packaging/*/* examples/*/* debian/tests/* Containerfile >"$work/unknown" <<'END'
import re, sys
known = {words[0]: set(words[1:]) for words in map(str.split, open(sys.argv[1]))}
# Up to the end of the command; what follows a launcher's name belongs to the launcher.
call = re.compile(rf"(?:switchml[`\"]? |args: \[)({'|'.join(known)})\b([^`|;&)\n#\]]*)")
used = 0
for path in sys.argv[2:]:
    text = open(path, encoding="utf-8").read().replace("\\\n", " ")
    for command, rest in call.findall(text):
        rest = re.split(r" -- |\b(?:mpirun|mpiexec|srun|torchrun)\b", rest)[0]
        options = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", rest)
        used += len(options)
        wrong = set(options) - known[command]
        if wrong:
            print(f"{path}: switchml {command} has no {' '.join(wrong)}")
assert used >= 50, used
END
[ $? = 0 ] && [ ! -s "$work/unknown" ]
say $? "the options in documents, manifests and scripts exist" "$work/unknown"
[ $failures = 0 ]
