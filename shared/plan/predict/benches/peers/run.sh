#!/bin/sh
# Compares the predictor with scikit-learn and XGBoost on the same simulated profiles.
# Run from the workspace root; builds a virtual environment in target/peers-predict once.
set -eu
here=$(dirname "$0")
venv=target/peers-predict
data=target/predict-bench
rm -rf "$data"
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet install -r "$here/requirements.txt"
fi
cargo run --release -q -p mt-predict --example bench-predict -- --json --data "$data" accuracy speed >"$data.json"
OMP_NUM_THREADS=1 "$venv/bin/python" "$here/peers.py" "$data" "$data.json" "${SEEDS:-5}" \
    2>target/peers-predict.json
