"""What to do about stragglers, on the virtual clock: wait for all, end rounds at a deadline, or plan the late clients
anew for it (mt-overlap --federation --deadline)."""
from __future__ import annotations

import csv
from typing import Mapping, NamedTuple

from federation import pipe
from federation.clock import Clock, Gives, finishing, stages
from federation.curves import BATCHES, SEEDS
from federation.pipe import Round
from federation.schemes import Schemes

PART = 0.5
"""The deadline, as a part of the round that waits for all."""


class Late(NamedTuple):
    """A client at the deadline."""

    gives: Gives
    kept: float
    """Part of its rows that it trains on; 0: it does not take part."""


def compare(clock: Clock, schemes: Schemes, sizes: Mapping[str, int]) -> dict[str, dict]:
    """Rounds and seconds to the targets under each policy, from the batch sizes of the plan by progress."""
    everyone = frozenset(clock.mix.tasks)
    whole = clock.same(sizes)
    gives = schemes.shares_planned([(everyone, whole)])[0]
    rounds = [Round(c, g, clock.rows(k, everyone)) for k, (c, g) in enumerate(zip(clock.mix.clients, gives))]
    seconds = clock.devices.lengths(rounds)
    deadline = PART * max(seconds)
    policies = {"wait for all": [Late(g, 1.0) for g in gives],
                "deadline": [_late(clock, r, deadline, None) if s > deadline else Late(r.gives, 1.0)
                             for r, s in zip(rounds, seconds)],
                "deadline, re-planned": [_late(clock, r, deadline, schemes) if s > deadline else Late(r.gives, 1.0)
                                         for r, s in zip(rounds, seconds)]}
    return {name: _judged(clock, clients) for name, clients in policies.items()}


def _late(clock: Clock, r: Round, deadline: float, schemes: Schemes | None) -> Late:
    """How a late client ends in time, as mt-overlap says; with `schemes` by another plan, too."""
    document = _replannable(clock, r, schemes) if schemes else pipe.plan(
        r, clock.devices.measured(r.client.gpu, pipe.subsets(r.gives)), False)
    table = clock.devices.kept / "federation.csv"
    # A client of S times the speed is planned as one of speed 1, so that its deadline is S times as late.
    pipe.run(["mt-overlap", "--federation", str(table), "--deadline", f"{deadline * r.client.speed:g}", "-"],
             pipe.lines([document]))
    with table.open() as file:
        row = next(csv.DictReader(file))
    return Late(replanned(row["replanned"]) or r.gives, float(row["kept_percent"]) / 100)


def _replannable(clock: Clock, r: Round, schemes: Schemes) -> dict:
    """The client's plan with its model, and all batch sizes to choose from again."""
    model = pipe.adapted(schemes.models[r.client.gpu], r.client, r.rows,
                         {t: {"batch_sizes": [b]} for t, (b, _) in r.gives.items()})
    plan = pipe.solve([model], list(r.gives), ["--objective", "round", "--batch", "free"])[0]
    for task in plan["model"]["workload"]["tasks"]:
        task["batch_sizes"] = list(BATCHES)
    return plan


def replanned(told: str) -> dict[str, tuple[int, float]]:
    """Batch sizes and shares from a cell such as `a=32@60% b=64@100%`; empty where the plan stands."""
    pairs = (part.split("=") for part in told.split())
    return {t: (int(own.split("@")[0]), float(own.split("@")[1].rstrip("%"))) for t, own in pairs}


def _judged(clock: Clock, clients: list[Late]) -> dict:
    kept = [c.kept for c in clients]
    sizes = {t: tuple(c.gives[t][0] for c in clients) for t in clock.mix.tasks}
    rounds = {t: clock.curves.rounds(clock.mix.setting(t), list(sizes[t]), None if min(kept) == 1 else kept)
              for t in clock.mix.tasks}
    by_seed = [{t: rounds[t][k] for t in clock.mix.tasks} for k in range(len(SEEDS))]
    active = list(dict.fromkeys(a for seed in by_seed for a in stages(seed)))
    known = {}
    for a in active:
        present = [Round(clock.mix.clients[k], {t: c.gives[t] for t in c.gives if t in a},
                         {t: n * c.kept for t, n in clock.rows(k, a).items()})
                   for k, c in enumerate(clients) if c.kept > 0]
        known[a] = max(clock.devices.lengths(present))
    ends = [finishing(seed, lambda a: known[a]) for seed in by_seed]
    return {"seconds": sum(max(e.values()) for e in ends) / len(ends),
            "round_s": known[frozenset(clock.mix.tasks)],
            "rounds": {t: sum(n) / len(n) for t, n in rounds.items()},
            "rows_percent": 100 * sum(c.kept * sum(clock.rows(k, clock.mix.tasks).values())
                                      for k, c in enumerate(clients))
            / sum(sum(clock.rows(k, clock.mix.tasks).values()) for k in range(len(clients)))}


def played(clock: Clock, name: str, sizes: Mapping[str, int]) -> dict:
    """The row of a mix."""
    return {"mix": name, **{policy.replace(", ", "_").replace("-", "").replace(" ", "_"): row for policy, row in
                            compare(clock, Schemes(clock), sizes).items()}}


