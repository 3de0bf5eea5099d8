"""One training of each data set without a federation: no clients, no rounds, and momentum that never restarts. Its
noise scale distinguishes an error of the estimator from an effect of the rounds."""
from __future__ import annotations

import math
import statistics
from typing import Sequence

import numpy as np

from federation import law, net, noise
from federation.curves import BATCHES, RATES, SEEDS, TARGETS, TUNING_SEEDS
from federation.data import Data
from federation.noise import REFERENCE, SEED

MOST_EPOCHS = 40
LOOKS = 16
"""Number of evaluations on the test rows per epoch, so that targets reached within one or two epochs differ."""

STRETCHES = 10
"""Parts of a training, each with its own noise scale."""


def samples_to_target(data: Data, batch: int, repetitions: Sequence[net.Repetition], until: float,
                      first: bool = False) -> list[float]:
    """Samples until each repetition reaches the target; with `first`, only until one does."""
    rows = len(data.train_y)
    weights = net.initial(data.train_x.shape[1], data.classes, [r.seed for r in repetitions])
    speed = [np.zeros_like(w) for w in weights]
    rate = np.array([r.rate for r in repetitions], np.float32)[:, None, None]
    drawn = [np.random.default_rng([r.seed, 5]) for r in repetitions]
    taken, step, every = [math.inf] * len(repetitions), 0, max(1, rows // (LOOKS * batch))
    for _ in range(MOST_EPOCHS):
        order = np.stack([rng.permutation(rows) for rng in drawn])
        for begin in range(0, rows - batch + 1, batch):
            own = order[:, begin:begin + batch]
            slopes = net.gradient(weights, data.train_x[own], data.train_y[own],
                                  np.full(own.shape, 1 / batch, np.float32))
            for w, v, g in zip(weights, speed, slopes):
                v *= net.MOMENTUM
                v += g
                w -= rate * v
            step += 1
            if step % every == 0:
                right = net.accuracy(weights, data)
                taken = [min(t, step * batch) if a >= until else t for t, a in zip(taken, right)]
                if max(taken) < math.inf or (first and min(taken) < math.inf):
                    return taken
    return taken


def norms(data: Data, rate: float, samples: float) -> list[tuple[float, float]]:
    """S and |G|^2 of each step of a training at the reference size over this many samples, from half batches."""
    weights = [w[0] for w in net.initial(data.train_x.shape[1], data.classes, [SEED])]
    speed, rng, found = [np.zeros_like(w) for w in weights], np.random.default_rng(SEED), []
    for _ in range(math.ceil(samples / REFERENCE)):
        rows = rng.integers(0, len(data.train_y), REFERENCE)
        slope, spread, step = noise.halves(weights, data.train_x[rows], data.train_y[rows])
        found.append((spread, slope))
        speed = [net.MOMENTUM * v + g for v, g in zip(speed, step)]
        weights = [w - np.float32(rate) * v for w, v in zip(weights, speed)]
    return found


def over_time(steps: Sequence[tuple[float, float]]) -> float:
    """phi of a training whose noise scale changes. Stretch k with phi_k takes (phi_k + B) / (phi_k + B0) times as
    many samples at B as at B0. Summed over all stretches, this is the law of one phi, where phi + B0 is the harmonic
    mean of the phi_k + B0."""
    parts = [p.sum(axis=0) for p in np.array_split(np.array(steps), min(STRETCHES, len(steps)))]
    worth = [1 / (max(0.0, noise.ratio(*p)) + REFERENCE) for p in parts]
    return len(worth) / sum(worth) - REFERENCE if sum(worth) > 0 else math.inf


def row(task: str, data: Data) -> dict:
    """The figures of a data set: epochs to the target at each size, phi from them, and phi from norms, by the way of
    combining them and by learning rate."""
    taken, chosen = {}, {}
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in BATCHES:
            tried = [net.Repetition(seed, rate) for rate in RATES for seed in TUNING_SEEDS]
            reached = samples_to_target(data, batch, tried, TARGETS[task], first=True)
            chosen[batch] = tried[reached.index(min(reached))].rate
            own = [net.Repetition(seed, chosen[batch]) for seed in SEEDS]
            taken[batch] = samples_to_target(data, batch, own, TARGETS[task])
        rows, rate = len(data.train_y), chosen[REFERENCE]
        ended = [n for n in taken[REFERENCE] if n < math.inf]
        # A training that never ends shows no noise scale.
        steps = norms(data, rate, statistics.mean(ended)) if ended else [(0.0, 0.0)]
        by_rate = {}
        for other in RATES:
            first = samples_to_target(data, REFERENCE, [net.Repetition(SEED, other)], TARGETS[task])[0]
            if first < math.inf:
                by_rate[f"{other:g}"] = over_time(norms(data, other, first))
    summed, late = np.array(steps).sum(axis=0), np.array(steps[len(steps) // 2:]).sum(axis=0)
    return {"task": task, "epochs": {str(b): statistics.mean(n) / rows for b, n in taken.items()}, "rate": rate,
            "shown": law.shown(taken), "summed": noise.ratio(*summed), "later_half": noise.ratio(*late),
            "over_time": over_time(steps), "by_rate": by_rate}
