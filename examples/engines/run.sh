#!/bin/sh
# Runs schedules on engines for real, on nodes that are emulated here, and writes RESULTS.md.
# The tools are on PATH. An engine that is not installed has a line that says so.
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
mkdir -p out
{
    cat <<MD
# Engines

Written by \`make engines\`: schedules of \`mt-cluster\`, run by engines on nodes that are emulated on one
machine ($(nproc) cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)). The load of the machine was
$(cut -d ' ' -f 1-3 /proc/loadavg | tr ' ' '/') (1, 5, 15 minutes) when it began. Tasks sleep where they would train.

MD
    for engine in slurm ray; do
        status=0
        sh "$root/examples/$engine/run.sh" "$PWD/out/$engine" >"out/$engine.md" || status=$?
        case $status in
            0) cat "out/$engine.md" ;;
            3) echo "## $engine: not installed here" ;;
            *) exit "$status" ;;
        esac
        echo
    done
} >out/RESULTS.md
cp out/RESULTS.md RESULTS.md
cat RESULTS.md
