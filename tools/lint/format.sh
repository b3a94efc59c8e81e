#!/bin/sh
# format.sh - what every text file keeps: no tabs in C, no trailing blanks, no
# line over 140 columns in C, no leftovers.
bad=0
files=$(find . \( -name build -o -name .git -o -name node_modules \) -prune -o -name '*.[ch]' -print | sort)
check() { # PATTERN WHAT
    found=$(grep -nP "$1" $files | head -5)
    [ -z "$found" ] || { echo "$found" | sed "s/^/format: $2: /"; bad=1; }
}
check '\t' 'tab'
check ' +$' 'trailing blank'
check '^.{141,}' 'line over 140 columns'
check '\b(TODO|FIXME|XXX)\b' 'unfinished'
check '^ *#if 0' 'dead code'
exit $bad
