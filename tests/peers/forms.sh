#!/bin/sh
# Gives every form of `mt numbers` to the system that takes it, or to that system's own schema, installed into a virtual
# environment. `mt` is on PATH. Skipped, with the reason, where the packages cannot be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv="$here/../../target/peers/forms"
mkdir -p "$(dirname "$venv")"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
if ! "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/forms.txt" 2>"$venv/pip.log"; then
    echo "forms.sh: skipped: $(tail -n 1 "$venv/pip.log")"
    exit 0
fi
FLWR_TELEMETRY_ENABLED=0 exec "$venv/bin/python" "$here/forms.py"
