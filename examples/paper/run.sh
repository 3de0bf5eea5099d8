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
# Seconds in which every scheme is measured, schedules drawn at random for Fig. 7, and how much
# coarser than usual the grids are.
COARSE=1
if [ -n "$QUICK" ]; then
    size=quick WINDOW=4 DRAWS=25 COARSE=2
elif [ "$DEVICE" = sim ]; then
    size=full WINDOW=$(paper window) DRAWS=125
else
    size=full WINDOW=3 DRAWS=125
fi
export WINDOW DRAWS COARSE
paper workloads data "$OUT" "$size" >"$OUT/settings"
# Two at a time; a failure of one is a failure of the whole.
xargs -n 2 -P 2 sh setting.sh <"$OUT/settings"
paper summary data "$OUT" "$DEVICE" >"$OUT/RESULTS.md"
if [ -z "$QUICK" ] && [ "$DEVICE" = sim ]; then
    cp "$OUT/RESULTS.md" RESULTS.md
fi
cat "$OUT/RESULTS.md"
