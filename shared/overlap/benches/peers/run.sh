#!/bin/sh
# Solves the ordering benchmarks' rounds with solvers of others, in a virtual environment of
# its own, and prints rows like those of `make bench`. Usage: run.sh [SECONDS-FOR-EACH-PEER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
venv="$root/target/peers/overlap"
rounds="$root/target/peers/overlap-rounds.json"
mkdir -p "$root/target/peers"
if ! [ -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
cd "$root"
cargo run --release --quiet -p overlap --example bench -- --rounds >"$rounds"
"$venv/bin/python" "$here/peers.py" --seconds "${1:-25}" "$rounds"
