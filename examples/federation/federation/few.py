"""python -m federation.few DATA KEPT RECORDED: federations whose targets take 3, 6 and 12 rounds, on four data sets
that are not on the page; writes few.json. DATA has the files of `TABLES`, from r-cran-mlbench as in `fetch.sh`.

With such targets the trainings that chose a learning rate say little: with one seed a target takes 2 rounds, with
another 5. Plans by these rounds are compared with plans by the same trainings read between rounds, and with plans by
two more trainings at each size. Every pair of seeds makes plans of its own; other seeds judge."""
from __future__ import annotations

import json
import math
import pathlib
import statistics
import sys
from typing import Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from federation import clock, data, devices, law, net, pipe
from federation.curves import BATCHES, RATES, SEEDS, Setting, first_round
from federation.noise import REFERENCE
from federation.schemes import IN_TURNS, Schemes, kept_size

TABLES = {"vowel": ("Vowel", None), "vehicle": ("Vehicle", None), "dna": ("DNA", 2000), "shuttle": ("Shuttle", 3000)}
"""Tables of r-cran-mlbench, each with the labels in `Class`, and how many rows are drawn; absent: all."""
MIXES = (("vowel", "vehicle", "dna"), ("vehicle", "shuttle", "vowel"), ("shuttle", "dna", "vehicle"),
         ("dna", "vowel", "shuttle"))
"""The k-th task of a mix has rounds as long as the k-th of `pipe.MODELS`."""
HERE = pathlib.Path(__file__).resolve().parents[1]
FIRST = tuple(range(101, 109))
PAIRS = tuple(zip(FIRST[::2], FIRST[1::2]))
"""Seeds of the trainings that chose the learning rates of a plan."""
JUDGES = SEEDS
ROUNDS = (3, 6, 12)
MOST_ROUNDS, NEVER = 40, 80.0
"""Rounds that are trained, and rounds of a judge that has then not reached the target."""
CLIENTS, SPLIT_SEED = 6, 7


def crossing(accuracies: Sequence[float], target: float) -> float:
    """Rounds until the target with a part of a round: linear from the highest accuracy before to the one that reaches
    it. At least 0.3, so that one lucky start does not set a geometric mean."""
    highest = 0.0
    for whole, accuracy in enumerate(accuracies):
        if accuracy >= target:
            return max(0.3, whole + (target - highest) / (accuracy - highest))
        highest = max(highest, accuracy)
    return math.inf


def by_whole(runs: Sequence[Sequence[float]], target: float) -> float:
    return statistics.mean(first_round(r, target) for r in runs)


def by_crossing(runs: Sequence[Sequence[float]], target: float) -> float:
    return math.exp(statistics.mean(math.log(crossing(r, target)) for r in runs))


KINDS = {"two trainings": (2, by_whole), "two trainings, between rounds": (2, by_crossing),
         "four trainings": (4, by_whole)}
"""How many trainings at each size a plan has seen, and how it counts their rounds."""

Curve = Mapping[tuple[float, int], list[float]]
"""Accuracies by learning rate and seed, at one batch size."""


class Task:
    """A data set and its curves."""

    def __init__(self, name: str, inputs: pathlib.Path, kept: pathlib.Path) -> None:
        table, rows = TABLES[name]
        x, y = data.table(inputs / f"{table}.rda", table, "Class")
        chosen = np.random.default_rng(3).permutation(len(y))[:rows] if rows else np.arange(len(y))
        self.data = data.divide(x[chosen], np.unique(y[chosen], return_inverse=True)[1])
        self.own = data.parts(self.data.train_y, CLIENTS, "dirichlet", SPLIT_SEED)
        self.curves = {b: self._trained(kept / f"{name}-{b}.npy", b) for b in BATCHES}

    def _trained(self, path: pathlib.Path, batch: int) -> Curve:
        seeds = [*FIRST, *JUDGES]
        wanted = [net.Repetition(seed, rate) for rate in RATES for seed in seeds]
        if not path.exists():
            rounds = net.rounds(self.data, self.own, net.Local([batch] * CLIENTS), wanted)
            np.save(path, np.array([accuracies for _, (_, accuracies) in zip(range(MOST_ROUNDS), rounds)]).T)
        return {(r.rate, r.seed): list(c) for r, c in zip(wanted, np.load(path))}

    def target(self, rounds: int) -> float:
        """The highest accuracy, in steps of 0.25 %, that runs at the reference size reach within this mean number of
        rounds."""
        curve = self.curves[REFERENCE]
        seeds = {seed for _, seed in curve}
        return max(a for a in np.arange(0.2, 1, 0.0025) if rounds >= min(
            statistics.mean(first_round(curve[rate, s], a) for s in seeds) for rate in RATES))

    def rate(self, batch: int, pair: Sequence[int], target: float) -> float:
        """The learning rate that reaches the target soonest with both seeds, as in `curves`."""
        reached = {rate: [first_round(self.curves[batch][rate, s], target) for s in pair] for rate in RATES}
        end = int(min(MOST_ROUNDS, *map(max, reached.values())))
        last = {rate: statistics.mean(self.curves[batch][rate, s][end - 1] for s in pair) for rate in RATES}
        return min(RATES, key=lambda rate: (statistics.mean(reached[rate]), -last[rate]))


