"""Solves exported allocation problems with numpy, SciPy and Optuna.

A problem: maximise sum_i P_i over batch sizes and share levels with a given sum, where
P_i = B_i / (step_i + sample_i B_i / R_i^p_i (1 + sum_j c_ij w_j)), w_j = R_j times the
part of its undisturbed step in which task j computes, every P_i is at least `floor`
times its solo rate, and the mismatch of batch sizes and data volumes is bounded. The peers see
constraints as penalties. `value` is the time of this project's solver (proven, or with the budget
of the benchmark spent), `baseline_value` that of the peer, `what` how much of our value each
reached. The front of mismatch against throughput is numpy over all points.
"""

import argparse
import itertools
import json
import time

import numpy as np
import optuna
from rows import row, show
from scipy import optimize

MOST_EXHAUSTIVE = 20_000_000


class Problem:
    def __init__(self, spec):
        self.spec = spec
        self.name = spec["name"]
        self.n = len(spec["step_s"])
        self.step_s = np.array(spec["step_s"])
        self.sample_s = np.array(spec["sample_s"])
        self.exponent = np.array(spec["exponent"])
        self.coupling = np.array(spec["coupling"]).reshape(self.n, self.n)
        self.batches = np.array(spec["batches"], dtype=float)
        self.data = np.array(spec["samples"], dtype=float)
        self.step = spec["step_percent"] / 100
        self.levels = int(100 // spec["step_percent"])
        self.total = round(spec["rv_percent"] / spec["step_percent"])
        self.busy = spec["busy"]
        self.floor = spec["floor"]
        self.mismatch = spec["mismatch"]

    def rates(self, batch, level):
        share = level * self.step
        work = self.sample_s * batch / share**self.exponent
        press = share * (work / (self.step_s + work)) if self.busy else share
        return batch / (self.step_s + work * (1 + press @ self.coupling.T))

    def score(self, pick, level):
        """Value of many points, with a penalty of twice the scale for each unit of violation."""
        batch = np.take_along_axis(self.batches[None], pick[:, :, None], axis=2)[:, :, 0]
        rates = self.rates(batch, level)
        value = rates.sum(axis=1)
        short = np.zeros(len(value))
        if self.floor:
            solo = batch / (self.step_s + self.sample_s * batch)
            short += np.maximum(0, self.floor - rates / solo - 1e-12).sum(axis=1)
        if self.mismatch is not None:
            gap = np.zeros(len(value))
            for a, b in itertools.combinations(range(self.n), 2):
                d = self.data[a] / self.data[b]
                q = batch[:, a] / batch[:, b]
                gap += np.abs(d - q) + np.abs(1 / d - 1 / q)
            short += np.maximum(0, gap - self.mismatch - 1e-9)
        return np.where(short > 0, -1e3 * (1 + short), value)

    def decode(self, x):
        """Rows of 2n numbers in [0, 1]: weights of the shares, then places in the batch lists."""
        weight = np.maximum(x[:, : self.n], 1e-9)
        spare, cap = self.total - self.n, self.levels - 1
        ideal = np.zeros_like(weight)
        free = np.ones_like(weight, dtype=bool)
        for _ in range(self.n):
            rest = spare - np.where(free, 0, ideal).sum(axis=1)
            part = np.where(free, weight, 0)
            part = part / np.maximum(part.sum(axis=1, keepdims=True), 1e-12) * rest[:, None]
            ideal = np.where(free, part, ideal)
            over = free & (ideal > cap)
            if not over.any():
                break
            ideal[over] = cap
            free &= ~over
        extra = np.floor(ideal + 1e-9)
        left = (spare - extra.sum(axis=1)).astype(int)
        order = np.argsort(-(ideal - extra) + 10 * (extra >= cap), axis=1)
        rank = np.argsort(order, axis=1)
        extra += (rank < left[:, None]) & (extra < cap)
        count = self.batches.shape[1]
        pick = np.minimum((x[:, self.n :] * count).astype(int), count - 1)
        return pick, extra + 1

    def value(self, x):
        return self.score(*self.decode(np.atleast_2d(x)))


def exhaustive(problem, _seconds):
    count = problem.batches.shape[1]
    ways = np.array([1.0])
    for _ in range(problem.n):
        ways = np.convolve(ways, [0.0] + [1.0] * problem.levels)
    if ways[problem.total] * count**problem.n > MOST_EXHAUSTIVE:
        return None
    every = itertools.product(range(1, problem.levels + 1), repeat=problem.n)
    levels = [c for c in every if sum(c) == problem.total]
    levels = np.array(levels, dtype=float)
    best = -np.inf
    for pick in itertools.product(range(count), repeat=problem.n):
        picks = np.broadcast_to(np.array(pick), levels.shape)
        best = max(best, problem.score(picks, levels).max())
    return best


def differential_evolution(problem, seconds):
    deadline = time.perf_counter() + seconds
    found = optimize.differential_evolution(
        lambda x: -problem.value(x.T),
        [(0, 1)] * (2 * problem.n),
        vectorized=True,
        updating="deferred",
        seed=1,
        maxiter=2000,
        polish=False,
        callback=lambda *_, **__: time.perf_counter() > deadline,
    )
    return -found.fun


class Late(Exception):
    """The time is over."""


def dual_annealing(problem, seconds):
    deadline = time.perf_counter() + seconds
    best = [-np.inf]

    def cost(x):
        # Its own callback is only called at new minima.
        if time.perf_counter() > deadline:
            raise Late
        value = problem.value(x)[0]
        best[0] = max(best[0], value)
        return -value

    try:
        optimize.dual_annealing(
            cost, [(0, 1)] * (2 * problem.n), seed=1, no_local_search=True, maxiter=1_000_000
        )
    except Late:
        pass
    return best[0]


def tpe(problem, seconds):
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def cost(trial):
        names = [f"x{i}" for i in range(2 * problem.n)]
        return problem.value(np.array([trial.suggest_float(k, 0, 1) for k in names]))[0]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(cost, timeout=seconds)
    return study.best_value


PEERS = {
    "numpy exhaustive": exhaustive,
    "SciPy differential evolution": differential_evolution,
    "SciPy dual annealing": dual_annealing,
    "Optuna TPE": tpe,
}


def mismatches(problem, batch):
    gap = 0.0
    for a, b in itertools.combinations(range(problem.n), 2):
        d = problem.data[a] / problem.data[b]
        q = batch[a] / batch[b]
        gap += abs(d - q) + abs(1 / d - 1 / q)
    return gap


def front(problem):
    """All points that no other beats in both mismatch and throughput."""
    count = problem.batches.shape[1]
    every = itertools.product(range(1, problem.levels + 1), repeat=problem.n)
    levels = np.array([c for c in every if sum(c) == problem.total], dtype=float)
    best = []
    for pick in itertools.product(range(count), repeat=problem.n):
        batch = problem.batches[np.arange(problem.n), pick]
        value = problem.rates(batch[None], levels).sum(axis=1).max()
        best.append((mismatches(problem, batch), value))
    found, top = [], -np.inf
    for gap, value in sorted(best, key=lambda p: (p[0], -p[1])):
        if value > top:
            found.append((gap, value))
            top = value
    return found


def solve_all(spec, seconds):
    problem, ours = Problem(spec), spec["ours"]
    if spec["front"]:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            found = front(problem)
            times.append((time.perf_counter() - started) * 1e3)
        yield row("peer_front_numpy", spec["front"]["ms"], "ms", "numpy", sorted(times)[2],
                  f"{spec['front']['points']} points on the front, numpy {len(found)}")
        return
    for peer, solve in PEERS.items():
        started = time.perf_counter()
        value = solve(problem, seconds)
        took = (time.perf_counter() - started) * 1e3
        if value is None:
            continue
        reached = "nothing feasible" if value < 0 else f"{value / ours['value']:.6f} of our value"
        proof = "proven" if ours["proven"] else "not proven"
        yield row(f"peer_{problem.name}_{peer.lower().replace(' ', '_')}", ours["proven_ms"], "ms",
                  peer, took, f"{reached}; ours is {proof}, "
                  f"{ours['local_value'] / ours['value']:.6f} of it in {ours['local_ms']:.3f} ms")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--only", nargs="*", help="names of problems")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("problems")
    arguments = arguments.parse_args()
    with open(arguments.problems, encoding="utf-8") as file:
        specs = json.load(file)
    if arguments.only:
        specs = [spec for spec in specs if spec["name"] in arguments.only]
    found = [r for spec in specs for r in solve_all(spec, arguments.seconds)]
    show(found, arguments.json)


if __name__ == "__main__":
    main()
