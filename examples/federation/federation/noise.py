"""The gradient noise scale phi of a task, from a short run at the reference batch size: what a user can know before
any comparison.

Every worker reports the squared norms of the gradients of its two half batches and of the whole batch; this needs no
second backward pass. With b = B / 2 (McCandlish et al., 2018, appendix A):

    |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)     S = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)     phi = S / |G|^2

S and |G|^2 are averaged over steps before the ratio is taken, because the ratio of one step is biased.
"""
from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np

from federation import net
from federation.data import Data

REFERENCE = 32
"""The batch size that a user starts with: a usual default."""

ROUNDS = 3
"""Rounds of the first run."""

SEED = 201
"""Seed of the first run; neither results nor tuning use it."""


FIRST_STEPS = 4
"""Steps at the beginning of a round whose gradients the server compares between clients. Later, the clients' weights
have drifted apart, and this difference is not noise of the federation's gradient."""


class Norms(NamedTuple):
    """What a client's worker reports of a round: means over its steps."""

    slope: float
    """|G|^2 of the client's own loss."""
    spread: float
    """S, the sum of the variances of the gradient of one sample."""
    early_slope: float
    """|G|^2 in the first steps."""
    early_spread: float
    """S in the first steps."""
    early: list[np.ndarray]
    """The mean gradient of the first steps."""


class Noise(NamedTuple):
    """phi in samples, by the way in which the clients were combined."""

    alone: float
    """Each client with its own loss."""
    pooled: float
    """With the federation's loss, where differences between clients are noise, too. Plans by noise scale use it."""


def halves(weights: net.Weights, x: np.ndarray, y: np.ndarray) -> tuple[float, float, net.Weights]:
    """|G|^2 and S, estimated from one step, and the gradient of the batch; `x` has an even number of rows."""
    half = len(y) // 2
    w = np.full(half, 1 / half, np.float32)
    parts = [net.gradient(weights, x[k:k + half], y[k:k + half], w) for k in (0, half)]
    whole = [(a + b) / 2 for a, b in zip(*parts)]
    small = sum(_square(p) for p in parts) / 2
    return estimates(small, half, _square(whole), 2 * half) + (whole,)


def estimates(small: float, b: int, large: float, batch: int) -> tuple[float, float]:
    """|G|^2 and S from the squared norms at b and at `batch` samples; a single step may give values below 0."""
    return (batch * large - b * small) / (batch - b), (small - large) / (1 / b - 1 / batch)


def _square(gradient: net.Weights) -> float:
    return float(sum((g.astype(float) ** 2).sum() for g in gradient))


def watch(weights: net.Weights, data: Data, own: np.ndarray, batch: int, rate: float,
          rng: np.random.Generator) -> tuple[net.Weights, Norms]:
    """A client's round at this batch size, and the norms that its worker measured. Incomplete batches are trained on
    but not counted."""
    local, speed = [w.copy() for w in weights], [np.zeros_like(w) for w in weights]
    order, seen, steps = rng.permutation(own), [], []
    batch = min(batch, len(own) // 2 * 2)
    for begin in range(0, len(order), batch):
        rows = order[begin:begin + batch]
        if len(rows) == batch:
            slope, spread, step = halves(local, data.train_x[rows], data.train_y[rows])
            seen.append((slope, spread))
            steps.append(step)
        else:
            w = np.full(len(rows), 1 / len(rows), np.float32)
            step = net.gradient(local, data.train_x[rows], data.train_y[rows], w)
        speed = [net.MOMENTUM * v + g for v, g in zip(speed, step)]
        local = [w - rate * v for w, v in zip(local, speed)]
    early = [np.mean(layer, axis=0) for layer in zip(*steps[:FIRST_STEPS])]
    return local, Norms(*np.mean(seen, axis=0), *np.mean(seen[:FIRST_STEPS], axis=0), early)


def first_run(data: Data, own: list[np.ndarray], batch: int, rate: float,
              width: int = net.HIDDEN) -> list[list[Norms]]:
    """The norms that each client saw in each round."""
    weights = [w[0] for w in net.initial(data.train_x.shape[1], data.classes, [SEED], width)]
    rng = np.random.default_rng(SEED)
    history = []
    for _ in range(ROUNDS):
        trained = [watch(weights, data, rows, batch, rate, rng) for rows in own]
        weights = net.average([w for w, _ in trained], [len(rows) for rows in own])
        history.append([n for _, n in trained])
    return history


def combined(history: list[list[Norms]], rows: list[int]) -> Noise:
    """phi from the norms of some rounds; `rows` are the D_ij, the weights of the clients.

    For the federation, the variance of a sample's gradient is the variance within a client, S, plus that between
    clients, the sum of w_j |G_j|^2 minus |G|^2. |G|^2 is estimated from products of different clients' gradients, so
    their noise adds no bias."""
    weights = np.array(rows) / sum(rows)
    own = [sum(w * np.array(n[:4]) for w, n in zip(weights, seen)) for seen in history]
    common = sum(_product_of_others([n.early for n in seen], weights) for seen in history)
    slope, spread, early_slope, early_spread = sum(own)
    return Noise(ratio(spread, slope), ratio(early_spread + early_slope - common, common))


def _product_of_others(gradients: list[net.Weights], weights: np.ndarray) -> float:
    """Weighted mean of g_j . g_k over pairs of different clients."""
    mean = [sum(w * g[k] for w, g in zip(weights, gradients)) for k in range(len(gradients[0]))]
    same = sum(w * w * _square(g) for w, g in zip(weights, gradients))
    return (_square(mean) - same) / (1 - float((weights ** 2).sum()))


def ratio(spread: float, slope: float) -> float:
    """phi; infinite if the estimate of |G|^2 is not above 0, so that everything is noise."""
    return spread / slope if slope > 0 else float("inf")


def leaves_steps(batch: int, reference: int, rows: list[int], kept: float = net.MOMENTUM) -> bool:
    """Whether clients make enough steps per round for the law to hold: ln 2 / -ln kept, 6.6. After this many steps
    momentum is half built up; every round begins without it. With fewer, no learning rate of the sweep makes up
    for it. Only sizes above the reference are checked, for the client that an average row belongs to, because
    averages weight clients by their rows. (Bounds of 4 to 15 steps were tried; results from 4 to 10 differ by 1 %
    on average.)"""
    mean = sum(n * n for n in rows) / sum(rows)
    return batch <= reference or mean / batch >= math.log(2) / -math.log(kept)


def known(phi: float, rounds: float, sizes: Sequence[int], rows: list[int], limited: bool = True) -> dict:
    """What a workload says of a task with a measured noise scale and this many rounds at the reference size;
    `limited` to the sizes that leave enough steps."""
    return {"efficiency": {"noise_scale": phi, "source": "measured"}, "rounds_to_target": rounds, "batch": REFERENCE,
            "batch_sizes": [b for b in sizes if not limited or leaves_steps(b, REFERENCE, rows)]}
