"""When several federations end that share processors, and the order of them that ends soonest.

The rest is played for each order of the federations, and with more workers for each of them. The choice has the least

    weighted mean of the times to the end + time to the last end
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace
from typing import List, Sequence, Tuple

#: Federations whose orders are all compared. Of more, the one with the least work for its weight is first.
ALL_ORDERS = 3
#: Clients that are played for one order, of which there are some dozens at each choice: a play of 500 takes about 1 ms.
#: Of longer federations the same part of each is played.
PLAYED = 500
#: Another worker is started if the sum falls by at least this part, its start included. With 2 %, two that pay together
#: are not started.
LEAST_GAIN = 0.005
#: An order stays unless another is better by this part: work that was done ahead for one is wasted by the next change.
KEEP = 0.02


@dataclass(frozen=True)
class Work:
    """What is left of a federation: clients of this phase, then `phases` of `clients` each, `gap` seconds apart."""

    weight: float
    #: Processors that a client keeps busy, and its seconds.
    need: float
    seconds: float
    left: int
    phases: float
    clients: float
    gap: float
    #: Workers, of which so many `fresh` ones are not started yet, and the seconds that a start takes.
    workers: int
    start: float
    fresh: int = 0

    def all(self) -> float:
        """Processor seconds."""
        return self.need * self.seconds * (self.left + self.phases * self.clients)


def ends(works: Sequence[Work], order: Sequence[int], processors: float) -> List[float]:
    """Seconds to the end of each, if the earlier in `order` always starts first."""
    total = sum(work.left + work.phases * work.clients for work in works)
    part = min(1.0, PLAYED / max(total, 1))
    left = [work.left if part == 1 else 0 for work in works]
    phases = [max(0 if part == 1 else 1, round(work.phases * part)) for work in works]
    fresh = [work.fresh for work in works]
    running, end, busy, now = [0] * len(works), [0.0] * len(works), 0.0, 0.0
    # A client ends, and what it kept busy is free; or, with nothing, a phase begins after its gap.
    events: List[Tuple[float, int, float]] = [(0.0, number, 0.0) for number in range(len(works)) if not left[number]]
    while True:
        for number in order:
            work = works[number]
            while left[number] and running[number] < work.workers:
                cold = running[number] >= work.workers - fresh[number]
                # A start computes, also where clients mostly wait.
                need = max(work.need, min(1.0, processors)) if cold else work.need
                if busy and busy + need > processors + 1e-9:
                    break
                heapq.heappush(events, (now + (work.start if cold else 0.0) + work.seconds, number, need))
                fresh[number] -= cold
                busy, running[number], left[number] = busy + need, running[number] + 1, left[number] - 1
        if not events:
            return [seconds / part for seconds in end]
        now, number, need = heapq.heappop(events)
        work = works[number]
        if need:
            busy, running[number] = max(0.0, busy - need), running[number] - 1
            if left[number] or running[number]:
                continue
            end[number] = now
            if phases[number]:
                heapq.heappush(events, (now + work.gap, number, 0.0))
        elif phases[number]:
            phases[number], left[number] = phases[number] - 1, max(1, round(work.clients))


@dataclass
class Choice:
    """An order, the workers that are worth a start, and the seconds to each end that are predicted."""

    order: List[int]
    new: List[int]
    ends: List[float]
    cost: float


def choose(works: Sequence[Work], processors: float, before: Sequence[int] = ()) -> Choice:
    """The order, and the new workers one by one, that are predicted to end soonest. The order `before` stays if another
    gains little."""
    numbers = range(len(works))
    by_size = sorted(numbers, key=lambda number: works[number].all() / works[number].weight)
    orders = list(itertools.permutations(by_size)) if len(works) <= ALL_ORDERS else [tuple(by_size)]
    weights = sum(work.weight for work in works)

    def best(works: Sequence[Work], orders: Sequence[Sequence[int]], new: List[int]) -> Choice:
        found = []
        for order in orders:
            seconds = ends(works, order, processors)
            cost = max(seconds) + sum(work.weight * end for work, end in zip(works, seconds)) / weights
            found.append(Choice(list(order), new, seconds, cost * (1 - KEEP) if list(order) == list(before) else cost))
        return min(found, key=lambda choice: choice.cost)

    choice = best(works, orders, [])
    while True:
        tried = []
        for number in numbers:
            work = works[number]
            if work.workers * work.need + 1e-9 < processors:
                more = [*works]
                more[number] = replace(work, workers=work.workers + 1, fresh=work.fresh + 1)
                tried.append((best(more, [choice.order, by_size], choice.new + [number]), more))
        if not tried:
            return choice
        better, more = min(tried, key=lambda pair: pair[0].cost)
        if better.cost >= choice.cost * (1 - LEAST_GAIN):
            return choice
        choice, works = best(more, orders, better.new), more
