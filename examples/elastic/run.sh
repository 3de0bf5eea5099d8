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
    repetitions=1 solo=6 form=--quick
else
    repetitions=5 solo=12 form=
fi
job() {
    printf '{"id":"%s","batch_sizes":[512],"job":{"argv":["mt-worker","--width","384","--depth","3","--features","256","--learning-rate","0.004","--seed","%s","--processes","{processes}","--batches","{batches}","--checkpoint","%s"]}}' \
        "$1" "$2" "$OUT/state/$1"
}
launch() {
    rm -f "$OUT"/state/*
    mt-launch --progress-every 0.2 --runs "$OUT/runs" --arrivals "$OUT/live/arrivals.ndjson" \
        -o "$2" "$OUT/live/workload.json" \
        --controller mt-elastic --gpus 4 --pause 0.7 --policy "$1"
}
printf '{"schema":"mt.workload/1","device":{"kind":"cpu","gpus":4},"tasks":[%s,%s]}\n' \
    "$(job older 1)" "$(job younger 2)" >"$OUT/live/workload.json"
# How long a machine takes is not known before: a hundred steps tell how many fill `solo` seconds.
# As in the paper, the younger comes when the older is two thirds of a solo run on all GPUs.
echo '{"event":"arrive","time_s":0,"task":"older","total_steps":100}' >"$OUT/live/arrivals.ndjson"
launch equal "$OUT/live/solo.ndjson"
hundred=$(sed -n 's/.*"event":"summary".*"makespan_s":\([0-9.]*\).*/\1/p' "$OUT/live/solo.ndjson")
steps=$(awk "BEGIN { print int(100 * $solo / $hundred) }")
later=$(awk "BEGIN { print 2 / 3 * $solo }")
cat >"$OUT/live/arrivals.ndjson" <<END
{"event":"arrive","time_s":0,"task":"older","total_steps":$steps}
{"event":"arrive","time_s":$later,"task":"younger","total_steps":$steps}
END
repetition=1
while [ "$repetition" -le "$repetitions" ]; do
    for policy in equal paper ours; do
        run=$OUT/live/$policy-$repetition.ndjson
        launch "$policy" "$run"
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
