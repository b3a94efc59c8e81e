#!/bin/sh
# layers.sh - fail if a folder includes a folder that is above it.
# A row is: folder, then the folders it may include (itself is implied).
allowed() {
    case $1 in
    base)      echo ;;
    parallel)  echo base ;;
    cache)     echo base ;;
    attention) echo base cache ;;
    model)     echo base parallel cache attention ;;
    server)    echo base parallel cache model bench ;;
    bench)     echo base parallel cache attention model ;;
    esac
}
bad=0
for dir in base parallel cache attention model server bench; do
    [ -d "$dir" ] || continue
    for target in $(grep -rhoE '^#include "[a-z]+/' --include='*.[ch]' "$dir" | sed 's/.*"\([a-z]*\)\//\1/' | sort -u); do
        case " $dir $(allowed "$dir") " in
        *" $target "*) ;;
        *) grep -rnE "^#include \"$target/" --include='*.[ch]' "$dir" | sed "s/^/layers: $dir may not include $target: /"; bad=1 ;;
        esac
    done
done
exit $bad
