#!/bin/sh
# Checks the manifest against the schemas of Kubernetes, and that `mt-launch env` gives what it mounts:
#   run.sh [FOLDER]     the variables go to FOLDER (out); the section of the results to standard output
# The tools are on PATH. The validator is installed into target/engines/kubernetes, a virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-out}
venv=$(sh "$here/../engines/venv.sh" kubernetes "$here/requirements.txt")
mkdir -p "$out"
"$venv/bin/kubernetes-validate" --strict "$here/manifest.yaml" >"$out/validate.log" || { cat "$out/validate.log" >&2; exit 1; }
# A name and a value in every line, the names such as Kubernetes takes.
if [ -n "${MT_PLAN:-}" ]; then
    mt-launch env --device cuda --task a --pipe-dir /mps/pipe "$MT_PLAN" >"$out/a.env"
    if grep -Ev '^[A-Za-z_][A-Za-z0-9_]*=.+$' "$out/a.env" >&2; then exit 1; fi
fi
cat <<MD
## Kubernetes

\`examples/kubernetes/manifest.yaml\` is valid by the schemas of Kubernetes $(sed -n 's/.*against version //p' "$out/validate.log" | tail -n 1); it was not run.
MD
