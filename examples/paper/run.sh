#!/bin/sh
# Profiles, fits, solves and checks every setting of the paper, then writes RESULTS.md and
# out/summary.json. Environment: OUT, DEVICE, QUICK; the tools and `paper` are on PATH.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-out}
export OUT
DEVICE=${DEVICE:-sim}
export DEVICE
QUICK=${QUICK:-}
rm -rf "$OUT"
mkdir -p "$OUT"
if [ -n "$QUICK" ]; then
    paper workloads data "$OUT" quick >"$OUT/settings"
else
    paper workloads data "$OUT" full >"$OUT/settings"
fi
# Two at a time; a failure of one is a failure of the whole.
xargs -n 2 -P 2 sh setting.sh <"$OUT/settings"
paper summary data "$OUT" "$DEVICE" >"$OUT/RESULTS.md"
if [ -z "$QUICK" ] && [ "$DEVICE" = sim ]; then
    cp "$OUT/RESULTS.md" RESULTS.md
fi
cat "$OUT/RESULTS.md"
