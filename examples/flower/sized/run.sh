#!/bin/sh
# Flower simulations whose number of clients at once is found:
#   run.sh                     the app of this folder, 40 virtual clients, 3 rounds
#   run.sh --check [TEST...]   the tests of mt_tools.flower, with clients that misbehave
#   run.sh --measure           beside numbers set by hand and Flower's default; writes summary.json (half an hour)
# Flower, Ray and scikit-learn are installed into target/engines/sized. Without a network it says so and ends.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
if ! venv=$(sh "$here/../../engines/venv.sh" sized "$here/requirements.txt" 2>/tmp/mt-sized-$$.log); then
    echo "run.sh: skipped: $(tail -n 1 /tmp/mt-sized-$$.log)"
    rm -f /tmp/mt-sized-$$.log
    exit 0
fi
rm -f /tmp/mt-sized-$$.log
export PYTHONPATH="$root/python" FLWR_TELEMETRY_ENABLED=0
case "${1:-}" in
    --check) shift; exec "$venv/bin/python" -B "$root/python/tests/flower_test.py" -v "$@" ;;
    --measure) exec "$venv/bin/python" "$here/measure.py" --rounds 2 --repeats 2 >"$here/summary.json" ;;
    *) exec "$venv/bin/python" -m mt_tools.flower run "$here" --supernodes 40 ;;
esac
