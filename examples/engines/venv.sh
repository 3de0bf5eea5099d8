#!/bin/sh
# Makes the virtual environment of an engine, with what it requires, and says where it is:
#   venv.sh NAME REQUIREMENTS
set -eu
venv="$(cd "$(dirname "$0")/../.." && pwd)/target/engines/$1"
if ! [ -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2" >&2
echo "$venv"
