#!/bin/sh
# Runs schedules and plans on engines for real, on nodes that are emulated here, and writes RESULTS.md.
# The tools are on PATH. An engine that is not installed has a line that says so.
#   run.sh [ENGINE...]     absent: all of them
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
mkdir -p out
# The plan that every engine applies; without control groups there are no shares to apply.
MT_PLAN="$PWD/out/plan.json"
status=0
sh plan.sh "$MT_PLAN" || status=$?
case $status in
    0) export MT_PLAN ;;
    3) MT_PLAN= ;;
    *) exit "$status" ;;
esac
{
    cat <<MD
# Engines

Written by \`make engines\`: schedules of \`mt-cluster\` and plans of \`mt-solve\`, run by engines on nodes that
are emulated on one machine ($(nproc) cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)). The load of the machine was
$(cut -d ' ' -f 1-3 /proc/loadavg | tr ' ' '/') (1, 5, 15 minutes) when it began. Tasks of schedules sleep where they would train.

The plan is for three trainings (\`workload.json\`) on one processor, under CPU quotas. Each engine starts
them under \`mt-launch exec --plan plan.json --task ...\`; the tables compare measured with planned rates.

MD
    [ -n "$MT_PLAN" ] || echo "There are no control groups here, so no shares could be applied."
    for engine in ${*:-slurm ray flower nvflare kubernetes}; do
        status=0
        sh "$root/examples/$engine/run.sh" "$PWD/out/$engine" >"out/$engine.md" || status=$?
        case $status in
            0) cat "out/$engine.md" ;;
            3) echo "## $engine: not run here" ;;
            *) exit "$status" ;;
        esac
        echo
    done
} >out/RESULTS.md
[ $# -gt 0 ] || cp out/RESULTS.md RESULTS.md
cat out/RESULTS.md
