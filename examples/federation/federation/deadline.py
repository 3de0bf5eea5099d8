"""Three policies for stragglers, on the virtual clock: wait for all, end rounds at a deadline, or plan the late
clients again so that the targets are reached soonest (mt-overlap --federation --deadline)."""
from __future__ import annotations

import csv
import re
import subprocess
from typing import Mapping, NamedTuple

from federation import law, pipe
from federation.clock import Clock, Gives, finishing, stages
from federation.curves import SEEDS
from federation.pipe import Round
from federation.schemes import PROGRESS, Schemes, kept_size, worth_of

PART = 0.5
"""The deadline, as a fraction of the round that waits for all."""


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
    told, foretold = _anew(clock, schemes, sizes, deadline)
    anew = [other or g for other, g in zip(told, gives)]
    policies = {"wait for all": [Late(g, 1.0) for g in gives],
                "deadline": _in_time(clock, rounds, deadline),
                "deadline, re-planned": _in_time(clock, [r._replace(gives=g) for r, g in zip(rounds, anew)], deadline)}
    return {name: {**_judged(clock, clients), "foretold_s": seconds}
            for (name, clients), seconds in zip(policies.items(), foretold, strict=True)}


def _in_time(clock: Clock, rounds: list[Round], deadline: float) -> list[Late]:
    """How clients meet a deadline at measured rates: late ones train on fewer samples, as mt-overlap says."""
    seconds = clock.devices.lengths(rounds)
    return [Late(r.gives, _part(clock, r, deadline) if s > deadline else 1.0) for r, s in zip(rounds, seconds)]


def _part(clock: Clock, r: Round, deadline: float) -> float:
    """The part of its rows that a client can train on in time."""
    document = pipe.plan(r, clock.devices.measured(r.client.gpu, pipe.subsets(r.gives)), False)
    # A client of S times the speed is planned as one of speed 1, so its deadline is S times as long.
    return float(_table(clock, [document], deadline * r.client.speed)[0][0]["kept_percent"]) / 100


def _table(clock: Clock, plans: list[dict], deadline: float) -> tuple[list[dict[str, str]], str]:
    """What mt-overlap says of each device of a federation with this deadline, and its notes."""
    path = clock.devices.kept / "federation.csv"
    done = subprocess.run(["mt-overlap", "--federation", str(path), "--deadline", f"{deadline:g}", "-"],
                          input=pipe.lines(plans), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"mt-overlap: exit code {done.returncode}\n{done.stderr}")
    with path.open() as file:
        return list(csv.DictReader(file)), done.stderr


def foretold_by(notes: str) -> tuple[float, float, float]:
    """When a note of mt-overlap predicts that the targets are reached: waiting for all, with fewer samples, and with
    other batch sizes and shares. If these do not help, the third is the same as the second."""
    note = next(line for line in notes.splitlines() if "targets are reached" in line)
    waiting, own, *other = (float(s or "inf") for s in re.findall(r"\bin ([0-9.]+) s|\bnever \(", note))
    return waiting, own, other[0] if other else own


def _anew(clock: Clock, schemes: Schemes, sizes: Mapping[str, int], deadline: float
          ) -> tuple[list[dict[str, tuple[int, float]]], tuple[float, float, float]]:
    """Batch sizes and shares of the clients that are planned again (empty for a client that keeps its plan), and the
    predicted times of the targets. They are planned as one federation: the best choice for one late client depends on
    the contributions of the others."""
    tasks = clock.mix.tasks
    known = {t: at_one_rate(known, clock.curves.phi(clock.mix.setting(t))["pooled"], sizes[t])
             for t, known in schemes.learnt().items()}
    rows = [clock.rows(k, tasks) for k in range(len(clock.mix.clients))]
    all_rows = {t: sum(own[t] for own in rows) for t in tasks}
    counted = {t: sum(own[t] / c.speed for own, c in zip(rows, clock.mix.clients)) for t in tasks}
    models = []
    for client, own in zip(clock.mix.clients, rows):
        # Devices of one federation have one clock. A client of S times the speed of its GPU is planned as that GPU
        # with 1/S of its rows. Rounds are also divided by S, so that its weight in the progress of all stays the
        # same.
        less = {t: n / client.speed for t, n in own.items()}
        model = pipe.adapted(schemes.models[client.gpu], client, less, {
            t: {**known[t], "rounds_to_target": known[t]["rounds_to_target"] / client.speed * all_rows[t] / counted[t]}
            for t in tasks})
        model["workload"]["link"] = {"down_bps": client.down_bps, "up_bps": client.up_bps}
        models.append(model)
    fixed = [{**m, "workload": {**m["workload"], "tasks": [
        {**task, "batch_sizes": [sizes[task["id"]]]} for task in m["workload"]["tasks"]]}} for m in models]
    plans = pipe.solve(fixed, list(tasks), ["--objective", "progress-last", "--batch", "free"])
    for plan, model in zip(plans, models):
        plan["model"]["workload"]["tasks"] = model["workload"]["tasks"]
    rows, notes = _table(clock, plans, deadline)
    return [replanned(row["replanned"]) for row in rows], foretold_by(notes)


def at_one_rate(known: Mapping, phi: float, batch: int) -> dict:
    """What a workload says of a task whose clients share the learning rate that suits one batch size. It is too large
    for a smaller batch, so late clients may only have larger ones, and these do not get a larger rate. Their samples
    are worth what the law says at this rate, but no more than with the best rate of their own."""
    sizes = [b for b in known["batch_sizes"] if b >= batch]
    table = [{"batch": b, "progress": min(law.worth(phi, b, batch, 1.0, lambda _: 1.0),
                                          worth_of(known, b) / worth_of(known, batch))} for b in sizes]
    # A table needs two rows. For the second, assume the worst: the worth of a sample falls in proportion to the
    # batch.
    if len(table) == 1:
        table.append({"batch": 2 * batch, "progress": table[0]["progress"] / 2})
    return {**known, **kept_size(known, batch), "batch_sizes": sizes,
            "efficiency": {"table": table, "source": known["efficiency"]["source"]}}


def replanned(told: str) -> dict[str, tuple[int, float]]:
    """Batch sizes and shares from a cell such as `a=32@60% b=64@100%`; empty if the client keeps its plan."""
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


def played(clock: Clock, row: Mapping) -> dict:
    """The row of a mix, from that of its schemes."""
    sizes = row["schemes"][PROGRESS]["as planned"]["batch"]
    return {"mix": row["mix"], **{policy.replace(", ", "_").replace("-", "").replace(" ", "_"): found
                                  for policy, found in compare(clock, Schemes(clock), sizes).items()}}
