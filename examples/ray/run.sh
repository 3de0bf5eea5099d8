#!/bin/sh
# What Ray costs a schedule, on emulated GPUs:
#   run.sh [FOLDER]     run logs go to FOLDER (out); the section of the results to standard output
# The tools are on PATH. Ray is installed into target/engines/ray, a virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-out}
venv=$(sh "$here/../engines/venv.sh" ray "$here/requirements.txt")
mkdir -p "$out"
cd "$out"
python="$venv/bin/python"

# 32 tasks in rounds that do nothing.
instance="$here/../slurm/cluster.json"
empty='s/"gpu": 2 /"gpu": 0.1 /; s/"argv": .*\]/"argv": ["true"]/'
sed -e "$empty" "$instance" | mt-cluster plan >empty.json
"$python" "$here/schedule.py" empty.json >empty.ndjson 2>empty.log
task=$(sed -n 's/^32 tasks in \([0-9.]*\) s.*/\1/p' empty.log | awk '{ printf "%.4f", $1 / 32 }')

# 32 tasks of two seconds; the first task of one job kills the actor that it runs on.
rm -f killed
kill='"argv": ["sh", "-c", "[ $MT_ROUND$MT_RANK != 00 ] || { date +%s.%N >>killed; [ $(wc -l <killed) = 2 ] || { kill -9 $PPID; exit; }; }; sleep 2"]'
sed -e "/urgent/,\$ s/\"argv\": .*\]/$kill/" "$instance" | mt-cluster plan >plan.json
"$python" "$here/schedule.py" plan.json >run.ndjson 2>run.log
back=$(awk 'NR == 1 { at = $1 } NR == 2 { printf "%.1f", $1 - at }' killed)
completion=$(sed -n 's/.*weighted completion //p' run.log)

# Three trainings at once on one GPU of 300 percents, each under its share.
rates=
if [ -n "${MT_PLAN:-}" ]; then
    rm -f rates.ndjson
    PYTHONPATH="$here/../../python" RATES="$PWD/rates.ndjson" \
        "$python" "$here/share.py" "$MT_PLAN" 10 >share.log 2>&1
    rates=$(python3 "$here/../engines/rates.py" Ray "$MT_PLAN" rates.ndjson)
fi

cat <<MD
## Ray

Ray $("$python" -c 'import ray; print(ray.__version__)'), an actor for each of 4 emulated GPUs (\`examples/ray\`).

| | |
| --- | --- |
| 32 tasks in rounds that do nothing: each | $task s |
| 32 tasks of 2 s, one actor killed: weighted completion | $completion |
| the killed actor and its task are back after | $back s |

$rates
MD
