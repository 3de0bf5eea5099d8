"""The noise scale that fits trainings best, by the law that rounds (or samples) to a target are in proportion to phi
+ B; what a sample is worth if learning rates have a maximum; and what it is worth according to rounds alone."""
from __future__ import annotations

import math
import statistics
from typing import Callable, Mapping, Sequence

import numpy as np

LEAST, MOST, TRIED = 1.0, 1e4, 400
"""Range of candidates. Beyond it, trainings cannot show that rounds are not independent of B, or in proportion to B."""

DRAWS = 200
"""Bootstrap samples of the seeds for the interval."""


def phi_of(taken: Mapping[int, float]) -> float:
    """Least squares of the logarithms."""
    def misfit(phi: float) -> float:
        off = [math.log(n) - math.log(phi + b) for b, n in taken.items()]
        mean = sum(off) / len(off)
        return sum((o - mean) ** 2 for o in off)

    return min((LEAST * (MOST / LEAST) ** (k / (TRIED - 1)) for k in range(TRIED)), key=misfit)


def shown(taken: Mapping[int, Sequence[float]]) -> dict:
    """phi of the means over seeds, and its 95 % bootstrap interval over the seeds. `taken` are rounds or samples by
    batch size and seed; sizes that missed the target with some seed are left out."""
    whole = {b: list(n) for b, n in taken.items() if max(n) < math.inf}
    if len(whole) < 2:
        return {"phi": None, "low": None, "high": None, "sizes": sorted(whole)}
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(DRAWS):
        # Each size is resampled independently: its luck with a seed is independent of other sizes.
        drawn.append(phi_of({b: statistics.mean(rng.choice(n, len(n))) for b, n in whole.items()}))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"phi": phi_of({b: statistics.mean(n) for b, n in whole.items()}), "low": float(low), "high": float(high),
            "sizes": sorted(whole)}


def worth(phi: float, batch: int, reference: int, rate: float, most: Callable[[int], float]) -> float:
    """What a sample is worth at a batch size, relative to the reference size, if the learning rate is at most
    `most(batch)`; `rate` is the best one at the reference size.

    A step with learning rate e lowers the loss by e |G|^2 (1 - e / 2 e*), where e* is in proportion to 1/(1+phi/B)
    (McCandlish et al. 2018, equations 2.5 to 2.8). At e* for every size this gives the law, (phi+B0)/(phi+B). It
    holds as long as the learning rate grows with the batch. A size whose e* is beyond the maximum gains less: at the
    same rate, a step with twice the batch is worth less than twice as much, however large phi is."""
    def step(b: int) -> float:
        best = rate * (1 + phi / reference) / (1 + phi / b)
        taken = min(best, max(rate, most(b)))
        return taken * (1 - taken / best / 2)

    return step(batch) / batch / (step(reference) / reference)


def learnt(rounds: Mapping[int, float], reference: int) -> dict:
    """What a workload says of a task whose rounds to the target were seen at several batch sizes. Sizes that missed
    the target are left out.

    A larger batch needs no fewer rounds, so where counts say so, by their luck, they are levelled: the least-squares
    fit of their logarithms among non-decreasing ones (Robertson, Wright, Dykstra 1988, theorem 1.4.4)."""
    sizes = sorted(b for b, n in rounds.items() if n < math.inf)
    logs = [math.log(rounds[b]) for b in sizes]
    levels = {b: math.exp(max(min(statistics.mean(logs[j:k + 1]) for k in range(i, len(logs))) for j in range(i + 1)))
              for i, b in enumerate(sizes)}
    table = [{"batch": b, "progress": levels[reference] / n} for b, n in levels.items()]
    return {"efficiency": {"table": table, "source": "learnt"}, "rounds_to_target": levels[reference],
            "batch": reference, "batch_sizes": sizes}


def bounded(known: Mapping, rate: float, most: Callable[[int], float], sizes: Sequence[int]) -> dict:
    """What a workload says of a task (`noise.known`) if its learning rates have a maximum: a table of the worth of a
    sample instead of the noise scale."""
    phi, reference = known["efficiency"]["noise_scale"], known["batch"]
    rows = [{"batch": b, "progress": worth(phi, b, reference, rate, most)} for b in sizes]
    return {**known, "efficiency": {"table": rows, "source": known["efficiency"]["source"]}}
