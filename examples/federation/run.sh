#!/bin/sh
# A federation that learns: real training, planned seconds, and a part that is live on this machine.
#   run.sh      the tools are on PATH; documents, curves and the page go to $OUT; with QUICK set two mixes; with KEPT
#               set nothing more is played: a page of the mixes that are there
# A run that was stopped continues where it was. Results of another program or of other inputs are not reused.
# Data sets come from Debian's archive, npm and scikit-learn; Python packages go into target/engines/federation.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/../../target/federation}
mkdir -p "$out"
out=$(cd "$out" && pwd)
venv=$(sh "$here/../engines/venv.sh" federation "$here/requirements.txt")
sh "$here/fetch.sh" "$out/data"
# One thread: matrices are small, and the live part gives each site one processor.
export OPENBLAS_NUM_THREADS=1 PYTHONPATH="$here" FLWR_TELEMETRY_ENABLED=0
"$venv/bin/python" -m federation ${QUICK:+--quick} ${KEPT:+--kept} "$out" "${DEVICES:-$here/../../../shared/data/fl_device/client_capacity.csv}"
if [ -z "${QUICK:-}" ]; then
    cp "$out/page/RESULTS.md" "$out/page/summary.json" "$out/page/"*.svg "$here/"
fi
cat "$out/page/RESULTS.md"
