#!/bin/sh
# longest.sh LIMIT FILE... - print functions longer than LIMIT lines, sources
# longer than 600 and tests longer than 800; fail if there are any.
limit=$1; shift
ctags --languages=C --langmap=C:.c.h --kinds-C=f --fields=+ne -o - "$@" | awk -F'\t' -v limit="$limit" '
/^!/ {next}
{ for (i = 4; i <= NF; i++) { if ($i ~ /^line:/) l = substr($i, 6); if ($i ~ /^end:/) e = substr($i, 5) }
  n = e - l + 1; if (n > limit) { printf "%s:%d: %s is %d lines, limit %d\n", $2, l, $1, n, limit; bad = 1 } }
END { exit bad }' || exit 1
wc -l "$@" | awk '{ most = $2 ~ /^tests\// ? 800 : 600 }
$2 != "total" && $1 > most { printf "%s is %d lines, limit %d\n", $2, $1, most; bad = 1 } END { exit bad }'
