#!/bin/sh
# Measures on this machine, then writes RESULTS.md and summary.json.
# Environment: OUT, DATA and QUICK; PYTHON, an interpreter with PyTorch; PARTS, the measurements to make
# anew (the others are kept). The tools and `elastic` are on PATH.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-out}
QUICK=${QUICK:-}
DATA=${DATA:-}
PYTHON=${PYTHON:-/usr/bin/python3}
PARTS=${PARTS:-live many moves models steps}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
if [ -n "$QUICK" ]; then
    repetitions=1 several=1 solo=6 short=2 counts="3 6" torch_steps=24 form=--quick
else
    repetitions=5 several=3 solo=12 short=3 counts="3 4 5 6" torch_steps=80 form=
fi

# A task of mt-worker: name, seed, whether it stands by.
worker() {
    printf '{"id":"%s","batch_sizes":[512],"job":{"pool":%s,"argv":["mt-worker","--width","384","--depth","3","--features","256","--learning-rate","0.004","--seed","%s","--processes","{processes}","--batches","{batches}","--checkpoint","%s/state/%s"]}}' \
        "$1" "$3" "$2" "$OUT" "$1"
}
# A task of train.py: name, model, whether it stands by.
torch() {
    printf '{"id":"%s","batch_sizes":[512],"job":{"pool":%s,"argv":["%s","%s/train.py","--model","%s","--width","4","--batches","{batches}","--checkpoint","%s/state/%s"]}}' \
        "$1" "$3" "$PYTHON" "$PWD" "$2" "$OUT" "$1"
}
# Folder, GPUs, tasks separated by commas.
workload() {
    mkdir -p "$1"
    printf '{"schema":"mt.workload/1","device":{"kind":"cpu","gpus":%s},"tasks":[%s]}\n' "$2" "$3" \
        >"$1/workload.json"
}
# Folder, name of the run, controller.
launch() {
    folder=$1 run=$1/$2.ndjson
    shift 2
    rm -rf "$OUT/state"
    mkdir -p "$OUT/state"
    mt-launch --progress-every 0.2 --runs "$OUT/runs" --logs "$OUT/logs" \
        --arrivals "$folder/arrivals.ndjson" -o "$run" "$folder/workload.json" --controller "$@"
    mt-check "$run" >/dev/null
}
# The number of steps that take mt-worker this many seconds alone on a number of parts. How long a step
# takes on this machine is measured with a hundred steps.
steps_in() {
    workload "$OUT/solo" "$2" "$(worker a 1 false)"
    echo '{"event":"arrive","time_s":0,"task":"a","total_steps":100}' >"$OUT/solo/arrivals.ndjson"
    launch "$OUT/solo" hundred mt-elastic --gpus "$2" --policy equal
    hundred=$(sed -n 's/.*"event":"summary".*"makespan_s":\([0-9.]*\).*/\1/p' "$OUT/solo/hundred.ndjson")
    rm -r "$OUT/solo"
    awk "BEGIN { print int(100 * $1 / $hundred) + 1 }"
}
policies() {
    for policy in equal paper ours; do
        launch "$1" "$policy-$3" mt-elastic --gpus "$2" --pause 0.7 --policy "$policy"
    done
}
has_torch() {
    "$PYTHON" -c 'import torch' 2>/dev/null || {
        echo "skipped: $PYTHON has no PyTorch" >&2
        return 1
    }
}

# As in the paper, the younger arrives when the older has run for two thirds of a solo run on all GPUs.
measure_live() {
    steps=$(steps_in "$solo" 4)
    later=$(awk "BEGIN { print 2 / 3 * $solo }")
    workload "$OUT/live" 4 "$(worker older 1 true),$(worker younger 2 true)"
    cat >"$OUT/live/arrivals.ndjson" <<END
{"event":"arrive","time_s":0,"task":"older","total_steps":$steps}
{"event":"arrive","time_s":$later,"task":"younger","total_steps":$steps}
END
    repetition=1
    while [ "$repetition" -le "$repetitions" ]; do
        policies "$OUT/live" 4 "$repetition"
        repetition=$((repetition + 1))
    done
    mt-report --format svg "$OUT/live/ours-1.ndjson" >"$OUT/live/ours-1.svg"
}

