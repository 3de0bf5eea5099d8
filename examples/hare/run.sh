#!/bin/sh
# Three jobs on four emulated GPUs, planned and launched for real, then by FIFO alike.
# The tools are on PATH; run logs go to OUT.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-out}
mkdir -p "$OUT"
for policy in hare fifo; do
    mt-cluster plan --policy "$policy" jobs.json >"$OUT/$policy.json"
    printf '%s: ' "$policy" >&2
    mt-cluster run --device cpu --force -o "$OUT/$policy.ndjson" "$OUT/$policy.json"
    mt-check "$OUT/$policy.json" "$OUT/$policy.ndjson" >"$OUT/$policy.check"
done
