#!/bin/sh
# Profiles, fits, solves and checks every setting of the paper, then writes RESULTS.md and
# summary.json, which lie here if everything was simulated. Environment: OUT, DEVICE, QUICK; the tools and `paper` are on PATH.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-out}
export OUT
DEVICE=${DEVICE:-sim}
export DEVICE
QUICK=${QUICK:-}
rm -rf "$OUT"
mkdir -p "$OUT"
# WINDOW: the seconds for which every scheme is measured. DRAWS: the number of random schedules for
# Fig. 7. COARSE: the factor by which the grids are coarser than usual. SAMPLES: the number of samples
# that a plan is made from; BUDGET: the same where batch sizes vary too; LEARNT: the number of random
# co-runs that a choice by prediction alone is made from. AGAIN: the number of co-runs of the grid that
# are measured again; GRID: the number of co-runs that stand for the grid on a real device. UNIFORM: the
# step of the scan of equal shares. ORDERS: the orders of the volumes of Fig. 10. WORKERS: the number of
# settings at a time, 1 where they would disturb each other.
COARSE=1 SAMPLES=32 BUDGET=60 LEARNT=30 AGAIN=100 GRID=60 UNIFORM=5 DRAWS=125 WORKERS=2 size=full
ORDERS="123 132 213 231 312 321"
if [ "$DEVICE" = sim ]; then
    WINDOW=$(paper window)
else
    WINDOW=3 AGAIN=5 UNIFORM=10 WORKERS=1
fi
if [ -n "$QUICK" ]; then
    size=quick COARSE=2 DRAWS=25 UNIFORM=10 ORDERS="123 321"
    if [ "$DEVICE" = sim ]; then
        WINDOW=4
    else
        WINDOW=1 SAMPLES=14 BUDGET=16 LEARNT=12 AGAIN=3 GRID=8 UNIFORM=20 DRAWS=10
    fi
fi
export WINDOW DRAWS COARSE SAMPLES BUDGET LEARNT AGAIN GRID UNIFORM ORDERS
paper workloads data "$OUT" "$size" "$DEVICE" >"$OUT/settings"
# If one setting fails, so does the whole run.
xargs -n 2 -P "$WORKERS" sh setting.sh <"$OUT/settings"
# Inputs of the figures besides the programs: the paper's reported values, and the settings derived from
# them.
inputs=$(cat data/*.csv "$OUT"/*.workload.json | sha256sum | cut -d" " -f1)
paper summary data "$OUT" "$DEVICE" "$inputs" >"$OUT/RESULTS.md"
if [ -z "$QUICK" ] && [ "$DEVICE" = sim ]; then
    cp "$OUT/RESULTS.md" "$OUT/summary.json" .
fi
cat "$OUT/RESULTS.md"
