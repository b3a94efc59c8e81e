#!/bin/sh
# Trains the whole family in two lanes of one thread each. On two cores that other work shares, this
# beats one run of two threads several times over: no thread waits at a barrier for one that lost its core.
# The server's default model comes first. A kind that fails does not stop the others.
# Usage: train_all.sh CORPUS TOKENIZER_DIR [options of train.py, for all kinds]
# PYTHON names the interpreter that has torch (default: python3).
here=$(dirname "$0")

# The allocator keeps what it has: returning each activation to the system costs a fifth of the time
# in page faults.
export MALLOC_MMAP_MAX_=0
export MALLOC_TRIM_THRESHOLD_=100000000000
export MALLOC_TOP_PAD_=268435456

train_lane() {
    kinds=$1
    shift
    for kind in $kinds; do
        "${PYTHON:-python3}" "$here/train.py" "$@" --kind "$kind" || echo "$kind failed"
    done
}

train_lane "mlra_4 ccgqa mlra" "$@" &
train_lane "mla mla_rope cca" "$@" &
wait
