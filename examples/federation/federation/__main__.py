"""python -m federation [--quick] FOLDER RECORDED: plays everything and writes the page, its pictures and the summary
into FOLDER; RECORDED is the table of recorded devices, which may be absent."""
from __future__ import annotations

import argparse
import json
import pathlib

from federation import deadline, devices, live, page, pipe, virtual
from federation.clock import Clock
from federation.curves import Curves
from federation.pipe import Devices
from federation.schemes import PROGRESS

HERE = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="federation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two mixes in place of twenty")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("recorded", type=pathlib.Path)
    args = parser.parse_args()
    results = stages(args.folder, args.recorded, args.quick)
    page.write(results, args.folder)


def stages(folder: pathlib.Path, recorded: pathlib.Path, quick: bool) -> dict:
    """Everything that is measured; a part that has been played is not played again."""
    synthetic = HERE / "devices.csv"
    found = virtual.mixes(recorded, synthetic, quick)
    curves, simulated = Curves(folder / "data", folder / "curves"), Devices(folder / "devices")
    rows = part(folder, f"virtual-{len(found)}", lambda: virtual.play(found, curves, simulated))
    few = list(zip(found, rows))[:4]
    late = part(folder, f"deadline-{len(few)}", lambda: [
        deadline.played(Clock(mix, curves, simulated), name, row["schemes"][PROGRESS]["as planned"]["batch"])
        for (name, mix), row in few])
    offered = Curves(folder / "data", folder / "curves-scaled", scaled=True)
    scaled = part(folder, "scaled", lambda: virtual.play(found[:2], offered, simulated))
    noise = part(folder, f"noise-{len(found)}", lambda: page.noise_rows([mix for _, mix in found], curves))
    real = part(folder, "live-rows", lambda: live.play(folder))
    table = recorded if recorded.exists() else synthetic
    inputs = [p.read_bytes() for p in sorted((folder / "data").rglob("*")) if p.suffix in (".rda", ".json")]
    return {"command": "make federation" + (" QUICK=1" if quick else ""), "tools": pipe.version(),
            "inputs_sha256": pipe.hash_of([*inputs, table.read_bytes(), (HERE / "requirements.txt").read_bytes()]),
            "devices": "recorded" if table == recorded else "synthetic",
            "rows": rows, "deadline": late, "scaled": scaled, "noise": noise, "live": real}


def part(folder: pathlib.Path, name: str, compute):
    """What was computed before, from its file, or else now."""
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_text(json.dumps(compute(), allow_nan=False))
    return json.loads(path.read_text())


if __name__ == "__main__":
    main()
