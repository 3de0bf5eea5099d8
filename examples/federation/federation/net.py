"""Federated averaging of a network with one hidden layer, for many repetitions of a training at once.

Arrays have an axis for the clients and one for the repetitions (seeds, learning rates), so that one call of numpy
makes a step of all. Clients may have different batch sizes.
"""
from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np

from federation.data import Data

HIDDEN = 64
MOMENTUM = 0.9

Weights = list[np.ndarray]
"""W1 (..., inputs, hidden), b1 (..., 1, hidden), W2 (..., hidden, classes), b2 (..., 1, classes)."""


class Local(NamedTuple):
    """How each client trains in a round."""

    batches: list[int]
    """Batch size of each client."""
    epochs: int = 1
    """How many times a client uses its rows."""
    kept: list[float] | None = None
    """Part of its rows that a client trains on, drawn again for every round; if absent, all."""


class Repetition(NamedTuple):
    """What distinguishes one repetition of a training from another."""

    seed: int
    rate: float


def initial(inputs: int, classes: int, seeds: list[int], width: int = HIDDEN) -> Weights:
    """Weights of each seed, by the rule of He et al. (2015)."""
    drawn = []
    for seed in seeds:
        rng = np.random.default_rng(1000 + seed)
        drawn.append((rng.normal(0, np.sqrt(2 / inputs), (inputs, width)),
                      rng.normal(0, np.sqrt(2 / width), (width, classes))))
    first, second = (np.stack(w).astype(np.float32) for w in zip(*drawn))
    zeros = [np.zeros((len(seeds), 1, n), np.float32) for n in (width, classes)]
    return [first, zeros[0], second, zeros[1]]


def _logits(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ weights[0] + weights[1], 0)
    return hidden, hidden @ weights[2] + weights[3]


def residual(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Softmax probabilities minus one at the label: the gradient of the cross entropy with respect to the logits."""
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    np.put_along_axis(p, y[..., None], np.take_along_axis(p, y[..., None], -1) - 1, -1)
    return p


def gradient(weights: Weights, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> Weights:
    """Gradient of the sum over rows of `w` times the cross entropy."""
    hidden, logits = _logits(weights, x)
    d = residual(logits, y) * w[..., None]
    back = (d @ weights[2].swapaxes(-1, -2)) * (hidden > 0)
    return [x.swapaxes(-1, -2) @ back, back.sum(axis=-2, keepdims=True),
            hidden.swapaxes(-1, -2) @ d, d.sum(axis=-2, keepdims=True)]


def accuracy(weights: Weights, data: Data) -> np.ndarray:
    """Part of the test rows that each repetition classifies correctly."""
    return np.array([(_logits([w[r] for w in weights], data.test_x)[1].argmax(-1) == data.test_y).mean()
                     for r in range(len(weights[0]))])


def order(own: np.ndarray, local: Local, client: int, seed: int, number: int) -> np.ndarray:
    """The order of a client's rows in round `number`. It is the same for every learning rate and batch size."""
    rng = np.random.default_rng([seed, number, client])
    rows = np.concatenate([rng.permutation(own) for _ in range(local.epochs)])
    return rows if local.kept is None else rows[:max(1, round(local.kept[client] * len(rows)))]


class Schedule:
    """Which rows of which client are in which step of a round; clients with the most steps come first."""

    def __init__(self, own: list[np.ndarray], local: Local, seeds: list[int], number: int) -> None:
        drawn = [[order(rows, local, c, seed, number) for seed in seeds] for c, rows in enumerate(own)]
        self.rows_of = [len(rows[0]) for rows in drawn]
        steps = [-(-n // b) for n, b in zip(self.rows_of, local.batches)]
        self.order = sorted(range(len(own)), key=lambda c: -steps[c])
        self.steps = [steps[c] for c in self.order]
        self.width = [min(local.batches[c], self.rows_of[c]) for c in self.order]
        shape = (self.steps[0], len(own), len(seeds), max(self.width))
        self.rows, self.weight = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        for k, c in enumerate(self.order):
            for r, rows in enumerate(drawn[c]):
                for s in range(steps[c]):
                    batch = rows[s * local.batches[c]:(s + 1) * local.batches[c]]
                    self.rows[s, k, r, :len(batch)] = batch
                    self.weight[s, k, r, :len(batch)] = 1 / len(batch)

    def step(self, number: int) -> tuple[int, np.ndarray, np.ndarray]:
        """The clients that make this step, with the rows and weights of their batches."""
        active = sum(s > number for s in self.steps)
        # Clients with large batches end first; without this, the others would be computed with mostly empty batches.
        width = max(self.width[:active])
        return active, self.rows[number, :active, :, :width], self.weight[number, :active, :, :width]


def train(weights: Weights, data: Data, own: list[np.ndarray], how: Local,
          repetitions: list[Repetition], number: int) -> Weights:
    """One round, number `number`, of every repetition: each client trains on its rows from `weights`, and Flower
    averages the results, weighted by the numbers of rows."""
    schedule = Schedule(own, how, [r.seed for r in repetitions], number)
    local = [np.repeat(w[None], len(own), axis=0) for w in weights]
    speed = [np.zeros_like(w) for w in local]
    rate = np.array([r.rate for r in repetitions], np.float32)[None, :, None, None]
    for step in range(schedule.steps[0]):
        a, rows, weight = schedule.step(step)
        part = [w[:a] for w in local]
        slopes = gradient(part, data.train_x[rows], data.train_y[rows], weight)
        for w, v, g in zip(part, speed, slopes):
            v[:a] *= MOMENTUM
            v[:a] += g
            w -= rate * v[:a]
    return average([[w[k] for w in local] for k in range(len(own))], [schedule.rows_of[c] for c in schedule.order])


def steps(weights: Weights, data: Data, rows: np.ndarray, batch: int, rate: float) -> Iterator[Weights]:
    """The weights of one client after each step over `rows`: what a worker computes, and what `train` computes for
    all clients and repetitions at once."""
    local, speed = [w.copy() for w in weights], [np.zeros_like(w) for w in weights]
    for begin in range(0, len(rows), batch):
        own = rows[begin:begin + batch]
        slopes = gradient(local, data.train_x[own], data.train_y[own], np.full(len(own), 1 / len(own), np.float32))
        for w, v, g in zip(local, speed, slopes):
            v *= MOMENTUM
            v += g
            w -= np.float32(rate) * v
        yield local


def average(parts: list[Weights], rows: list[int]) -> Weights:
    """Flower's federated average: client j of task i has the weight D_ij over the sum of D_ij of all clients."""
    # Imported here, because everything else, tests included, works without Flower.
    from flwr.app import ArrayRecord, MetricRecord, RecordDict
    from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

    replies = [RecordDict({"arrays": ArrayRecord(part), "metrics": MetricRecord({"num-examples": n})})
               for part, n in zip(parts, rows)]
    return [w.astype(np.float32) for w in aggregate_arrayrecords(replies, "num-examples").to_numpy_ndarrays()]


def rounds(data: Data, own: list[np.ndarray], how: Local, repetitions: list[Repetition],
           width: int = HIDDEN) -> Iterator[tuple[Weights, np.ndarray]]:
    """Weights and test accuracies after round 1, 2, ..., without end."""
    weights = initial(data.train_x.shape[1], data.classes, [r.seed for r in repetitions], width)
    number = 0
    while True:
        # A rate that is too large diverges. Its accuracy is then that of guessing, which is sufficient here.
        with np.errstate(over="ignore", invalid="ignore"):
            weights = train(weights, data, own, how, repetitions, number)
            yield weights, accuracy(weights, data)
        number += 1