class Miss(NamedTuple):
    """Rounds of a training over those of a table, and the factor that its interval allows, up and down."""

    over: float
    factor: float


class Seen:
    """What the virtual clock asks about curves, for one target of each task and one pair of runs."""

    def __init__(self, tasks: Mapping[str, Task], rounds: int, pair: Sequence[int]) -> None:
        self.tasks, self.pair = tasks, pair
        self.targets = {t: task.target(rounds) for t, task in tasks.items()}
        self.rates = {(t, b): task.rate(b, pair, self.targets[t]) for t, task in tasks.items() for b in BATCHES}

    def _of(self, task: str, batch: int, seeds: Sequence[int]) -> list[list[float]]:
        return [self.tasks[task].curves[batch][self.rates[task, batch], s] for s in seeds]

    def rows(self, setting: Setting) -> list[int]:
        return [len(own) for own in self.tasks[setting.task].own]

    def rounds(self, setting: Setting, batches: Sequence[int]) -> list[float]:
        runs = self._of(setting.task, batches[0], JUDGES)
        return [min(NEVER, first_round(r, self.targets[setting.task])) for r in runs]

    def known(self, kind: str, spread: float = law.SPREAD) -> dict[str, dict]:
        """What the workload says of the tasks if rounds are counted in this way. The trainings after the first two keep
        the learning rate that these chose. `spread` is the prior of the intervals."""
        count, rounds = KINDS[kind]
        first = FIRST.index(self.pair[0])
        seeds = [FIRST[(first + k) % len(FIRST)] for k in range(count)]
        found = {}
        for t, target in self.targets.items():
            runs = {b: self._of(t, b, seeds) for b in BATCHES}
            factor = law.within(([first_round(r, target) for r in own] for own in runs.values()), spread)
            found[t] = law.learnt({b: rounds(own, target) for b, own in runs.items()}, REFERENCE, factor)
        return found

    def misses(self, task: str, spread: float) -> list[Miss]:
        """How the judges' trainings at each size compare with the table of two trainings."""
        known = self.known("two trainings", spread)[task]
        found = []
        for row in known["efficiency"]["table"]:
            planned, factor = known["rounds_to_target"] / row["progress"], row["interval"][1] / row["progress"]
            runs = self._of(task, row["batch"], JUDGES)
            found += [Miss(min(NEVER, first_round(r, self.targets[task])) / planned, factor) for r in runs]
        return found


def row(schemes: Schemes, seen: Seen) -> dict:
    """Time to target of the plan, and of each task's best size alone, over the best in hindsight."""
    judge, found = schemes.clock, []
    for name in (IN_TURNS, "100 % each", "NVIDIA's advice"):
        sizes = judge.search(lambda all_sizes, n=name: [
            e.score() for e in schemes.fixed(n, [judge.same(s) for s in all_sizes])])
        whole = [judge.same(sizes)]
        found += [schemes.fixed(name, whole)[0].score(), schemes.planned(whole)[0].score()]
    over, off = {}, {}
    for kind in KINDS:
        known = seen.known(kind)
        plan = schemes.by_progress(known)
        over[kind] = round(plan.ends.score() / min(found), 3)
        over[f"{kind}: each task's best size alone"] = round(schemes.single(known).ends.score() / min(found), 3)
        told = {t: kept_size(known[t], own[0])["rounds_to_target"] for t, own in plan.sizes.items()}
        off[kind] = [round(one[t] / told[t], 3) for one in judge.rounds(plan.sizes) for t in told]
    return {"over_hindsight": over, "rounds_over_planned": off}


def loaded(inputs: pathlib.Path, kept: pathlib.Path) -> dict[str, Task]:
    """The data sets, with their curves."""
    kept.mkdir(parents=True, exist_ok=True)
    return {name: Task(name, inputs, kept) for name in TABLES}


