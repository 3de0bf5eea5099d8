#!/bin/sh
# Installs the newest wheel into an empty virtual environment and takes README's first steps with it, with
# nothing of the repository at hand:
#   wheel.sh FOLDER-OF-WHEELS
# With torch in $PYTHON (/usr/bin/python3), the callbacks are tried with the frameworks, too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$(ls -t "$1"/mt_tools-*.whl | head -n 1)")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
cp "$here/frameworks_test.py" "$here/frameworks.txt" "$dir"
cd "$dir"
path=$PATH
export PATH="$dir/venv/bin:/usr/bin:/bin"
unset PYTHONPATH

say() { echo "wheel.sh: $*" >&2; }
fail() { say "$*"; exit 1; }

for tool in mt mt-profile mt-fit mt-solve mt-overlap mt-elastic mt-launch mt-worker mt-check mt-report mt-cluster; do
    [ "$(command -v "$tool")" = "$dir/venv/bin/$tool" ] || fail "$tool is not installed"
    "$tool" --version >/dev/null
    [ -s "venv/share/man/man1/$tool.1" ] || fail "$tool has no manual page"
done

say "mt init && mt run, on a simulated GPU"
mt init >/dev/null 2>&1
mt run --budget 8 >run.log 2>&1 || { cat run.log >&2; fail "mt run ended with an error"; }
[ -s workload-run/report.html ] || fail "there is no report"
grep -i together run.log | head -n 3 >&2

say "a plain loop under the launcher, on processors"
cat >loop.py <<'PY'
from mt_tools import Worker

worker = Worker.from_environment()
weight = 0.0
worker.ready()
for batch in worker.steps():
    for i in range(batch):
        x = i % 7 - 3
        weight -= 0.001 * 2 * x * (weight * x - 2 * x)
    worker.step(batch, loss=(weight - 2) ** 2)
PY
mt init --script loop.py --batch-sizes 32,64 --samples 40000 --tasks 2 --device cpu -o loop.json >/dev/null 2>&1
status=0
mt run --budget 3 loop.json >loop.log 2>&1 || status=$?
case $status in
    0)
        python3 - <<'PY'
from mt_tools import documents

tasks = documents.read("loop-run/run.ndjson")[-1]["tasks"]
assert len(tasks) == 2 and all(t["finished"] and t["samples"] == 40000 for t in tasks), tasks
# The training takes some 30 ms, so the first loss that is reported may be the last.
assert all(t["last_loss"] <= t["first_loss"] and t["last_loss"] < 1 for t in tasks), tasks
assert {row["task"] for row in documents.table("tasks", "loop-run/plan.json")} == {"task1", "task2"}
PY
        mt-check loop-run/profile.ndjson loop-run/plan.json loop-run/timeline.json loop-run/run.ndjson >/dev/null
        ;;
    3) say "skipped: $(tail -n 2 loop.log)" ;;
    *) cat loop.log >&2; fail "mt run ended with $status" ;;
esac

export PATH="$path"
PYTHON=${PYTHON:-/usr/bin/python3}
if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
    say "the frameworks are not tried: $PYTHON has no torch"
    exit 0
fi
say "Hugging Face's and Lightning's trainers"
"$PYTHON" -m venv --without-pip --system-site-packages frameworks
"$dir/venv/bin/pip" --python frameworks/bin/python install --quiet --disable-pip-version-check -r frameworks.txt "$wheel"
frameworks/bin/python frameworks_test.py
