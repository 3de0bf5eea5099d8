"""The noise scale that fits trainings best, by the law that rounds (or samples) to a target are in proportion to phi
+ B; what a sample is worth if learning rates have a maximum; and what it is worth according to rounds alone."""
from __future__ import annotations

import math
import statistics
from typing import Callable, Iterable, Mapping, Sequence

import numpy as np

LEAST, MOST, TRIED = 1.0, 1e4, 400
"""Range of candidates. Beyond it, trainings cannot show that rounds are not independent of B, or in proportion to B."""

SPREAD, SPREAD_FREEDOM = 0.4, 4
"""Prior standard deviation of the logarithm of rounds to a target, and its degrees of freedom. With 0.2, as `mt-fit`
takes it for samples to a loss, the interval holds for 84 of 100 trainings of `few.py` only: targets of few rounds are
luck, and the trainings that chose the learning rate were lucky ones. With 0.4 it holds for 95; `few.json` has the
figures of a data set by what was chosen on the others."""

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


def within(repeats: Iterable[Sequence[float]], spread: float = SPREAD) -> float | None:
    """The factor, up and down, within which the rounds of one more training should stay in 95 of 100 cases. `repeats`
    are the rounds of the trainings at each size. Student's t on their logarithms: two trainings say nothing of their
    own spread, so it is pooled over the sizes, with a prior. Sizes that missed the target are left out; `None` if all
    did."""
    logs = [[math.log(n) for n in own] for own in repeats if max(own) < math.inf]
    if not logs:
        return None
    freedom = SPREAD_FREEDOM + sum(len(own) - 1 for own in logs)
    squares = sum((log - statistics.mean(own)) ** 2 for own in logs for log in own)
    variance = (squares + SPREAD_FREEDOM * spread ** 2) / freedom
    count = min(map(len, logs))
    return math.exp(_student(freedom) * math.sqrt(variance * (1 + 1 / count)))


def _student(freedom: int) -> float:
    """97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5, two terms): 2.73 for 4, where 2.78 is exact."""
    z = 1.96
    return z + (z ** 3 + z) / (4 * freedom) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2)


def learnt(rounds: Mapping[int, float], reference: int, factor: float | None = None) -> dict:
    """What a workload says of a task whose rounds to the target were seen at several batch sizes. Sizes that missed
    the target are left out. With a `factor`, each row has an interval: up and down by it.

    A larger batch needs no fewer rounds, so where counts say so, by their luck, they are levelled: the least-squares
    fit of their logarithms among non-decreasing ones (Robertson, Wright, Dykstra 1988, theorem 1.4.4)."""
    sizes = sorted(b for b, n in rounds.items() if n < math.inf)
    logs = [math.log(rounds[b]) for b in sizes]
    levels = {b: math.exp(max(min(statistics.mean(logs[j:k + 1]) for k in range(i, len(logs))) for j in range(i + 1)))
              for i, b in enumerate(sizes)}
    table = [{"batch": b, "progress": levels[reference] / n,
              **({"interval": [levels[reference] / n / factor, levels[reference] / n * factor]} if factor else {})}
             for b, n in levels.items()]
    return {"efficiency": {"table": table, "source": "learnt"}, "rounds_to_target": levels[reference],
            "batch": reference, "batch_sizes": sizes}


def bounded(known: Mapping, rate: float, most: Callable[[int], float], sizes: Sequence[int]) -> dict:
    """What a workload says of a task (`noise.known`) if its learning rates have a maximum: a table of the worth of a
    sample instead of the noise scale."""
    phi, reference = known["efficiency"]["noise_scale"], known["batch"]
    rows = [{"batch": b, "progress": worth(phi, b, reference, rate, most)} for b in sizes]
    return {**known, "efficiency": {"table": rows, "source": known["efficiency"]["source"]}}
