"""How many equal workers to run at once, found while they do real work: from their need of processors and memory.

No clock, process or file is touched here: `flower` (and tests) tell what they see. The rules are those of the queue
(`mt sweep`), in short:

    at once = processors / what one worker keeps busy, while memory suffices for the peaks of all

A worker's need of processors is its time on processors over its run time without what it waited for one, so it does not
depend on the others. Until the first piece of work is done nothing is known of its memory, so it runs alone, unless
its memory has been flat for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Set

#: Added to the highest peak seen: clients differ in their data, and peaks between two looks are missed.
MARGIN = 1.1
#: The same for a peak of work that is not done.
YOUNG_MARGIN = 1.5
#: Seconds without growth after which memory of work that is not done is believed.
FLAT_S = 2.0
#: Growth of memory that counts, relative.
GROWTH = 1.02
#: Part of the memory that stays free. Ray ends workers from 95 % on.
RESERVE = 0.08
#: A worker that keeps a processor busy for this part of its time computes: as many as there are processors fill them.
COMPUTES = 0.75
#: Above this, a worker has several threads.
ONE_THREAD = 1.05
#: Part of the processors that the first estimate leaves idle, for starts and ends.
IDLE = 0.1
#: Idle part of the processors, while work waits, from which another worker is worth trying. As in the queue.
WASTED = 0.04
#: Seconds that are observed before a number is judged: several pieces of work start and end in them.
WINDOW_S = 5.0
#: Least processor seconds of a start: Python and Flower alone.
LEAST_START_S = 1.0
#: A GPU's number of workers grows while another one gains at least this part of clients per second.
LEAST_GAIN = 0.05
#: Clients of each worker that are counted at a number, so that unlike ones are met.
EACH = 2
#: Up to so many clients of MPS at once a cap gains nothing; beyond, each has this sum divided by their number. On an H200
#: eight trainings were 4.46 times as fast as one with 30 % each, and 3.08 times with 100 %.
UNCAPPED, CAPS = 3, 200
#: Caps nearer than this, in percent, are alike: a worker is not started anew for less.
ALIKE = 10
#: Another worker stays if the idle part falls by at least this part of itself. Else they wait for something shared.
LEAST_FALL = 0.15


@dataclass
class Running:
    """A piece of work: bytes of its worker now and at most, and when they last grew."""

    bytes: int = 0
    peak: int = 0
    grew: float = 0.0


@dataclass
class Sizer:
    """Decides how many workers run at once."""

    processors: float
    #: Bytes that all may use together, what others use included.
    total: int
    running: Dict[int, Running] = field(default_factory=dict)
    #: Highest peak of a worker, bytes.
    peak: int = 0
    done: int = 0
    #: Processors that one worker keeps busy.
    wants: Optional[float] = None
    #: Processor seconds that the start of a worker costs.
    start_s: float = 0.0
    #: Most at once, after a worker had to be ended for lack of memory.
    most: Optional[int] = None
    extra: int = 0
    _seconds: float = 0.0
    _wanted: float = 0.0
    _credit: float = 0.0
    _idle_s: float = 0.0
    _window: float = 0.0
    _before: Optional[float] = None
    _settled: bool = False

    def level(self) -> int:
        """Workers that fill the processors."""
        whole = max(1, int(self.processors))
        if self.wants is None or COMPUTES <= self.wants <= ONE_THREAD:
            level = whole
        else:
            level = max(1, -int(-self.processors * (1 - IDLE) / self.wants // 1))
        level += self.extra
        return level if self.most is None else min(level, self.most)

    def expected(self, now: float) -> Optional[int]:
        """Bytes that a worker is expected to reach; `None` if nothing is known yet."""
        if self.done:
            return int(self.peak * MARGIN)
        flat = [r.peak for r in self.running.values() if r.peak and now - r.grew >= FLAT_S]
        return int(max(flat) * YOUNG_MARGIN) if flat and len(flat) == len(self.running) else None

    def fits(self, now: float, free: int, own: int = 0) -> bool:
        """Whether memory suffices for one more, whose worker already has `own` bytes, where `free` are free now."""
        if not self.running:
            return True
        expected = self.expected(now)
        if expected is None:
            return False
        growth = sum(max(0, expected - r.bytes) for r in self.running.values())
        return free - growth - max(0, expected - own) >= RESERVE * self.total

    def may_start(self, now: float, free: int, own: int = 0) -> bool:
        """Whether one more piece of work may start."""
        return len(self.running) < self.level() and self.fits(now, free, own)

    def started(self, worker: int, now: float) -> None:
        """A worker begins a piece of work."""
        self.running[worker] = Running(grew=now)

    def saw(self, worker: int, now: float, size: int) -> None:
        """A running worker has `size` bytes."""
        running = self.running.get(worker)
        if running is None:
            return
        if size > running.peak * GROWTH:
            running.grew = now
        running.bytes, running.peak = size, max(running.peak, size)

    def ended(self, worker: int, seconds: float, wanted_s: float, peak: int) -> None:
        """A piece of work is done: its run time without waits for a processor, its processor seconds, its worker's peak."""
        running = self.running.pop(worker, Running())
        self.peak = max(self.peak, peak, running.peak)
        self.done += 1
        # The work of some turns counts, the oldest less and less.
        self._seconds = self._seconds * 0.9 + seconds
        self._wanted = self._wanted * 0.9 + wanted_s
        self.wants = max(0.01, self._wanted / max(self._seconds, 1e-9))

    def failed(self, worker: int) -> None:
        """A piece of work ended with an error of its own."""
        self.running.pop(worker, None)

    def out_of_memory(self, worker: int) -> None:
        """A worker was ended by the system: so many were too many."""
        beside = len(self.running)
        running = self.running.pop(worker, Running())
        self.peak = max(self.peak, int(running.peak * MARGIN))
        self.most = max(1, beside - 1)

    def look(self, seconds: float, idle: float, waiting: bool) -> None:
        """So many processors were idle for some seconds, while work was `waiting` for a worker or not."""
        if not waiting or self.wants is None:
            return
        self._credit += seconds * idle
        if len(self.running) < self.level():
            return
        self._idle_s += seconds * idle
        self._window += seconds
        part = self._idle_s / max(self._window, 1e-9) / self.processors
        if self._settled or self._window < WINDOW_S:
            return
        if self._before is not None and part > self._before * (1 - LEAST_FALL):
            self.extra -= 1
            self._settled = True
        elif part > WASTED:
            self._before = part
            self.extra += 1
        self._idle_s = self._window = 0.0

    def may_create(self) -> bool:
        """Whether a worker more may be started: once the processor time that was idle while work waited exceeds what a
        start costs. However many rounds are left, this costs at most twice what the best moment costs."""
        cost = max(self.start_s, LEAST_START_S)
        if self._credit < cost:
            return False
        self._credit -= cost
        return True


