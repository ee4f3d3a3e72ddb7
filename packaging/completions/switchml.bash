# SPDX-License-Identifier: BSD-3-Clause
# Completion of `switchml` for bash. The program lists its commands and options itself, so this
# file never has to follow them.
# shellcheck shell=bash

_switchml_commands() {
	"$1" --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p'
}

_switchml_options() {
	"$1" "$2" --help 2>/dev/null | sed -n 's/^ \{1,6\}\(-., \)\{0,1\}\(--[a-z][a-z0-9-]*\).*/\2/p' | sort -u
}

_switchml() {
	local program=$1 word=$2 previous=$3 words=
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		words=$(_switchml_commands "$program")
	elif [[ $word == -* ]]; then
		words=$(_switchml_options "$program" "${COMP_WORDS[1]}")
	elif [ "$COMP_CWORD" = 2 ] && [ "${COMP_WORDS[1]}" = trace ]; then
		words=merge
	else
		case $previous in
		--iface) words=$(cd /sys/class/net && echo *) ;;
		--dataplane) words='udp xdp p4' ;;
		*) return ;; # bash completes the names of files
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _switchml switchml
