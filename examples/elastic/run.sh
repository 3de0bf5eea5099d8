#!/bin/sh
# Runs two trainings live under every policy, then writes RESULTS.md and out/summary.json.
# Environment: OUT, DATA, QUICK; the tools and `elastic` are on PATH.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-out}
QUICK=${QUICK:-}
DATA=${DATA:-}
rm -rf "$OUT"
mkdir -p "$OUT/live" "$OUT/state"
OUT=$(cd "$OUT" && pwd)
if [ -n "$QUICK" ]; then
    repetitions=1 steps=150 later=3 form=--quick
else
    repetitions=5 steps=200 later=4 form=
fi
job() {
    printf '{"id":"%s","batch_sizes":[512],"job":{"argv":["mt-worker","--width","64","--depth","2","--features","128","--learning-rate","0.004","--seed","%s","--processes","{processes}","--batches","{batches}","--checkpoint","%s"]}}' \
        "$1" "$2" "$OUT/state/$1"
}
printf '{"schema":"mt.workload/1","device":{"kind":"cpu","gpus":4},"tasks":[%s,%s]}\n' \
    "$(job older 1)" "$(job younger 2)" >"$OUT/live/workload.json"
# As in the paper, the younger comes when the older is two thirds of a solo run on all GPUs.
cat >"$OUT/live/arrivals.ndjson" <<END
{"event":"arrive","time_s":0,"task":"older","total_steps":$steps}
{"event":"arrive","time_s":$later,"task":"younger","total_steps":$steps}
END
repetition=1
while [ "$repetition" -le "$repetitions" ]; do
    for policy in equal paper ours; do
        rm -f "$OUT"/state/*
        run=$OUT/live/$policy-$repetition.ndjson
        mt-launch --progress-every 0.2 --runs "$OUT/runs" --arrivals "$OUT/live/arrivals.ndjson" \
            -o "$run" "$OUT/live/workload.json" \
            --controller mt-elastic --gpus 4 --pause 0.7 --policy "$policy"
        mt-check "$run" >/dev/null
    done
    repetition=$((repetition + 1))
done
mt-report --format svg "$OUT/live/ours-1.ndjson" >"$OUT/live/ours-1.svg"
if [ -f "$DATA" ]; then
    elastic "$OUT" $form --live "$OUT/live" --data "$DATA"
else
    echo "skipped: recorded trainings are not at ${DATA:-../shared/data/algoperf}" >&2
    elastic "$OUT" $form --live "$OUT/live"
fi
if [ -z "$QUICK" ]; then
    cp "$OUT/RESULTS.md" RESULTS.md
fi
cat "$OUT/RESULTS.md"
