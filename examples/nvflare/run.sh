#!/bin/sh
# NVFlare with three jobs at a time at each of two sites, under the shares of a plan:
#   MT_PLAN=plan.json run.sh [FOLDER]     logs go to FOLDER (out); the section of the results to standard output
# The tools are on PATH. NVFlare is installed into target/engines/nvflare, a virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ ! -s "${MT_PLAN:-}" ]; then
    echo "run.sh: MT_PLAN names no plan (it is '${MT_PLAN:-}'): make one by sh examples/engines/plan.sh plan.json," \
        "then MT_PLAN=\$PWD/plan.json sh $0" >&2
    exit 3
fi
out=${1:-out}
venv=$(sh "$here/../engines/venv.sh" nvflare "$here/requirements.txt")
rm -rf "$out"
mkdir -p "$out"
cd "$out"
# PYTHONPATH stands for an installed wheel of mt-tools.
export PATH="$venv/bin:$PATH" PYTHONPATH="$root/python" NVFLARE_POC_WORKSPACE="$PWD/poc" HOME="$PWD"
export ENGINES="$root/examples/engines" ACCURACY="$PWD/accuracy.ndjson" RATES="$PWD/rates.ndjson"
nvflare poc prepare -n 2 >prepare.log 2>&1 </dev/null || { tail -n 20 prepare.log >&2; exit 1; }
kits=$(dirname "$(dirname "$(find poc -path '*/site-1/startup' | head -n 1)")")
last=$(($(nproc) - 1))
pids=
finish() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap finish EXIT
start() { # NAME CPU MODULE ARGUMENTS...
    name=$1 cpu=$2
    shift 2
    taskset -c "$cpu" python -u -m "$@" >"$name.log" 2>&1 &
    pids="$! $pids"
}
server="$PWD/$kits/server"
start server "0-$last" nvflare.private.fed.app.server.server_train -m "$server" -s fed_server.json \
    --set secure_train=true org=nvidia config_folder=config
for site in 1 2; do
    kit="$PWD/$kits/site-$site"
    python "$here/site.py" "$kit/local" "$MT_PLAN"
    # Here a site is a processor.
    start "site-$site" $((site - 1 < last ? site - 1 : last)) nvflare.private.fed.app.client.client_train -m "$kit" \
        -s fed_client.json --set secure_train=true uid="site-$site" org=nvidia config_folder=config
done
python "$here/jobs.py" "$PWD/$kits/admin@nvidia.com" "$PWD/jobs" 2 6 >jobs.log 2>&1 || { tail -n 20 jobs.log server.log >&2; exit 1; }
finish
trap - EXIT
cat <<MD
## NVFlare

NVFlare $(pip list 2>/dev/null | sed -n 's/^nvflare *//p'), three jobs at a time at 2 sites (\`examples/nvflare\`), 2 rounds, in each of which every
task trains for 6 s. Accuracy after the last round, at both sites: $(python - <<PY
import json
last = {}
for line in open("accuracy.ndjson"):
    row = json.loads(line)
    last.setdefault(row["task"], {})[row["site"]] = f"{row['accuracy']:.3f}"
print("; ".join(f"{task} {', '.join(v for _, v in sorted(at.items()))}" for task, at in sorted(last.items())))
PY
).

$(python3 "$root/examples/engines/rates.py" NVFlare "$MT_PLAN" rates.ndjson)
MD
