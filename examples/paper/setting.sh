#!/bin/sh
# One setting: sh setting.sh NAME KIND, KIND being plan, rank, round or overlap.
set -eu
name=$1
kind=$2
workload=$OUT/$name.workload.json
samples=$OUT/$name.samples.csv

profile() {
    mt-profile --device "$DEVICE" "$@" 2>>"$OUT/$name.log"
}
# Profile to the columns that mt-profile imports.
table() {
    mt-report --format csv --table samples | cut -d, -f1-5
}
# Adds the rows of standard input to the samples under new configuration numbers.
append() {
    next=$(awk -F, 'NR > 1 && $1 >= n { n = $1 + 1 } END { print n + 0 }' "$samples")
    awk -F, -v OFS=, -v n="$next" 'NR > 1 { $1 += n; print }' >>"$samples"
}
count() {
    awk -F, 'NR > 1 && $1 >= n { n = $1 + 1 } END { print n + 0 }' "$samples"
}
# Plan from all samples so far.
plan() {
    mt-profile --import "$samples" "$workload" 2>>"$OUT/$name.log" | mt-fit --quiet |
        mt-solve --batch fixed --seed 1 "$@" >"$OUT/$name.plan.json"
}

# At most 32 samples, solo runs included: what simple schemes do, some at random, then what the
# model thinks best, free and at several totals, refitted each time.
adaptive() {
    paper start "$workload" >"$OUT/$name.start.csv"
    profile --configs "$OUT/$name.start.csv" --solos --window 3 "$workload" | table >"$samples"
    tasks=$(paper tasks "$workload")
    for percent in free 66 free 75 60 free 83 70 free 54 free 90 66 free 78 free 62 free 72 free; do
        [ "$(count)" -lt 32 ] || break
        if [ "$percent" = free ]; then
            plan
        else
            plan --rv $((percent * tasks / 5 * 5))
        fi
        profile --configs "$OUT/$name.plan.json" --window 3 | table | paper new "$samples" | append
    done
    plan --timing
}

# What the plan is held against: long windows of the scheme's shares, of our choice and of the
# best of an exhaustive search.
check() {
    paper check "$OUT" "$name" >"$OUT/$name.check.csv"
    profile --configs "$OUT/$name.check.csv" --solos --window 8 "$workload" |
        table >"$OUT/$name.checked.csv"
}

exhaust() {
    if [ "$DEVICE" = sim ]; then
        profile --design grid --share-step "$(paper step "$workload")" --subsets 0 "$workload" |
            table >"$OUT/$name.grid.csv"
    else
        profile --budget 60 --subsets 0 --seed 11 "$workload" | table >"$OUT/$name.grid.csv"
    fi
}

case $kind in
plan | rank)
    adaptive
    exhaust
    if [ "$kind" = rank ]; then
        profile --budget 125 --subsets 0 --seed 7 --window 8 "$workload" | table >"$OUT/$name.random.csv"
    fi
    check
    if [ "$name" = fig6 ] && [ "$DEVICE" = sim ]; then
        for scheme in temporal isolated sharing ours; do
            paper scheme "$OUT" "$name" "$scheme" >"$OUT/$name.$scheme.csv"
            profile --configs "$OUT/$name.$scheme.csv" \
                --trace "$OUT/$name.$scheme.trace.json" "$workload" >/dev/null
        done
    fi
    ;;
round)
    profile --budget 60 "$workload" | mt-fit --quiet | mt-solve --objective round |
        mt-overlap --batch-delta 0 >"$OUT/$name.timeline.json"
    ;;
overlap)
    # Equal volumes first; then as many samples as make the round without overlap last as long
    # as the paper's.
    profile --budget 60 --subsets 40 "$workload" | table >"$samples"
    plan
    mt-overlap --batch-delta 0 "$OUT/$name.plan.json" >"$OUT/$name.timeline.json"
    paper rescale data "$OUT" "$name"
    plan
    mt-overlap --batch-delta 0 --timing "$OUT/$name.plan.json" >"$OUT/$name.timeline.json"
    mt-check "$OUT/$name.timeline.json" >/dev/null
    mt-report --format svg --picture gantt "$OUT/$name.timeline.json" -o "$OUT/$name.svg"
    ;;
esac
