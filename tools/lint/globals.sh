#!/bin/sh
# globals.sh OBJECT... - fail on a mutable variable that outlives its function,
# file-scope or static inside a function.  Ranks are threads: it would be a race.
#
# The object files are asked, not the text: a variable is mutable exactly when it
# lies in .data, .bss or their thread-local forms.  Tables of constant pointers lie
# in .data.rel.ro.  Allowed: the log level, and the signal flag that stops a program.
bad=0
for object in "$@"; do
    case $object in
    */base/log.o)       allowed=current_level ;;
    */server/signals.o) allowed=stop_signals ;;
    *)                  allowed= ;;
    esac
    found=$(objdump -t "$object" | awk -v allowed="$allowed" '
        NF > 4 && $(NF - 2) ~ /^\.(bss|data|tbss|tdata)/ && $(NF - 2) !~ /^\.data\.rel\.ro/ && $(NF - 3) == "O" {
            name = $NF; sub(/\.[0-9]+$/, "", name); if (name != allowed) print name }')
    [ -z "$found" ] || { echo "$object: mutable static variable" $found; bad=1; }
done
exit $bad
