#!/bin/sh
# One setting: sh setting.sh NAME KIND, KIND being plan, rank, cycle, overlap or search.
set -eu
name=$1
kind=$2
workload=$OUT/$name.workload.json
samples=$OUT/$name.samples.csv
window=$WINDOW
# Where a window only serves for ranking: the simulator's shortest.
if [ "$DEVICE" = sim ]; then short=0; else short=$window; fi

profile() {
    # Real jobs compete for all processors: with no range of its own, no task can take another task's.
    case $DEVICE in
    cpu) set -- --cpus none --max-window "$((2 * window))" "$@" ;;
    esac
    mt-profile --device "$DEVICE" "$@" 2>>"$OUT/$name.log"
}
# Profile to the columns that mt-profile imports.
table() {
    mt-report --format csv --table samples | cut -d, -f1-5
}
# At most so many samples, solo runs included; each is taken where the model of the previous ones expects the most.
adaptive() {
    profile --design adaptive --batch free --objective raw --budget $((SAMPLES - $(paper tasks "$workload"))) --subsets 0 \
        --window "$window" "$workload" >"$OUT/$name.profile.ndjson"
    table <"$OUT/$name.profile.ndjson" >"$samples"
    mt-fit --quiet <"$OUT/$name.profile.ndjson" |
        mt-solve --objective raw --batch fixed --seed 1 --pareto fairness --timing >"$OUT/$name.plan.json"
}

# What a prediction alone chooses from co-runs drawn at random, as the paper's choices are.
predicted() {
    profile --design random --budget "$LEARNT" --subsets 0 --seed 3 --window "$window" "$workload" |
        mt-fit --quiet |
        mt-solve --objective raw --batch fixed --seed 1 --predicted >"$OUT/$name.predicted.json" 2>>"$OUT/$name.log"
}

# A grid of shares, in short windows unless the grid itself is shown. The co-runs that look best there are
# measured again.
exhaust() {
    long=$short
    [ "$name" != fig6 ] || long=$window
    if [ "$DEVICE" = sim ]; then
        profile --design grid --share-step $((COARSE * $(paper step "$workload"))) --subsets 0 \
            --window "$long" "$workload" >"$OUT/$name.grid.ndjson"
        table <"$OUT/$name.grid.ndjson" >"$OUT/$name.grid.csv"
    else
        profile --design random --budget "$GRID" --subsets 0 --seed 11 --window "$window" "$workload" |
            tee "$OUT/$name.grid.ndjson" | table >"$OUT/$name.grid.csv"
    fi
}

# What the plan is compared to, in windows of one length: the simple schemes, our choice, the choice by
# prediction alone, and the co-runs that looked best in the grid.
check() {
    paper check "$OUT" "$name" "$AGAIN" "$UNIFORM" >"$OUT/$name.check.csv"
    profile --configs "$OUT/$name.check.csv" --solos --window "$window" "$workload" |
        table >"$OUT/$name.checked.csv"
}

# Random schedules. On the simulator the seed of the draw is also the seed of the jitter, so the
# schedules are measured again in the way of all others.
random() {
    profile --design random --budget "$DRAWS" --subsets 0 --seed 7 --window "$short" "$workload" \
        >"$OUT/$name.drawn.ndjson"
    if [ "$DEVICE" = sim ]; then
        profile --configs "$OUT/$name.drawn.ndjson" --window "$window" >"$OUT/$name.random.ndjson"
    else
        mv "$OUT/$name.drawn.ndjson" "$OUT/$name.random.ndjson"
    fi
    table <"$OUT/$name.random.ndjson" >"$OUT/$name.random.csv"
    mt-report --format svg --picture rv "$OUT/$name.plan.json" "$OUT/$name.random.ndjson" \
        -o "$OUT/$name.random.svg"
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

case $kind in
plan | rank)
    adaptive
    predicted
    exhaust
    [ "$kind" = plan ] || random
    check
    [ "$name" != fig6 ] || pictures
    if [ "$DEVICE" = sim ] && { [ "$name" = fig6 ] || [ "$name" = fig12 ]; }; then
        for scheme in temporal isolated sharing ours; do
            paper scheme "$OUT" "$name" "$scheme" >"$OUT/$name.$scheme.csv"
            profile --configs "$OUT/$name.$scheme.csv" \
                --trace "$OUT/$name.$scheme.trace.json" "$workload" >/dev/null
        done
    fi
    ;;
cycle)
    # One profile of the mix; the volumes of every round stand in for its own.
    profile --batch free --objective round --budget "$BUDGET" "$workload" | mt-fit --quiet >"$OUT/$name.model.json"
    for volumes in $ORDERS; do
        round=$OUT/$name.$volumes
        solve() {
            mt-solve --workload "$round.workload.json" "$@" "$OUT/$name.model.json" 2>>"$OUT/$name.log"
        }
        solve --objective raw --mismatch 0 >"$round.steady.json"
        solve --objective round --batch free >"$round.plan.json"
        mt-overlap --batch-delta 0 "$round.plan.json" >"$round.timeline.json"
        mt-report --format svg --picture gantt "$round.timeline.json" -o "$round.svg"
        case $DEVICE in
        cpu) set -- --cpus none ;;
        *) set -- ;;
        esac
        mt-launch --device "$DEVICE" "$@" "$round.timeline.json" >"$round.run.ndjson" 2>>"$OUT/$name.log"
    done
    # What batch sizes in proportion to the volumes cost, once: a front takes many searches.
    solve --objective round --pareto mismatch |
        mt-report --format svg --picture pareto -o "$OUT/$name.pareto.svg"
    paper cycle "$OUT" "$name" >"$OUT/$name.check.csv"
    profile --configs "$OUT/$name.check.csv" --solos --window "$window" "$workload" |
        table >"$OUT/$name.checked.csv"
    ;;
overlap)
    profile --batch free --objective raw --budget "$BUDGET" --subsets 40 "$workload" | mt-fit --quiet >"$OUT/$name.model.json"
    rounds() {
        for reading in up down half twice; do
            round=$OUT/$name.$1.$reading
            mt-solve --workload "$round.workload.json" --objective raw --batch fixed --timing \
                "$OUT/$name.model.json" >"$round.plan.json" 2>>"$OUT/$name.log"
            mt-overlap --batch-delta 0 --timing "$round.plan.json" >"$round.timeline.json"
        done
    }
    # Algorithm 1 as it is printed: one order for both directions, each task at its planned rate throughout.
    literal() {
        mt-overlap --batch-delta 0 --rates fixed --single-order "$OUT/$name.together.half.plan.json" \
            >"$OUT/$name.literal.timeline.json"
    }
    for volumes in equal $ORDERS; do rounds "$volumes"; done
    # In proportion to the rates of the plan.
    paper together data "$OUT" "$name" "$DEVICE"
    rounds together
    literal
    mt-check "$OUT/$name".together.*.timeline.json >/dev/null
    mt-report --format svg --picture gantt "$OUT/$name.together.half.timeline.json" -o "$OUT/$name.svg"
    ;;
search)
    profile --batch free --objective raw --budget "$BUDGET" --subsets 40 "$workload" | mt-fit --quiet |
        mt-solve --objective raw --batch same --timing >"$OUT/$name.plan.json" 2>>"$OUT/$name.log"
    ;;
esac
