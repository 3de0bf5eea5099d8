"""Results are kept under the hash of the program and the inputs that they were computed from: a stopped run continues
where it was, and a page never contains results of another program, table of devices or data."""
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
        # The length shows where one part ends and the next begins.
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
    """Writes a value; the file is either complete or absent."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


def remembered(path: pathlib.Path, compute):
    """A previous result from its file; otherwise it is computed now."""
    if not path.exists():
        written(path, compute())
    return json.loads(path.read_text())
