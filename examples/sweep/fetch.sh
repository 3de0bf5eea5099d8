#!/bin/sh
# A training that fetches its data in pieces: fetch.sh PIECES STEPS SEED
# Before each piece it waits a tenth of a second, as for a store behind a network, and then goes on with its steps.
set -eu
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT
rm -f "$kept"
piece=0
while [ "$piece" -lt "$1" ]; do
    piece=$((piece + 1))
    sleep 0.1
    mt-worker --threads 1 --width 64 --depth 2 --steps $((piece * $2)) --seed "$3" --checkpoint "$kept" \
        --checkpoint-every 0 >/dev/null
    echo "step $piece/$1"
done
