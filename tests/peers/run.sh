#!/bin/sh
# Gives the problems of a crate's benchmark to solvers of others, in a virtual environment of its
# own, and prints their rows like those of `make bench`.
# Usage: run.sh CRATE FLAG-THAT-EXPORTS [ARGUMENTS OF peers.py]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
crate=$1
export=$2
shift 2
folder=$(echo "$root"/shared/*/"$crate")
here="$folder/benches/peers"
venv="$root/target/peers/$crate"
mkdir -p "$root/target/peers"
if ! [ -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
cd "$root"
cargo run --release --quiet --manifest-path "$folder/Cargo.toml" --example "bench-$crate" -- "$export" >"$venv.json"
# One core, as the solvers here have.
OMP_NUM_THREADS=1 PYTHONPATH="$root/tests/peers" "$venv/bin/python" "$here/peers.py" "$@" "$venv.json"
