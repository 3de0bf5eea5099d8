"""Who of several federations trains its next client, on processors and memory that they share.

No process is touched here: `together` (and tests) tell what they see. Each federation is known by its first clients that
train: seconds, processors and memory of a client, clients of a round, and what the server takes between rounds. Whenever a
round begins, `forecast` chooses an order. A federation that is first in it starts its clients before the others, which
fill what it leaves.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Set

from .forecast import Work, choose
from .sizing import LEAST_START_S, RESERVE, Sizer

#: Part of the memory that the first client of a federation is expected to take until it is done, or has not grown for a
#: while. Should it take more, it is trained again.
UNKNOWN = 0.25
#: Beside clients that take less, one more is started than there are processors: until the next one has what it needs from
#: its server, a processor would wait for a good part of such a client. Of longer ones it would only slow down the first.
SHORT_S = 1.0
#: Weight of what was seen before, so that a change of the clients counts soon.
OLD = 0.8
#: Seconds that a request waits at most; then it is asked again, so that one whose program has ended does not remain.
LONGEST_WAIT_S = 1.0


@dataclass
class Federation:
    """What was seen of a federation."""

    sizer: Sizer
    weight: float
    #: Rounds in all, once its strategy has said so.
    rounds: Optional[int] = None
    groups: Set[str] = field(default_factory=set)
    #: Messages to clients that were sent together are a phase: training, or evaluation.
    phases: int = 0
    phases_before: int = 0
    sent: int = 0
    left: int = 0
    #: Seconds of a client, if no other process took a processor from it.
    seconds: float = 0.0
    #: Workers that have trained, and when they last began.
    warm: Dict[int, float] = field(default_factory=dict)
    gap: float = 0.0
    phase_end: Optional[float] = None
    asks: bool = False
    bytes: Dict[int, int] = field(default_factory=dict)
    idle: List[int] = field(default_factory=list)
    workers: int = 0
    #: Number of the newest worker.
    last: int = 0
    shed: int = 0

    def new_worker(self) -> int:
        self.workers, self.last = self.workers + 1, self.last + 1
        return self.last

    def phases_left(self) -> float:
        if self.rounds is None:
            # Nothing is known of its end: as much as there was.
            return self.phases
        before = len(self.groups) - 1
        per_round = self.phases_before / before if before > 0 else 1.0
        return max(0.0, self.rounds * per_round - self.phases)

    def work(self, stretch: float) -> Work:
        sizer = self.sizer
        return Work(self.weight, sizer.processors / sizer.level(), max(stretch * self.seconds, 1e-3), self.left, self.phases_left(),
                    self.sent / max(self.phases, 1), self.gap, self.workers, max(sizer.start_s, LEAST_START_S))


class Division:
    """Gives starts of clients to the federations of one machine. All times are of `clock`, in seconds."""

    def __init__(self, processors: float, total: int, weights: Sequence[float],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.processors, self.total, self.clock, self.begin = processors, total, clock, clock()
        self.free = total
        self.changed = threading.Condition()
        self.federations = {number: Federation(Sizer(processors, total), weight) for number, weight in enumerate(weights)}
        self.order: List[int] = list(self.federations)
        #: Those that may start another worker.
        self.new: List[int] = []
        #: Most clients at once, after one was ended for lack of memory.
        self.most: Optional[int] = None
        self.stale = True
        self.begun: Set[int] = set()
        #: Seconds from starts of clients to their ends, of late, and what they would have been without other processes.
        self.elapsed = self.computed = 0.0
        #: Seconds from the start to each end, as they were predicted first, once all were known.
        self.predicted: Optional[Dict[int, float]] = None

    # What federations tell and ask.

    def join(self, number: int) -> int:
        """A federation has begun; gives the number of its first worker."""
        with self.changed:
            federation = self.federations[number]
            worker = federation.new_worker()
            federation.idle.append(worker)
            self.begun.add(number)
            return worker

    def tell_rounds(self, number: int, rounds: int) -> None:
        with self.changed:
            self.federations[number].rounds = rounds
            self.stale = True

    def send(self, number: int, count: int, group: str) -> None:
        """Its server sends `count` messages of a round at once."""
        with self.changed:
            federation = self.federations[number]
            if group not in federation.groups:
                federation.groups.add(group)
                federation.phases_before = federation.phases
            federation.phases += 1
            federation.sent += count
            federation.left += count
            self.stale = True

    def take(self, number: int) -> Optional[int]:
        """Waits until a client may start, and gives the number of its worker: an idle one, or a new one. `None` if none
        could start for a while."""
        with self.changed:
            federation = self.federations[number]
            if federation.phase_end is not None:
                gap = self.clock() - federation.phase_end
                federation.gap = OLD * federation.gap + (1 - OLD) * gap if federation.gap else gap
                federation.phase_end = None
            federation.asks = True
            try:
                worker = self._next(number)
                if worker is None and self.changed.wait(LONGEST_WAIT_S):
                    worker = self._next(number)
                return worker
            finally:
                federation.asks = False
                # The next in the order may start beside it.
                self.changed.notify_all()

    def ended(self, number: int, worker: int, usage: Dict[str, float]) -> None:
        with self.changed:
            federation = self.federations[number]
            sizer = federation.sizer
            self.stale |= not sizer.done
            sizer.start_s = sizer.start_s or usage["before_s"]
            sizer.ended(worker, usage["seconds"], usage["wanted_s"], int(usage["peak"]))
            federation.seconds = OLD * federation.seconds + (1 - OLD) * usage["seconds"] if sizer.done > 2 else usage["seconds"]
            since = federation.warm.get(worker)
            if since is not None:
                self.elapsed = OLD * self.elapsed + self.clock() - since
                self.computed = OLD * self.computed + usage["seconds"]
            federation.warm[worker] = 0.0
            federation.idle.append(worker)
            self._less(federation)

    def failed(self, number: int, worker: int) -> None:
        """A client ended with an error of its own."""
        with self.changed:
            federation = self.federations[number]
            federation.sizer.failed(worker)
            federation.idle.append(worker)
            self._less(federation)

    def lost(self, number: int, worker: int, short: bool) -> bool:
        """A worker has died, where memory was `short` or not; whether its client is to be trained again."""
        with self.changed:
            federation = self.federations[number]
            again = short and self._running() > 1
            if again:
                self.most = max(1, self._running() - 1)
                federation.sizer.out_of_memory(worker)
            else:
                federation.sizer.failed(worker)
                self._less(federation)
            self._gone(federation, worker)
            return again

    def saw(self, number: int, sizes: Dict[int, int]) -> List[int]:
        """Its workers have so many bytes; gives those that it shall end."""
        with self.changed:
            federation = self.federations[number]
            federation.bytes = sizes
            for worker, size in sizes.items():
                federation.sizer.saw(worker, self.clock(), size)
            shed, federation.shed = federation.idle[:federation.shed], 0
            for worker in shed:
                federation.idle.remove(worker)
                self._gone(federation, worker)
            return shed

    # What the machine and its programs tell.

    def look(self, free: int) -> None:
        """So many bytes are free."""
        with self.changed:
            self.free = free
            self.changed.notify_all()

    def leave(self, number: int) -> None:
        """A federation has ended, in whatever way."""
        with self.changed:
            del self.federations[number]
            self.stale = True
            self.changed.notify_all()

    # Its own parts.

    def _less(self, federation: Federation) -> None:
        federation.left = max(0, federation.left - 1)
        if not federation.left:
            federation.phase_end = self.clock()
        self.changed.notify_all()

    def _gone(self, federation: Federation, worker: int) -> None:
        federation.workers -= 1
        federation.bytes.pop(worker, None)
        self.stale = True
        self.changed.notify_all()

    def _running(self) -> int:
        return sum(len(federation.sizer.running) for federation in self.federations.values())

    def _plan(self) -> None:
        """Orders the federations: those of which nothing is known are first."""
        if not self.stale:
            return
        self.stale = False
        known = [number for number, federation in self.federations.items() if federation.sizer.done]
        unknown = [number for number in self.federations if number not in known]
        if known:
            # Federations that have begun or ended since then are none of it.
            before = [known.index(number) for number in self.order if number in known]
            choice = choose([self.federations[number].work(self._stretch()) for number in known], self.processors, before)
            self.order = unknown + [known[index] for index in choice.order]
            self.new = [known[index] for index in choice.new]
            if self.predicted is None and len(known) == len(self.federations):
                now = self.clock() - self.begin
                self.predicted = {number: now + end for number, end in zip(known, choice.ends)}
        else:
            self.order, self.new = unknown, []

    def _next(self, number: int) -> Optional[int]:
        """The worker for the next client of a federation, unless one that is before it in the order may start."""
        self._plan()
        for other in self.order:
            federation = self.federations[other]
            if not federation.asks:
                continue
            if self._may_start(federation) and (federation.idle or self._may_create(other)):
                if other != number:
                    return None
                return self._start(federation)
            if self._waits_for_memory(federation):
                # Else smaller clients would take each part of the memory that becomes free.
                return None
        return None

    def _may_create(self, number: int) -> bool:
        """Whether a federation may start another worker. Starts compute: more than there are processors delay each other."""
        if not self.federations[number].workers:
            return True
        cold = sum(worker not in federation.warm for federation in self.federations.values() for worker in federation.sizer.running)
        return number in self.new and cold < self.processors

    def _start(self, federation: Federation) -> int:
        if federation.idle:
            worker = federation.idle.pop()
        else:
            worker = federation.new_worker()
            self.stale = True
        if worker in federation.warm:
            federation.warm[worker] = self.clock()
        federation.sizer.started(worker, self.clock())
        return worker

    def _may_start(self, federation: Federation) -> bool:
        if not federation.sizer.done and federation.sizer.running:
            return False
        if self.most is not None and self._running() >= self.most:
            return False
        busy = sum(len(other.sizer.running) / other.sizer.level() for other in self.federations.values())
        if busy and busy + 1 / federation.sizer.level() > 1 + self._ahead() + 1e-9:
            return False
        if self._fits(federation):
            return True
        self._shed()
        return False

    def _ahead(self) -> float:
        """Part of the processors that is given out twice, beside short clients."""
        training = [other for other in self.federations.values() if other.sizer.running and other.sizer.done]
        return 1 / self.processors if any(self._stretch() * other.seconds < SHORT_S for other in training) else 0.0

    def _stretch(self) -> float:
        return max(1.0, self.elapsed / self.computed) if self.computed else 1.0

    def _waits_for_memory(self, federation: Federation) -> bool:
        return not federation.sizer.running and not self._fits(federation)

    def _fits(self, federation: Federation) -> bool:
        """Whether memory suffices for the peaks of all that run and one more of this federation."""
        if not self._running():
            return True
        growth = sum(max(0, self._expected(other) - running.bytes)
                     for other in self.federations.values() for running in other.sizer.running.values())
        own = federation.bytes.get(federation.idle[-1], 0) if federation.idle else 0
        return self.free - growth - max(0, self._expected(federation) - own) >= RESERVE * self.total

    def _expected(self, federation: Federation) -> int:
        expected = federation.sizer.expected(self.clock())
        return int(UNKNOWN * self.total) if expected is None else expected

    def _shed(self) -> None:
        """What idle workers hold is given back, by the last in the order first."""
        for number in reversed(self.order):
            federation = self.federations[number]
            if federation.idle and not federation.asks and not federation.shed:
                federation.shed = 1
                return
