"""Twenty mixes of tasks, devices and splits on the virtual clock."""
from __future__ import annotations

import math
import pathlib
import sys
from typing import Mapping, Sequence

from federation import devices
from federation.clock import Clock, Mix
from federation.curves import Curves
from federation.kept import hash_of, remembered
from federation.pipe import Devices
from federation.schemes import ANY_RATE, ANY_SIZE, IN_TURNS, NORMS, PROGRESS, SAMPLES, SINGLE, Outcome, Schemes

SETS = (("digits", "letters", "satellite"), ("digits", "letters", "mnist"), ("digits", "satellite", "mnist"),
        ("letters", "satellite", "mnist"), ("digits", "letters", "satellite", "mnist"))
SPLITS = ("dirichlet", "iid")
CLIENTS = (6, 12)
CROSSED = ("over_crossed", "one_after_another_crossed")
"""Ratios to rivals whose batch sizes are chosen with other seeds than they are judged on."""


def mixes(recorded: pathlib.Path, synthetic: pathlib.Path, quick: bool) -> list[tuple[str, Mix]]:
    """Every set of tasks with every split and number of clients; devices are drawn again for each set."""
    found = []
    for number, tasks in enumerate(SETS[:1] if quick else SETS):
        for count in CLIENTS[:1] if quick else CLIENTS:
            own, _ = devices.clients(count, recorded, synthetic, seed=10 * number + count)
            found += [(f"{'+'.join(tasks)}, {split}, {count} clients", Mix(tasks, split, own)) for split in SPLITS]
    return found


def row(name: str, mix: Mix, curves: Curves, simulated: Devices) -> dict:
    """The results of all schemes on a mix, in seconds, and the ratios of the goals."""
    clock = Clock(mix, curves, simulated)
    schemes = Schemes(clock)
    outcomes = schemes.all()
    noise = {t: curves.phi(mix.setting(t)) for t in mix.tasks}
    seen = {t: curves.seen(mix.setting(t)) for t in mix.tasks}
    crossed = schemes.crossed(list(schemes.tried)), schemes.crossed([IN_TURNS])
    learnt = schemes.learnt()
    outcomes[PROGRESS] = {"as planned": schemes.by_progress(learnt)}
    outcomes[SINGLE] = {"as planned": schemes.single(learnt)}
    for scheme in (NORMS, ANY_SIZE, ANY_RATE):
        measured = schemes.measured(scheme != ANY_SIZE, scheme != ANY_RATE)
        outcomes[scheme] = {"as planned": schemes.by_progress(measured)}
    seconds = {scheme: {at: _told(o) for at, o in of.items()} for scheme, of in outcomes.items()}
    drawn = {"one after another": (IN_TURNS, outcomes[IN_TURNS]["hindsight"]),
             "100 % each, batch 32": ("100 % each", outcomes["100 % each"]["reference"]),
             SAMPLES: (SAMPLES, outcomes[SAMPLES]["as planned"]), PROGRESS: (SAMPLES, outcomes[PROGRESS]["as planned"])}
    points = {label: clock.points(key, outcome.sizes) for label, (key, outcome) in drawn.items()}
    return {"mix": name, "tasks": list(mix.tasks), "split": mix.split, "clients": len(mix.clients),
            "devices": [c._asdict() for c in mix.clients], "phi": {t: n["pooled"] for t, n in noise.items()},
            "seen_rounds": seen, "points": points, "schemes": seconds, **ratios(seconds),
            **dict(zip(CROSSED, (outcomes[PROGRESS]["as planned"].ends.score() / s for s in crossed)))}


def _told(outcome: Outcome) -> dict:
    sizes = {t: own[0] if len(set(own)) == 1 else list(own) for t, own in outcome.sizes.items()}
    # JSON has no infinity: if a target was not reached within the maximum number of rounds, there is no time.
    times = {"seconds": outcome.ends.score(), "least_s": min(outcome.ends.last()), "most_s": max(outcome.ends.last()),
             "mean_task_s": outcome.ends.mean()}
    return {**{k: v if math.isfinite(v) else None for k, v in times.items()}, "batch": sizes}


def ratios(seconds: Mapping[str, Mapping[str, Mapping]], at: str = "seconds") -> dict:
    """Time to target of the plan by progress relative to its rivals; below 1 the plan is faster, and 0 means that the
    rival did not reach the targets."""
    def time(scheme: str, sizes: str) -> float:
        told = seconds[scheme][sizes][at]
        return math.inf if told is None else told

    ours = time(PROGRESS, "as planned")
    rivals = {scheme: time(scheme, "hindsight") for scheme, of in seconds.items() if "hindsight" in of}
    best = min(rivals, key=lambda scheme: rivals[scheme])
    return {"best_in_hindsight": best, "over_hindsight": ours / rivals[best],
            "over_samples_plan": ours / time(SAMPLES, "as planned"),
            "over_single": ours / time(SINGLE, "as planned"),
            "over_one_after_another": ours / rivals[IN_TURNS]}


def kept(mix: Mix, curves: Curves, simulated: Devices) -> pathlib.Path:
    """Path of a mix's row, beside the lengths of its rounds."""
    return simulated.kept / f"row-{hash_of([repr(mix).encode(), curves.kept.name.encode()])[:16]}.json"


def play(found: Sequence[tuple[str, Mix]], curves: Curves, simulated: Devices) -> list[dict]:
    """The rows of the mixes, each kept as soon as it is complete."""
    rows = []
    for name, mix in found:
        rows.append(remembered(kept(mix, curves, simulated), lambda n=name, m=mix: row(n, m, curves, simulated)))
        last = rows[-1]
        print(f"{name}: {last['over_hindsight']:.2f} of the best in hindsight ({last['best_in_hindsight']}), "
              f"{last['over_samples_plan']:.2f} of the plan by samples, {last['over_one_after_another']:.2f} of one "
              "after another", file=sys.stderr, flush=True)
    return rows
