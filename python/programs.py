"""Hatchling's hook that puts the programs and their manual pages into the wheel.

One program contains every tool, and acts as the one that it is called by. Elsewhere the other names are links to it.
A wheel cannot contain links, so there they are shell scripts that exec it.
"""

import os
import pathlib
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


# A folder of programs that are already built (`make build` leaves them in target/release).
BUILT = "MT_TOOLS_PROGRAMS"

# Finds `mt` beside the script, or beside the target if the script is called through a link elsewhere.
SCRIPT = """#!/bin/sh
mt=${0%%/*}/mt
[ -x "$mt" ] || mt=$(dirname "$(readlink -f "$0")")/mt
exec "$mt" %s "$@"
"""


def build(root):
    """Builds the workspace, unless the environment names a folder of programs; returns the folder."""
    given = os.environ.get(BUILT)
    if given:
        return pathlib.Path(given).resolve()
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "build", "--release", "--workspace", "--bin", "mt"], cwd=root, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"


class Programs(BuildHookInterface):
    """The wheel is for this platform, and for every Python 3."""

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        built = build(root)
        program = built / "mt"
        if not os.access(program, os.X_OK):
            raise RuntimeError(f"{built} has no program mt: run `make build`, or unset {BUILT}")
        pages, scripts = root / "target/wheels/man", root / "target/wheels/bin"
        pages.mkdir(parents=True, exist_ok=True)
        scripts.mkdir(parents=True, exist_ok=True)
        data = {str(root / "tools/mt-launch/man/mt-workload.5"): "share/man/man5/mt-workload.5"}
        tools = sorted(path.name for path in (root / "tools").iterdir())
        for tool in tools:
            page = pages / f"{tool}.1"
            words = [tool, "--man"]
            page.write_bytes(subprocess.run(words, executable=program, check=True, stdout=subprocess.PIPE).stdout)
            data[str(page)] = f"share/man/man1/{tool}.1"
            script = scripts / tool
            if tool != "mt":
                script.write_text(SCRIPT % tool)
                script.chmod(0o755)
            build_data["shared_scripts"][str(program if tool == "mt" else script)] = tool
        build_data["shared_data"].update(data)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
