"""python -m federation [--quick] FOLDER RECORDED: runs everything and writes the page, its pictures and the summary
into FOLDER; RECORDED is the table of recorded devices, which may be absent."""
from __future__ import annotations

import argparse
import json
import pathlib

from federation import alone, deadline, live, page, pipe, virtual
from federation.clock import Clock
from federation.curves import Curves
from federation.kept import hash_of, programs, remembered, sources
from federation.pipe import Devices
from federation.place import SEEDS_PLAYED

PAGE = pathlib.Path(__file__).resolve().parents[1]
DEADLINES = 20
"""Number of mixes, from the first, that are also run with deadlines."""

SCALED = 2
"""Number of mixes, from the first, that are also run with learning rates that grow with the batch."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="federation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two mixes in place of twenty, and one seed live")
    parser.add_argument("--kept", action="store_true", help="play nothing more: a page of what is kept of this program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("recorded", type=pathlib.Path)
    args = parser.parse_args()
    page.write(stages(args), args.folder)


def stages(args: argparse.Namespace) -> dict:
    """Everything that is measured; results that this program has already computed from these inputs are reused."""
    synthetic = PAGE / "devices.csv"
    table = args.recorded if args.recorded.exists() else synthetic
    found = virtual.mixes(args.recorded, synthetic, args.quick)
    data = [p.read_bytes() for p in sorted((args.folder / "data").rglob("*")) if p.suffix in (".rda", ".json")]
    packages = (PAGE / "requirements.txt").read_bytes()

    def kept(name: str, *parts: bytes) -> pathlib.Path:
        return args.folder / f"{name}-{hash_of(parts)[:12]}"

    training = [*data, packages, *sources("data", "net", "curves", "noise")]
    curves, offered = (Curves(args.folder / "data", kept(name, *training), scaled)
                       for name, scaled in (("curves", False), ("curves-scaled", True)))
    judging = [table.read_bytes(), *programs(), *sources("devices", "pipe", "clock", "law", "schemes", "virtual")]
    simulated = Devices(kept("devices", *training, *judging))
    if args.kept:
        found = [(name, mix) for name, mix in found if virtual.kept(mix, curves, simulated).exists()]
        if not found:
            raise SystemExit("no mix is kept of this program and these inputs")
    rows = virtual.play(found, curves, simulated)

    def part(path: pathlib.Path, compute) -> list[dict]:
        return [] if args.kept and not path.exists() else remembered(path, compute)

    again = hash_of(sources("deadline"))[:12]
    late = [row for (_, mix), played in list(zip(found, rows))[:DEADLINES]
            for row in part(virtual.kept(mix, curves, simulated).with_suffix(f".late-{again}"), lambda: [
                deadline.played(Clock(mix, curves, simulated), played)])]
    scaled = [row for one in found[:SCALED] for row in part(virtual.kept(one[1], offered, simulated).with_suffix(".list"),
                                                            lambda: virtual.play([one], offered, simulated))]
    single = [row for task in sorted({t for _, mix in found for t in mix.tasks})
              for row in part(curves.kept / f"alone-{task}-{hash_of(sources('law', 'alone'))[:12]}.json",
                              lambda: [alone.row(task, curves.data(task))])]
    live_folder = kept("live", *training, *programs(), *sources("pipe", "live", "place", "client"))
    seeds = SEEDS_PLAYED[:1] if args.quick else SEEDS_PLAYED
    real = part(live_folder.with_suffix(f".{len(seeds)}.json"),
                lambda: live.play(args.folder / "data", live_folder, seeds))
    return {"command": "make federation" + (" QUICK=1" if args.quick else ""), "tools": pipe.version(),
            "inputs_sha256": hash_of([*data, table.read_bytes(), packages]), "program_sha256": simulated.kept.name,
            "devices": "recorded" if table == args.recorded else "synthetic", "all_mixes": 2 if args.quick else 20,
            "rows": rows, "deadline": late, "scaled": scaled, "alone": single,
            "noise": page.noise_rows([mix for _, mix in found], curves), "live": real, "live_before": before()}


def before() -> tuple[list[dict], str | None]:
    """The live part of the committed page, and the program that ran it. It needs an otherwise idle machine, so a page
    made from kept results contains the last one."""
    path = PAGE / "summary.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    return told.get("live", []), told.get("live_program", told.get("program_sha256"))


if __name__ == "__main__":
    main()
