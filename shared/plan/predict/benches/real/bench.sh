#!/bin/sh
# The predictor, and what a user would otherwise pick, on measurements by others. Run from the
# workspace root; DATA is where the measurements lie. Options go to judge.py (--only gavel-v100,mixes,
# --no-peers, --seeds 1, --day DAY, --json FILE, --page FILE); without any, RESULTS.md is written anew by the
# draws of today. Builds a virtual environment in target/peers-predict once.
set -eu
here=$(dirname "$0")
data=${DATA:-../shared/data}
if [ ! -d "$data" ]; then
    echo "no measurements of others in $data: nothing to do"
    exit 0
fi
python=python3
case " $* " in
*" --no-peers "*) ;;
*)
    venv=target/peers-predict
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" --quiet install -r "$here/../peers/requirements.txt"
    fi
    python=$venv/bin/python
    ;;
esac
cargo build --release -q -p mt-predict --example bench-real
[ $# -gt 0 ] || set -- --page "$here/RESULTS.md"
OMP_NUM_THREADS=1 "$python" "$here/judge.py" "$data" target/predict-bench-real \
    target/release/examples/bench-real "$@"