def played(mixes: Sequence[Sequence[str]], sets: Mapping[str, Task], kept: pathlib.Path,
           recorded: pathlib.Path) -> list[dict]:
    """The rows of the mixes."""
    own, _ = devices.clients(CLIENTS, recorded, HERE / "devices.csv", seed=CLIENTS)
    simulated, rows = pipe.Devices(kept / "devices"), []
    for mix in mixes:
        tasks = {t: sets[name] for t, name in zip(pipe.MODELS, mix)}
        # Lengths of rounds are kept by the repr of a mix, and those of other data differ: their names are its split.
        federation, plans = clock.Mix(tuple(tasks), "+".join(mix), own), {}
        for rounds in ROUNDS:
            for pair in PAIRS:
                seen = Seen(tasks, rounds, pair)
                schemes = Schemes(clock.Clock(federation, seen, simulated))
                schemes.plans = plans
                rows.append({"mix": "+".join(mix), "rounds": rounds, "seeds": list(pair), **row(schemes, seen)})
                print(rows[-1]["mix"], rounds, pair, rows[-1]["over_hindsight"], file=sys.stderr, flush=True)
    return rows


def held(misses: Sequence[Miss]) -> dict:
    """Percent of the trainings within their interval, below and above it, and the median factor; beside it the percent
    within this factor at every size, for which nobody needs to measure a spread."""
    def percent(hits: Iterable[bool]) -> float:
        return round(100 * statistics.mean(map(int, hits)), 1)

    middle = statistics.median(m.factor for m in misses)
    return {"within": percent(1 / m.factor <= m.over <= m.factor for m in misses),
            "below": percent(m.over < 1 / m.factor for m in misses),
            "above": percent(m.over > m.factor for m in misses), "factor": round(middle, 2),
            "within_constant": percent(1 / middle <= m.over <= middle for m in misses), "trainings": len(misses)}


SPREADS = tuple(k / 20 for k in range(4, 17))
"""Candidates of `law.SPREAD`."""


def intervals(sets: Mapping[str, Task]) -> dict:
    """How often the intervals of tables by two trainings hold, with the prior in use, and with the least prior that is
    enough for the other three data sets."""
    def of(names: Iterable[str], spread: float) -> list[Miss]:
        return [m for name in names for k in ROUNDS for pair in PAIRS
                for m in Seen({name: sets[name]}, k, pair).misses(name, spread)]

    out, chosen = [], {}
    for name in sets:
        others = [n for n in sets if n != name]
        spread = next(s for s in SPREADS if held(of(others, s))["within"] >= 95)
        own = of([name], spread)
        out += own
        chosen[name] = {"spread": spread, **held(own)}
    return {"in_use": {"spread": law.SPREAD, **held(of(sets, law.SPREAD))}, "left_out": {"all": held(out), **chosen}}


def summary(rows: Sequence[Mapping], sets: Mapping[str, Task]) -> dict:
    """Median and worst of each scheme over the rows and by the rounds of the target; and how many times the planned
    rounds a training takes at the planned sizes, in 95 of 100."""
    def of(some: Sequence[Mapping]) -> dict:
        lost = {name: [r["over_hindsight"][name] for r in some] for name in some[0]["over_hindsight"]}
        return {name: {"median": round(statistics.median(l), 3), "mean": round(statistics.mean(l), 3), "worst": max(l)}
                for name, l in lost.items()}

    off = {kind: [o for r in rows for o in r["rounds_over_planned"][kind]] for kind in KINDS}
    return {"command": "python -m federation.few", "tools": pipe.version(), "all": of(rows),
            "by_rounds": {str(k): of([r for r in rows if r["rounds"] == k]) for k in ROUNDS},
            "rounds_over_planned": {kind: {"low": round(float(np.quantile(o, 0.025)), 2), "median": round(
                statistics.median(o), 2), "high": round(float(np.quantile(o, 0.975)), 2)} for kind, o in off.items()},
            "intervals": intervals(sets),
            "rows": [{k: v for k, v in r.items() if k != "rounds_over_planned"} for r in rows]}


if __name__ == "__main__":
    inputs, kept, recorded = map(pathlib.Path, sys.argv[1:])
    sets = loaded(inputs, kept)
    told = summary(played(MIXES, sets, kept, recorded), sets)
    (HERE / "few.json").write_text(json.dumps(told, indent=1) + "\n")
