"""Federated averaging of a network of one hidden layer, for many repetitions of a training at once.

Arrays have an axis for the clients and one for the repetitions (seeds, learning rates), so that one call of
numpy does a step of all. Clients may have batch sizes of their own.
"""
from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

from federation.data import Data

HIDDEN = 64
MOMENTUM = 0.9

Weights = list[np.ndarray]
"""W1 (..., inputs, hidden), b1 (..., 1, hidden), W2 (..., hidden, classes), b2 (..., 1, classes)."""


class Repetition(NamedTuple):
    """What sets one repetition of a training apart from another."""

    seed: int
    rate: float


def initial(inputs: int, classes: int, seeds: list[int]) -> Weights:
    """Weights of each seed, by the rule of He et al. (2015)."""
    drawn = []
    for seed in seeds:
        rng = np.random.default_rng(1000 + seed)
        drawn.append((rng.normal(0, np.sqrt(2 / inputs), (inputs, HIDDEN)),
                      rng.normal(0, np.sqrt(2 / HIDDEN), (HIDDEN, classes))))
    first, second = (np.stack(w).astype(np.float32) for w in zip(*drawn))
    zeros = [np.zeros((len(seeds), 1, n), np.float32) for n in (HIDDEN, classes)]
    return [first, zeros[0], second, zeros[1]]


def _logits(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ weights[0] + weights[1], 0)
    return hidden, hidden @ weights[2] + weights[3]


def residual(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Softmax probabilities less one for the label: the gradient of the cross entropy by the logits."""
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
    """Part of the test rows that each repetition labels right."""
    return np.array([(_logits([w[r] for w in weights], data.test_x)[1].argmax(-1) == data.test_y).mean()
                     for r in range(len(weights[0]))])


class Schedule:
    """Which rows of which client are in which step of a round; the clients with most steps come first."""

    def __init__(self, own: list[np.ndarray], batches: list[int], seeds: list[int], number: int) -> None:
        steps = [-(-len(rows) // b) for rows, b in zip(own, batches)]
        self.order = sorted(range(len(own)), key=lambda c: -steps[c])
        self.steps = [steps[c] for c in self.order]
        width = max(min(b, len(rows)) for rows, b in zip(own, batches))
        shape = (self.steps[0], len(own), len(seeds), width)
        self.rows, self.weight = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        for k, c in enumerate(self.order):
            for r, seed in enumerate(seeds):
                # A repetition with another learning rate, or another batch size, sees the rows in the same order.
                drawn = np.random.default_rng([seed, number, c]).permutation(own[c])
                for s in range(steps[c]):
                    batch = drawn[s * batches[c]:(s + 1) * batches[c]]
                    self.rows[s, k, r, :len(batch)] = batch
                    self.weight[s, k, r, :len(batch)] = 1 / len(batch)

    def active(self, step: int) -> int:
        """Clients that make this step."""
        return sum(s > step for s in self.steps)


def train(weights: Weights, data: Data, own: list[np.ndarray], batches: list[int],
          repetitions: list[Repetition], number: int) -> Weights:
    """One round, number `number`, of every repetition: each client trains from `weights` on all of its rows
    once, and Flower averages, weighted by the rows of the clients."""
    schedule = Schedule(own, batches, [r.seed for r in repetitions], number)
    local = [np.repeat(w[None], len(own), axis=0) for w in weights]
    speed = [np.zeros_like(w) for w in local]
    rate = np.array([r.rate for r in repetitions], np.float32)[None, :, None, None]
    for step in range(schedule.steps[0]):
        a = schedule.active(step)
        rows = schedule.rows[step, :a]
        part = [w[:a] for w in local]
        slopes = gradient(part, data.train_x[rows], data.train_y[rows], schedule.weight[step, :a])
        for w, v, g in zip(part, speed, slopes):
            v[:a] *= MOMENTUM
            v[:a] += g
            w -= rate * v[:a]
    return average([[w[k] for w in local] for k in range(len(own))], [len(own[c]) for c in schedule.order])


def average(parts: list[Weights], rows: list[int]) -> Weights:
    """Flower's federated average: client j of task i weighs D_ij over the sum of the D_ij of all clients."""
    replies = [RecordDict({"arrays": ArrayRecord(part), "metrics": MetricRecord({"num-examples": n})})
               for part, n in zip(parts, rows)]
    return [w.astype(np.float32) for w in aggregate_arrayrecords(replies, "num-examples").to_numpy_ndarrays()]


def rounds(data: Data, own: list[np.ndarray], batches: list[int],
           repetitions: list[Repetition]) -> Iterator[tuple[Weights, np.ndarray]]:
    """Weights and test accuracies after round 1, 2, ..., without end."""
    weights = initial(data.train_x.shape[1], data.classes, [r.seed for r in repetitions])
    number = 0
    while True:
        # A rate that is too large diverges; its accuracy then is that of a guess, which is all that is asked.
        with np.errstate(over="ignore", invalid="ignore"):
            weights = train(weights, data, own, batches, repetitions, number)
            yield weights, accuracy(weights, data)
        number += 1
