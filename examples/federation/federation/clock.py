"""The virtual clock: the sum of the lengths of the rounds until each task reaches its target. In each round those
tasks train that have not reached theirs. A round ends with its slowest client."""
from __future__ import annotations

import hashlib
import json
import math
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

from federation.curves import BATCHES, SEEDS, Curves, Setting
from federation.devices import Client
from federation.kept import written
from federation.pipe import SAMPLES, Devices, Round, Task

Sizes = Mapping[Task, tuple[int, ...]]
"""Batch size of each task at each client."""

Gives = Mapping[Task, tuple[int, float]]
"""Batch size and share in percent of each task at one client."""

Stage = tuple[frozenset[Task], Sizes]
"""The tasks that still train, and the batch sizes of all."""

Shares = Callable[[Sequence[Stage]], list[list[Gives]]]
"""A scheme: what each client gives to the tasks of each stage."""


def finishing(rounds: Mapping[Task, float], length: Callable[[frozenset[Task]], float]) -> dict[Task, float]:
    """Seconds until each task reaches its target. A task leaves when it has, which shortens later rounds."""
    now, done, ends = 0.0, 0.0, {}
    for task in sorted(rounds, key=lambda t: rounds[t]):
        if math.isinf(rounds[task]):
            ends[task] = math.inf
            continue
        if rounds[task] > done:
            active = frozenset(t for t in rounds if rounds[t] > done)
            now += (rounds[task] - done) * length(active)
            done = rounds[task]
        ends[task] = now
    return ends


def stages(rounds: Mapping[Task, float]) -> list[frozenset[Task]]:
    """The sets of tasks that train together until all have ended."""
    seen: list[frozenset[Task]] = []

    def note(active: frozenset[Task]) -> float:
        seen.append(active)
        return 1.0

    finishing(rounds, note)
    return seen


class Mix(NamedTuple):
    """Tasks that a federation trains together, its split and its devices."""

    tasks: tuple[Task, ...]
    split: str
    clients: list[Client]

    def setting(self, task: Task) -> Setting:
        return Setting(task, len(self.clients), self.split)


class Ends(NamedTuple):
    """Seconds to the target of each task, by seed."""

    by_seed: list[dict[Task, float]]

    def last(self) -> list[float]:
        """Until all tasks have reached their targets, by seed."""
        return [max(ends.values()) for ends in self.by_seed]

    def score(self) -> float:
        """Mean over the seeds of the time until all tasks have reached their targets."""
        return sum(self.last()) / len(self.by_seed)

    def mean(self) -> float:
        """Mean over seeds and tasks of the time to target."""
        return sum(sum(e.values()) / len(e) for e in self.by_seed) / len(self.by_seed)


class Clock:
    """Judges schemes on a mix."""

    def __init__(self, mix: Mix, curves: Curves, devices: Devices) -> None:
        self.mix, self.curves, self.devices = mix, curves, devices
        self.path = devices.kept / f"lengths-{hashlib.sha256(repr(mix).encode()).hexdigest()[:16]}.json"
        self.kept: dict[str, float] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def rows(self, client: int, tasks: Iterable[Task]) -> dict[Task, float]:
        """Samples of a client's round on the device: in proportion to D_ij, `SAMPLES` for the mean client."""
        out = {}
        for task in tasks:
            own = self.curves.rows(self.mix.setting(task))
            out[task] = SAMPLES * own[client] * len(own) / sum(own)
        return out

    def same(self, sizes: Mapping[Task, int]) -> Sizes:
        return {t: (sizes[t],) * len(self.mix.clients) for t in self.mix.tasks}

    def rounds(self, sizes: Sizes) -> list[dict[Task, float]]:
        """Rounds to the target of each task, by seed."""
        by_task = {t: self.curves.rounds(self.mix.setting(t), list(sizes[t])) for t in self.mix.tasks}
        return [{t: by_task[t][k] for t in self.mix.tasks} for k in range(len(SEEDS))]

    def lengths(self, name: str, shares: Shares, wanted: Iterable[Stage],
                in_turns: bool = False) -> dict[str, float]:
        """Seconds of a round in which these tasks train with these sizes; one call of the tools for all."""
        new = {key: stage for stage in wanted if (key := self.key(name, *stage)) not in self.kept}
        rounds = [[Round(c, g, self.rows(k, active)) for k, (c, g) in enumerate(zip(self.mix.clients, gives))]
                  for (active, _), gives in zip(new.values(), shares(list(new.values())))]
        seconds = iter(self.devices.lengths([r for stage in rounds for r in stage], in_turns))
        for key, stage in zip(new, rounds):
            self.kept[key] = max(next(seconds) for _ in stage)
        if new:
            written(self.path, self.kept)
        return self.kept

    def key(self, name: str, active: frozenset[Task], sizes: Sizes) -> str:
        return f"{name}: " + " ".join(f"{t}={_told(sizes[t])}" for t in self.mix.tasks if t in active)

    def judge(self, name: str, shares: Shares, candidates: Sequence[Sizes], in_turns: bool = False) -> list[Ends]:
        """Seconds to the targets under a scheme, for several choices of batch sizes."""
        rounds = [self.rounds(sizes) for sizes in candidates]
        kept = self.lengths(name, shares, ((active, sizes) for sizes, seeds in zip(candidates, rounds)
                                           for seed in seeds for active in stages(seed)), in_turns)
        return [Ends([finishing(seed, lambda a, s=sizes: kept[self.key(name, a, s)]) for seed in seeds])
                for sizes, seeds in zip(candidates, rounds)]

    def points(self, name: str, sizes: Sizes) -> dict[Task, list[tuple[float, float]]]:
        """Seconds and accuracy after each round of the first seed, up to each task's target, with the lengths of
        rounds by which this scheme was judged."""
        curves = {t: self.curves.curve(self.mix.setting(t), list(sizes[t]))[str(SEEDS[0])] for t in self.mix.tasks}
        rounds = self.rounds(sizes)[0]
        now, found = 0.0, {t: [(0.0, 0.0)] for t in self.mix.tasks}
        for k in range(max(len(c) for c in curves.values())):
            active = frozenset(t for t in self.mix.tasks if k < min(rounds[t], len(curves[t])))
            length = self.kept.get(self.key(name, active, sizes))
            # Rounds of tasks that never reach their targets have no length.
            if length is None:
                break
            now += length
            for t in active:
                found[t].append((now, curves[t][k]))
        return found

    def search(self, score: Callable[[list[Mapping[Task, int]]], list[float]]) -> Mapping[Task, int]:
        """The batch sizes with the lowest score: starting from the best size that all tasks share, change one task's
        size after another until nothing improves."""
        starts = [{t: b for t in self.mix.tasks} for b in BATCHES]
        value, at = min(zip(score(starts), range(len(starts))))
        sizes = starts[at]
        while True:
            near = [{**sizes, t: b} for t in self.mix.tasks for b in BATCHES if b != sizes[t]]
            least, at = min(zip(score(near), range(len(near))))
            if least >= value:
                return sizes
            value, sizes = least, near[at]


def _told(own: Sequence[int]) -> str:
    return ",".join(map(str, own if len(set(own)) > 1 else own[:1]))
