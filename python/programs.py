"""Hatchling's hook that puts the programs and their manual pages into the wheel."""

import os
import pathlib
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


# A folder of programs that are built already (`make build` leaves them in target/release).
BUILT = "MT_TOOLS_PROGRAMS"


def build(root):
    """Builds the workspace, unless the environment names a folder of programs; where they are."""
    given = os.environ.get(BUILT)
    if given:
        return pathlib.Path(given).resolve()
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "build", "--release", "--workspace", "--bins"], cwd=root, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"


class Programs(BuildHookInterface):
    """The wheel is for this platform, and for every Python 3."""

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        built = build(root)
        pages = root / "target/wheels/man"
        pages.mkdir(parents=True, exist_ok=True)
        data = {str(root / "tools/mt-launch/man/mt-workload.5"): "share/man/man5/mt-workload.5"}
        tools = sorted(path.name for path in (root / "tools").iterdir())
        absent = [tool for tool in tools if not os.access(built / tool, os.X_OK)]
        if absent:
            raise RuntimeError(f"{built} has no program {', '.join(absent)}: run `make build`, or unset {BUILT}")
        for tool in tools:
            page = pages / f"{tool}.1"
            page.write_bytes(subprocess.run([built / tool, "--man"], check=True, stdout=subprocess.PIPE).stdout)
            data[str(page)] = f"share/man/man1/{tool}.1"
            build_data["shared_scripts"][str(built / tool)] = tool
        build_data["shared_data"].update(data)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
