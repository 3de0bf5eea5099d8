"""The devices of a federation: GPU, speed of the host, and link, different for each client."""
from __future__ import annotations

import csv
import pathlib
from typing import NamedTuple

import numpy as np

GPUS = ("rtx-3090", "rtx-3080", "titan-v")
"""GPUs that the simulator was fitted to or tested on; clients have them in turns."""

LEAST_UP_KBPS = 10_000
"""Clients with a slower uplink do not take part, as a server would select: their rounds would be mostly upload."""


class Client(NamedTuple):
    gpu: str
    speed: float
    """Speed relative to the simulated GPU."""
    down_bps: float
    up_bps: float


def clients(count: int, recorded: pathlib.Path, synthetic: pathlib.Path, seed: int = 1) -> tuple[list[Client], str]:
    """`count` clients drawn from recorded devices if the file exists, otherwise the first rows of our own table; and
    which of the two it was. The median device has speed 1."""
    path = recorded if recorded.exists() else synthetic
    with path.open() as file:
        rows = [r for r in map(_row, csv.DictReader(file)) if r[2] >= LEAST_UP_KBPS]
    median = float(np.median([r[0] for r in rows]))
    chosen = range(count) if path == synthetic else np.random.default_rng(seed).choice(len(rows), count, False)
    return [Client(GPUS[k % len(GPUS)], median / rows[i][0], rows[i][1] * 1e3, rows[i][2] * 1e3)
            for k, i in enumerate(chosen)], "recorded" if path == recorded else "synthetic"


def _row(row: dict[str, str]) -> tuple[float, float, float]:
    """Time of a computation, and down and up kbit/s, with the column names of either table."""
    if "compute_ms" in row:
        return float(row["compute_ms"]), float(row["down_kbps"]), float(row["up_kbps"])
    return float(row["computation"]), float(row["dl_kbps"]), float(row["ul_kbps"])
