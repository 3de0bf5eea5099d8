"""Hatchling's hook that puts the programs and their manual pages into the wheel."""

import os
import pathlib
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):
    """Builds the workspace; the wheel is for this platform, and for every Python 3."""

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        cargo = os.environ.get("CARGO", "cargo")
        subprocess.run([cargo, "build", "--release", "--workspace", "--bins"], cwd=root, check=True)
        pages = root / "target/wheels/man"
        pages.mkdir(parents=True, exist_ok=True)
        built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"
        data = {str(root / "tools/mt-launch/man/mt-workload.5"): "share/man/man5/mt-workload.5"}
        for tool in sorted(path.name for path in (root / "tools").iterdir()):
            page = pages / f"{tool}.1"
            page.write_bytes(subprocess.run([built / tool, "--man"], check=True, stdout=subprocess.PIPE).stdout)
            data[str(page)] = f"share/man/man1/{tool}.1"
            build_data["shared_scripts"][str(built / tool)] = tool
        build_data["shared_data"].update(data)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
