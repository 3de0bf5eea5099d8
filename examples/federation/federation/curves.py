"""Learning curves, computed once and kept: accuracy after every round, for a task, a split, a number of clients and
batch sizes. They do not depend on the speed of the devices."""
from __future__ import annotations

import hashlib
import math
import pathlib
import statistics
from typing import NamedTuple

from federation import data, net, noise
from federation.kept import remembered
from federation.noise import REFERENCE

BATCHES = (8, 16, 32, 64, 128, 256)
TARGETS = {"digits": 0.95, "letters": 0.87, "satellite": 0.875, "mnist": 0.92}
"""Accuracy on the test rows that ends a task: close to the best that the network reaches, so that a training takes
ten rounds or more and one round is a small part of the result."""

SEEDS = (1, 2, 3, 4, 5)
TUNING_SEEDS = (101, 102)
"""Seeds of the runs that choose learning rates; results use others."""

RATES = (0.01, 0.03, 0.1, 0.3)
"""The usual sweep of learning rates, the same at every batch size. With `scaled` they are multiplied by sqrt(B / 32)
(Malladi et al., 2022), so that large batches can have rates that few users would try with momentum 0.9."""

MOST_ROUNDS = 300
SPLIT_SEED = 7


class Setting(NamedTuple):
    """A task of a federation, without its devices."""

    task: str
    clients: int
    split: str

    def name(self) -> str:
        return f"{self.task}-{self.clients}-{self.split}"


def first_round(accuracies: list[float], target: float) -> float:
    """Number of the first round that ends at or above the target; infinite if there is none."""
    return next((k + 1.0 for k, a in enumerate(accuracies) if a >= target), math.inf)


def _told(batches: list[int]) -> str:
    """The batch sizes of clients as a part of a file's name."""
    if len(set(batches)) == 1:
        return str(batches[0])
    return hashlib.sha256(repr(list(batches)).encode()).hexdigest()[:16]


class Curves:
    """Curves of one folder of data, kept in another folder."""

    def __init__(self, inputs: pathlib.Path, kept: pathlib.Path, scaled: bool = False, width: int = net.HIDDEN,
                 epochs: int = 1) -> None:
        self.inputs, self.kept, self.scaled, self.width, self.epochs = inputs, kept, scaled, width, epochs
        self.loaded: dict[str, data.Data] = {}
        kept.mkdir(parents=True, exist_ok=True)

    def data(self, task: str) -> data.Data:
        if task not in self.loaded:
            self.loaded[task] = data.load(task, self.inputs)
        return self.loaded[task]

    def own(self, setting: Setting) -> list:
        """Rows of each client; they are the same for all seeds, so the length of a round is, too."""
        return data.parts(self.data(setting.task).train_y, setting.clients, setting.split, SPLIT_SEED)

    def rows(self, setting: Setting) -> list[int]:
        """D_ij: training rows of each client."""
        return self._remember(f"rows-{setting.name()}", lambda: [len(o) for o in self.own(setting)])

    def rate(self, setting: Setting, batches: list[int]) -> float:
        """The learning rate that reaches the target soonest at these batch sizes of the clients."""
        return self._remember(f"rate-{setting.name()}-{_told(batches)}", lambda: self._tuned(setting, batches))

    def curve(self, setting: Setting, batches: list[int], kept: list[float] | None = None) -> dict[str, list[float]]:
        """Accuracies by seed, until each seed has reached the target; `batches` are the batch sizes of the clients,
        and `kept` the parts of their rows that they train on."""
        key = _told(batches)
        if kept:
            key += "-" + hashlib.sha256(repr(kept).encode()).hexdigest()[:16]
        return self._remember(f"curve-{setting.name()}-{key}", lambda: self._curve(setting, batches, kept))

    def rounds(self, setting: Setting, batches: list[int], kept: list[float] | None = None) -> list[float]:
        """Rounds to the target of each seed."""
        return [first_round(c, TARGETS[setting.task]) for c in self.curve(setting, batches, kept).values()]

    def seen(self, setting: Setting, batch: int = REFERENCE) -> float:
        """Rounds to the target at a batch size in the runs that chose its learning rate. A user knows this before any
        plan is made."""
        def train() -> float:
            batches = [batch] * setting.clients
            rate = self.rate(setting, batches)
            curves = self._trained(setting, net.Local(batches, self.epochs),
                                   [net.Repetition(seed, rate) for seed in TUNING_SEEDS])
            return statistics.mean(first_round(c, TARGETS[setting.task]) for c in curves)

        return self._remember(f"seen-{setting.name()}-{batch}", train)

    def phi(self, setting: Setting) -> dict[str, float]:
        """The noise scale that workers measure in a first run at the reference size."""
        def measure() -> dict[str, float]:
            history = noise.first_run(self.data(setting.task), self.own(setting), REFERENCE,
                                      self.rate(setting, [REFERENCE] * setting.clients), self.width)
            return {k: float(v) for k, v in noise.combined(history, self.rows(setting))._asdict().items()}

        return self._remember(f"phi-{setting.name()}", measure)

    def _tuned(self, setting: Setting, batches: list[int]) -> float:
        mean = sum(n * b for n, b in zip(self.rows(setting), batches)) / sum(self.rows(setting))
        tried = [rate * (math.sqrt(mean / REFERENCE) if self.scaled else 1.0) for rate in RATES]
        repetitions = [net.Repetition(seed, rate) for rate in tried for seed in TUNING_SEEDS]
        curves: list[list[float]] = [[] for _ in repetitions]
        for number, (_, accuracies) in enumerate(
                net.rounds(self.data(setting.task), self.own(setting),
                           net.Local(batches, self.epochs), repetitions, self.width)):
            for c, a in zip(curves, accuracies):
                c.append(float(a))
            found = [statistics.mean(first_round(c, TARGETS[setting.task]) for c in curves[k:k + len(TUNING_SEEDS)])
                     for k in range(0, len(curves), len(TUNING_SEEDS))]
            if min(found) < math.inf or number + 1 == MOST_ROUNDS:
                break
        # If none reaches the target, take the most accurate one.
        last = [statistics.mean(c[-1] for c in curves[k:k + len(TUNING_SEEDS)])
                for k in range(0, len(curves), len(TUNING_SEEDS))]
        return min(zip(tried, found, last), key=lambda row: (row[1], -row[2]))[0]

    def _curve(self, setting: Setting, batches: list[int], kept: list[float] | None) -> dict[str, list[float]]:
        repetitions = [net.Repetition(seed, self.rate(setting, batches)) for seed in SEEDS]
        trained = self._trained(setting, net.Local(batches, self.epochs, kept), repetitions)
        return {str(seed): c for seed, c in zip(SEEDS, trained)}

    def _trained(self, setting: Setting, how: net.Local, repetitions: list[net.Repetition]) -> list[list[float]]:
        """Accuracies of each repetition, until all have reached the target."""
        curves: list[list[float]] = [[] for _ in repetitions]
        for number, (_, accuracies) in enumerate(
                net.rounds(self.data(setting.task), self.own(setting), how, repetitions, self.width)):
            for c, a in zip(curves, accuracies):
                c.append(round(float(a), 5))
            if all(max(c) >= TARGETS[setting.task] for c in curves) or number + 1 == MOST_ROUNDS:
                break
        return curves

    def _remember(self, name: str, compute):
        return remembered(self.kept / f"{name}.json", compute)
