"""A site's training of one task, live, as a process under its share.

    python -m federation.client TASK SITE DATA

mt-profile measures it through the worker protocol (MT_POOL). In a federation it reads lines of JSON on standard
input, one per round, and answers each with a line: {"samples": ..., "seconds": ...}.
"""
from __future__ import annotations

import json
import os
import pathlib
import sys
import time

import numpy as np

from federation import net
from federation.data import Data, load, parts
from federation.curves import SPLIT_SEED
from federation.place import EPOCHS, SITES, SPLIT, WIDTH

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from mt_tools import Worker  # noqa: E402


def measured(data: Data, rows: np.ndarray) -> None:
    """Trains at the batch sizes that mt-profile asks for, until told to quit."""
    worker = Worker.from_environment()
    weights = [w[0] for w in net.initial(data.train_x.shape[1], data.classes, [0], WIDTH)]
    training = None
    worker.ready()
    for batch in worker.steps():
        if training is None or batch != training[0]:
            training = batch, net.steps(weights, data, np.resize(rows, 2 ** 20), batch, 0.01)
        next(training[1])
        worker.step(batch)


def serve(data: Data, rows: np.ndarray, site: int) -> None:
    """Trains the rounds that the server asks for."""
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        begun = time.monotonic()
        with np.load(asked["from"]) as file:
            weights = [file[f"w{k}"] for k in range(4)]
        drawn = net.order(rows, net.Local([asked["batch"]] * SITES, EPOCHS), site, asked["seed"], asked["round"])
        for weights in net.steps(weights, data, drawn, asked["batch"], asked["rate"]):
            pass
        np.savez(asked["to"], **{f"w{k}": w for k, w in enumerate(weights)})
        print(json.dumps({"samples": len(drawn), "seconds": time.monotonic() - begun}), flush=True)


def main() -> None:
    task, site, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    data = load(task, folder)
    rows = parts(data.train_y, SITES, SPLIT, SPLIT_SEED)[site]
    if os.environ.get("MT_POOL", "") not in ("", "0"):
        measured(data, rows)
    else:
        serve(data, rows, site)


if __name__ == "__main__":
    main()
