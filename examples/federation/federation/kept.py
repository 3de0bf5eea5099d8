"""What has been computed is kept, under the hash of what it was computed from: a run that was stopped goes on where
it was, and nothing of another program, another table of devices or other data gets into a page."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
from typing import Iterable

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("mt-profile", "mt-fit", "mt-solve", "mt-overlap")


def hash_of(parts: Iterable[bytes]) -> str:
    """SHA-256 of the inputs, so that a reader can tell whether theirs are the same."""
    digest = hashlib.sha256()
    for part in parts:
        # The length tells where one ends and the next begins.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def sources(*names: str) -> list[bytes]:
    """The bytes of modules of this package."""
    return [(HERE / f"{name}.py").read_bytes() for name in names]


def programs() -> list[bytes]:
    """The bytes of the tools."""
    found = {tool: shutil.which(tool) for tool in TOOLS}
    absent = [tool for tool, path in found.items() if path is None]
    if absent:
        raise SystemExit(f"{', '.join(absent)}: not on PATH; `make build`, then put target/release there")
    return [pathlib.Path(path).read_bytes() for path in found.values()]


def written(path: pathlib.Path, value) -> None:
    """Writes a value; the file appears whole or not at all."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


def remembered(path: pathlib.Path, compute):
    """What was computed before, from its file, or else now."""
    if not path.exists():
        written(path, compute())
    return json.loads(path.read_text())
