#!/bin/sh
# A whole round on this machine: real trainings under CPU quotas, real transfers over a link of
# 8 Mbit/s each way, once in the timeline's order and once phase after phase.
# Needs the tools on PATH, python3 and control groups; documents go to $OUT (default out).
set -eu
cd "$(dirname "$0")"
out=${OUT:-out}
mkdir -p "$out"

python3 transfer.py serve link 1e6 &
server=$!
trap 'kill "$server"; rm -f link' EXIT
trap 'exit 130' INT TERM

mt-profile workload.json --batch free --budget 32 --window 1 --max-window 3 --objective round --force -o "$out/profile.ndjson"
mt-fit "$out/profile.ndjson" | mt-solve --objective round --batch free |
    mt-overlap -o "$out/timeline.json"
mt-launch "$out/timeline.json" --force -o "$out/run.ndjson"
mt-launch --no-overlap "$out/timeline.json" --force -o "$out/apart.ndjson"
mt-report "$out/timeline.json" "$out/run.ndjson"
mt-report --format svg "$out/timeline.json" "$out/run.ndjson" -o "$out/round.svg"
mt-check "$out/timeline.json" "$out/run.ndjson" "$out/apart.ndjson"

python3 - "$out" <<'PYTHON'
import json, sys
out = sys.argv[1]
timeline = json.load(open(f"{out}/timeline.json"))

def makespan(name):
    events = map(json.loads, open(f"{out}/{name}.ndjson"))
    return next(e["makespan_s"] for e in events if e["event"] == "round")

rows = [("in the timeline's order", timeline["makespan_s"], makespan("run")),
        ("phase after phase", timeline["overlap_off_s"], makespan("apart"))]
print(f"{'':24} {'planned':>9} {'measured':>9}")
for what, planned, measured in rows:
    print(f"{what:24} {planned:7.2f} s {measured:7.2f} s  {100 * (measured / planned - 1):+.1f} %")
gains = [100 * (1 - a / b) for a, b in zip(rows[0][1:], rows[1][1:])]
print(f"{'saved by the order':24} {gains[0]:7.1f} % {gains[1]:7.1f} %")
PYTHON
