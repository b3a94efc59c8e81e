#!/bin/sh
# globals.sh FILE... - fail on a mutable file-scope variable.
# Allowed: the log level, and the signal flag that stops a program.
bad=$(ctags --languages=C --kinds-C=v --fields=+n -o - "$@" | grep -v '^!' |
    awk -F'\t' '$3 !~ /const/ && !($1 == "current_level" && $2 == "base/log.c") && !($1 == "stop_signals" && $2 == "server/signals.c") { print $2 ": mutable file-scope variable " $1 }')
[ -z "$bad" ] || { echo "$bad"; exit 1; }