# Trainings of three lengths, one every two seconds.
measure_many() {
    few=$(steps_in "$short" 8)
    for count in $counts; do
        folder=$OUT/many/$count tasks='' i=1
        mkdir -p "$folder"
        : >"$folder/arrivals.ndjson"
        while [ "$i" -le "$count" ]; do
            tasks="$tasks${tasks:+,}$(worker "t$i" "$i" true)"
            echo '{"event":"arrive","time_s":'$((2 * i - 2))',"task":"t'$i'","total_steps":'$((few * (1 + i % 3)))'}' \
                >>"$folder/arrivals.ndjson"
            i=$((i + 1))
        done
        workload "$folder" 8 "$tasks"
        for repetition in $(seq "$several"); do
            policies "$folder" 8 "$repetition"
        done
    done
}

# One training over 1, 2, 3 and 1 processes, with and without processes that stand by.
measure_moves() {
    for program in mt-worker train.py; do
        folder=$OUT/moves/$program
        if [ "$program" = train.py ]; then
            has_torch || continue
        fi
        for how in cold standby; do
            case $program-$how in
            mt-worker-cold) task=$(worker a 1 false) ;;
            mt-worker-standby) task=$(worker a 1 true) ;;
            train.py-cold) task=$(torch a vgg false) ;;
            *) task=$(torch a vgg true) ;;
            esac
            workload "$folder" 3 "$task"
            echo '{"event":"arrive","time_s":0,"task":"a"}' >"$folder/arrivals.ndjson"
            repetition=1
            while [ "$repetition" -le "$repetitions" ]; do
                launch "$folder" "$how-$repetition" sh moves.sh 5
                repetition=$((repetition + 1))
            done
        done
    done
}

# Two models, with PyTorch.
measure_models() {
    has_torch || return 0
    workload "$OUT/models" 4 "$(torch older resnet true),$(torch younger vgg true)"
    cat >"$OUT/models/arrivals.ndjson" <<END
{"event":"arrive","time_s":0,"task":"older","total_steps":$torch_steps}
{"event":"arrive","time_s":$((torch_steps / 4)),"task":"younger","total_steps":$torch_steps}
END
    for repetition in $(seq "$several"); do
        policies "$OUT/models" 4 "$repetition"
    done
}

# What a step is worth by the number of processes, and from one step to the next.
measure_steps() {
    mkdir -p "$OUT/steps"
    for processes in 1 2 3 4; do
        for batch in per-process per-task; do
            case $batch in
            per-process) samples=$((128 * processes)) ;;
            *) samples=512 ;;
            esac
            # A loss that is never reached: a checkpoint or a target makes it count its steps.
            mt-worker --width 64 --depth 2 --features 128 --learning-rate 0.004 --seed 1 \
                --processes "$processes" --batch "$samples" --samples $((400 * samples)) \
                --target-loss -1 >"$OUT/steps/$batch-$processes.log"
        done
    done
}

for part in $PARTS; do
    rm -rf "${OUT:?}/$part"
    "measure_$part"
done
rm -rf "$OUT/state" "$OUT/logs"
if [ -f "$DATA" ]; then
    elastic "$OUT" $form --data "$DATA" --inputs-sha256 "$(sha256sum <"$DATA" | cut -d' ' -f1)"
else
    echo "skipped: recorded trainings are not at ${DATA:-../shared/data/algoperf}" >&2
    elastic "$OUT" $form
fi
if [ -z "$QUICK" ]; then
    cp "$OUT/RESULTS.md" "$OUT/summary.json" .
fi
cat "$OUT/RESULTS.md"
