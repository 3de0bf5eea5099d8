#!/bin/sh
# Solves the allocation benchmarks' problems with solvers of others, in a virtual environment of
# its own, and prints rows like those of `make bench`. Usage: run.sh [SECONDS-FOR-EACH-PEER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
venv="$root/target/peers/alloc"
problems="$root/target/peers/alloc-problems.json"
mkdir -p "$root/target/peers"
if ! [ -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
cd "$root"
cargo run --release --quiet -p alloc --example bench -- --problems >"$problems"
"$venv/bin/python" "$here/peers.py" --seconds "${1:-20}" "$problems"
