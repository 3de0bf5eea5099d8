#!/bin/sh
# Three Flower federations at once on this machine, each to an accuracy of 0.95:
#   run.sh             the app of ../sized in three weights
#   run.sh --measure   beside one after another, all at once and fixed parts; writes summary.json (half an hour; as root)
# Flower, Ray and scikit-learn are installed into target/engines/sized. Without a network it says so and ends.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
app="$here/../sized"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! venv=$(sh "$here/../../engines/venv.sh" sized "$app/requirements.txt" 2>"$log"); then
    echo "run.sh: skipped: $(tail -n 1 "$log")"
    exit 0
fi
export PYTHONPATH="$root/python" FLWR_TELEMETRY_ENABLED=0
if [ "${1:-}" = --measure ]; then
    "$venv/bin/python" -B "$here/measure.py" >"$here/summary.json"
else
    "$venv/bin/python" -m mt_tools.flower together "$app" "$app" "$app" --supernodes 12 \
        --run-config "model='small' rounds=24 target=0.95" \
        --run-config "model='middle' rounds=13 target=0.95" \
        --run-config "model='large' rounds=8 target=0.95"
fi
