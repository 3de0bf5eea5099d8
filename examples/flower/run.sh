#!/bin/sh
# Flower with a SuperNode for each task at each of two sites, under the shares of a plan:
#   MT_PLAN=plan.json run.sh [FOLDER]     logs go to FOLDER (out); the section of the results to standard output
# The tools are on PATH. Flower is installed into target/engines/flower, a virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -s "${MT_PLAN:-}" ]; then
    echo "run.sh: MT_PLAN names no plan (it is '${MT_PLAN:-}'): make one by sh examples/engines/plan.sh plan.json," \
        "then MT_PLAN=\$PWD/plan.json sh $0" >&2
    exit 3
fi
out=${1:-out}
venv=$(sh "$here/../engines/venv.sh" flower "$here/requirements.txt")
rm -rf "$out"
mkdir -p "$out"
cd "$out"
export PATH="$venv/bin:$PATH" ENGINES="$here/../engines" FLWR_HOME="$PWD/home" FLWR_TELEMETRY_ENABLED=0 RATES="$PWD/rates.ndjson"
pids=
finish() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap finish EXIT
flower-superlink --insecure >superlink.log 2>&1 &
pids="$! $pids"
tries=0
until bash -c ': >/dev/tcp/127.0.0.1/8000' 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ]; then
        echo "run.sh: after two minutes the SuperLink does not answer:" >&2
        tail -n 20 superlink.log >&2
        exit 1
    fi
    sleep 1
done
port=9200
last=$(($(nproc) - 1))
for site in 0 1; do
    for task in a b c; do
        # Only the line of the prefix is not in Flower's own example; here a site is a processor.
        taskset -c $((site < last ? site : last)) \
            mt-launch exec --task "$task" -- \
            flower-supernode --insecure --superlink 127.0.0.1:8000 --port "$port" \
            --node-config "site=$site" >"node-$site-$task.log" 2>&1 &
        pids="$! $pids"
        port=$((port + 1))
    done
done
mkdir -p app home
cp "$here"/*.py "$here/pyproject.toml" app/
cat >home/config.toml <<TOML
[superlink]
default = "local"

[superlink.local]
address = "127.0.0.1:8000"
insecure = true
TOML
timeout 300 flwr run app local --stream >run.log 2>&1 || { tail -n 20 run.log superlink.log >&2; exit 1; }
finish
trap - EXIT
cat <<MD
## Flower

Flower $(pip list 2>/dev/null | sed -n 's/^flwr *//p'), a SuperNode for each of 3 tasks at 2 sites (\`examples/flower\`), 2 rounds, in each of which every
task trains for 6 s. $(sed -n 's/.*\(accuracy of each task at each site: .*}\).*/\1/p' run.log | tail -n 1).

$(python3 "$here/../engines/rates.py" Flower "$MT_PLAN" rates.ndjson)
MD
