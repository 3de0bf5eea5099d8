#!/bin/sh
# The main job, twice: on a simulated RTX 3090, then with real processes on this machine.
# Needs the tools on PATH; documents and pages go to $OUT (default target/demo).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-target/demo}
mkdir -p "$out"

say() { printf '\n== %s\n' "$*"; }
stage() { printf '$ %s\n' "$*"; "$@"; }

say "1. Three models on a simulated RTX 3090"
stage mt-profile "$here/workload.json" --force -o "$out/profile.ndjson"
stage mt-fit "$out/profile.ndjson" -o "$out/model.json"
stage mt-solve "$out/model.json" -o "$out/plan.json"
stage mt-overlap "$out/plan.json" -o "$out/timeline.json"
stage mt-launch "$out/timeline.json" --force -o "$out/run.ndjson"
say "The plan, measured again on the simulator with the schemes it is compared with"
stage mt-profile --configs "$out/plan.json" --baselines --force -o "$out/verified.ndjson"
stage mt-report "$out/plan.json" "$out/verified.ndjson" "$out/timeline.json"
stage mt-check "$here/workload.json" "$out/profile.ndjson" "$out/model.json" "$out/plan.json" \
    "$out/timeline.json" "$out/run.ndjson"
stage mt-report --format html -o "$out/report.html" "$out/plan.json" "$out/timeline.json" \
    "$out/run.ndjson"

say "2. Three real trainings on this machine, under CPU quotas"
code=0
mt-profile "$here/cpu.json" --budget 32 --window 1 --max-window 3 --objective round --force -o "$out/cpu-profile.ndjson" ||
    code=$?
if [ "$code" -eq 3 ]; then
    say "This half needs control groups (see above); the first half stands: $out/report.html"
    exit 0
elif [ "$code" -ne 0 ]; then
    exit "$code"
fi
stage mt-fit "$out/cpu-profile.ndjson" -o "$out/cpu-model.json"
stage mt-solve "$out/cpu-model.json" --objective round -o "$out/cpu-plan.json"
stage mt-overlap "$out/cpu-plan.json" -o "$out/cpu-timeline.json"
stage mt-launch "$out/cpu-timeline.json" --force -o "$out/cpu-run.ndjson"
stage mt-report "$out/cpu-plan.json" "$out/cpu-timeline.json" "$out/cpu-run.ndjson"
stage mt-check "$out/cpu-profile.ndjson" "$out/cpu-model.json" "$out/cpu-plan.json" \
    "$out/cpu-timeline.json" "$out/cpu-run.ndjson"
say "Done: $out/report.html has the pictures of the first half"