def cap(number: int) -> int:
    """The active thread percentage of each of so many clients of MPS."""
    return 100 if number <= UNCAPPED else max(1, round(CAPS / number))


@dataclass
class Card:
    """Decides how many workers run at once on a GPU: as many as fit into its memory, while one more gains."""

    total: int
    free: int
    #: Bytes that each worker has.
    bytes: Dict[int, int] = field(default_factory=dict)
    running: Set[int] = field(default_factory=set)
    #: Workers that have ended a piece of work, and so have loaded what they need.
    warm: Set[int] = field(default_factory=set)
    #: Whether a piece of work has shown what a worker needs.
    known: bool = False
    #: Highest number of bytes of a worker.
    peak: int = 0
    level: int = 1
    settled: bool = False
    _rate: float = 0.0
    #: Whether the present number of workers trains, none of them loading.
    _full: bool = False
    _ended: int = 0
    _seconds: float = 0.0

    def may_start(self, worker: int) -> bool:
        """Whether a worker that is there may begin a piece of work."""
        return self.has_room() and self._fits(self.bytes.get(worker, 0))

    def may_create(self) -> bool:
        """Whether one more worker may be started."""
        if not self.known:
            return not self.bytes
        return not self.peak or (self.has_room() and len(self.bytes) < self.level and self._fits(0))

    def has_room(self) -> bool:
        """Whether one more may train, if its memory suffices."""
        # Without memory of the GPU it is not used, and no reason to wait.
        return not self.running or (self.known and (not self.peak or len(self.running) < self.level))

    def _fits(self, own: int) -> bool:
        if not self.running or not self.peak:
            return True
        expected = int(self.peak * MARGIN)
        growth = sum(max(0, expected - size) for worker, size in self.bytes.items() if worker in self.running)
        return self.free - growth - max(0, expected - own) >= RESERVE * self.total

    def started(self, worker: int) -> None:
        self.running.add(worker)
        self.bytes.setdefault(worker, 0)

    def saw(self, free: int, sizes: Dict[int, int]) -> None:
        """So many bytes are free, and its workers have so many."""
        self.free = free
        for worker, size in sizes.items():
            if worker in self.bytes:
                self.bytes[worker] = size
                self.peak = max(self.peak, size)

    def ended(self, worker: int) -> None:
        """A piece of work is done."""
        if self._full:
            self._ended += 1
        self.running.discard(worker)
        self.warm.add(worker)
        self.known = True
        self._judge()

    def failed(self, worker: int) -> None:
        self.running.discard(worker)

    def gone(self, worker: int) -> None:
        """A worker has ended."""
        for known in (self.running, self.warm):
            known.discard(worker)
        self.bytes.pop(worker, None)

    def out_of_memory(self, worker: int) -> None:
        """A worker found too little memory beside others: so many were too many."""
        self.peak = max(self.peak, int(self.bytes.get(worker, 0) * MARGIN))
        self.level, self.settled = max(1, len(self.running) - 1), True
        self.gone(worker)

    def look(self, seconds: float) -> None:
        """So many seconds have passed."""
        # Ends until the next look belong to these seconds: workers that began together end together.
        self._full = len(self.running) >= self.level and self.running <= self.warm
        if self._full:
            self._seconds += seconds

    def _judge(self) -> None:
        if self.settled or not self.peak or self._ended < EACH * self.level or self._seconds <= 0:
            return
        rate = self._ended / self._seconds
        if rate >= self._rate * (1 + LEAST_GAIN):
            self._rate, self.level = rate, self.level + 1
        else:
            self.level, self.settled = self.level - 1, True
        self._ended, self._seconds = 0, 0.0
