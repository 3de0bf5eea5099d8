#!/bin/sh
# One setting: sh setting.sh NAME KIND, KIND being plan, rank, round or overlap.
set -eu
name=$1
kind=$2
workload=$OUT/$name.workload.json
samples=$OUT/$name.samples.csv
window=$WINDOW

profile() {
    mt-profile --device "$DEVICE" "$@" 2>>"$OUT/$name.log"
}
# Profile to the columns that mt-profile imports.
table() {
    mt-report --format csv --table samples | cut -d, -f1-5
}
# At most 32 samples, solo runs included, each where the model of the last ones expects most.
adaptive() {
    profile --design adaptive --budget $((32 - $(paper tasks "$workload"))) --subsets 0 \
        --window "$window" "$workload" >"$OUT/$name.profile.ndjson"
    table <"$OUT/$name.profile.ndjson" >"$samples"
    mt-fit --quiet <"$OUT/$name.profile.ndjson" |
        mt-solve --objective raw --batch fixed --seed 1 --pareto fairness --timing >"$OUT/$name.plan.json"
}

# A grid of shares, in short windows unless it is to be shown; what looks best there is measured
# again.
exhaust() {
    long=0
    [ "$name" != fig6 ] || long=$window
    if [ "$DEVICE" = sim ]; then
        profile --design grid --share-step $((COARSE * $(paper step "$workload"))) --subsets 0 \
            --window "$long" "$workload" >"$OUT/$name.grid.ndjson"
        table <"$OUT/$name.grid.ndjson" >"$OUT/$name.grid.csv"
    else
        profile --design random --budget 60 --subsets 0 --seed 11 "$workload" |
            tee "$OUT/$name.grid.ndjson" | table >"$OUT/$name.grid.csv"
    fi
}

# What the plan is held against, in windows of one length: the simple schemes, our choice, and
# what looked best in the grid.
check() {
    paper check "$OUT" "$name" >"$OUT/$name.check.csv"
    profile --configs "$OUT/$name.check.csv" --solos --window "$window" "$workload" |
        table >"$OUT/$name.checked.csv"
}

# Schedules drawn at random. The seed of the draw is also that of the simulated jitter, so they
# are measured anew as all others are.
random() {
    profile --design random --budget "$DRAWS" --subsets 0 --seed 7 "$workload" \
        >"$OUT/$name.drawn.ndjson"
    profile --configs "$OUT/$name.drawn.ndjson" --window "$window" |
        table >"$OUT/$name.random.csv"
}

# Bars against the simple schemes, predicted against measured, throughput over R_v, the front of
# throughput and fairness, and on the simulator what the schemes do with the SMs.
pictures() {
    plan=$OUT/$name.plan.json
    profile --configs "$plan" --baselines --window "$window" >"$OUT/$name.verified.ndjson"
    picture() {
        what=$1
        shift
        mt-report --format svg --picture "$what" "$@" -o "$OUT/$name.$what.svg"
    }
    picture throughput "$plan" "$OUT/$name.verified.ndjson"
    picture predicted "$plan" "$OUT/$name.verified.ndjson"
    picture rv "$OUT/$name.grid.ndjson"
    picture schemes "$plan"
    [ "$DEVICE" != sim ] || picture occupancy "$plan"
    mt-report --format html "$plan" "$OUT/$name.verified.ndjson" -o "$OUT/$name.html"
}

# A plan of a workload from what was measured before, whatever its volumes were then.
plan() {
    mt-profile --replay "$OUT/$name.profile.ndjson" --configs "$samples" --solos "$workload" \
        2>>"$OUT/$name.log" | mt-fit --quiet | mt-solve --objective raw --batch fixed --seed 1 \
        >"$OUT/$name.plan.json"
}

case $kind in
plan | rank)
    adaptive
    exhaust
    [ "$kind" = plan ] || random
    check
    [ "$name" != fig6 ] || pictures
    if [ "$name" = fig6 ] && [ "$DEVICE" = sim ]; then
        for scheme in temporal isolated sharing ours; do
            paper scheme "$OUT" "$name" "$scheme" >"$OUT/$name.$scheme.csv"
            profile --configs "$OUT/$name.$scheme.csv" \
                --trace "$OUT/$name.$scheme.trace.json" "$workload" >/dev/null
        done
    fi
    ;;
round)
    profile --budget 60 "$workload" | mt-fit --quiet |
        mt-solve --objective round --pareto mismatch >"$OUT/$name.plan.json"
    mt-report --format svg --picture pareto "$OUT/$name.plan.json" -o "$OUT/$name.pareto.svg"
    mt-overlap --batch-delta 0 "$OUT/$name.plan.json" >"$OUT/$name.timeline.json"
    mt-report --format svg --picture gantt "$OUT/$name.timeline.json" -o "$OUT/$name.svg"
    ;;
overlap)
    # Equal volumes first; then as many samples as make the round without overlap last as long
    # as the paper's.
    profile --budget 60 --subsets 40 "$workload" >"$OUT/$name.profile.ndjson"
    table <"$OUT/$name.profile.ndjson" >"$samples"
    plan
    mt-overlap --batch-delta 0 "$OUT/$name.plan.json" >"$OUT/$name.timeline.json"
    paper rescale data "$OUT" "$name"
    plan
    mt-overlap --batch-delta 0 --timing "$OUT/$name.plan.json" >"$OUT/$name.timeline.json"
    mt-check "$OUT/$name.timeline.json" >/dev/null
    mt-report --format svg --picture gantt "$OUT/$name.timeline.json" -o "$OUT/$name.svg"
    ;;
esac
