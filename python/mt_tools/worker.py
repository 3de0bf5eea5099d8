"""The worker protocol of mt-tools for a training script. Needs only Python.

A loop that can train with any batch size:

    worker = Worker.from_environment()
    ...build the model, warm up...
    worker.ready()
    for batch in worker.steps():
        worker.step(batch, loss=train_on(batch))

A loop over the batches of a data loader:

    worker = Worker.from_environment()
    worker.ready()
    worker.wait()
    for x, y in loader:
        loss = train_on(x, y)
        if not worker.step(len(x), loss):
            break
    worker.done()

A loop on a GPU, where a step starts before the previous ones have finished:

    worker.train(step, drain)

`step(batch)` starts one training step and returns the steps that have finished meanwhile, as pairs
(samples, loss), or as (samples, loss, norms) with the result of mt_tools.norms. A step may only be reported
after it has finished. `drain()` waits for all started steps and returns them in the same form.

Alone (MT_POOL unset) the script trains until MT_SAMPLES is reached, or until it is stopped. With
MT_POOL=1 it obeys lines on standard input: run, park, batch N, quit; the end of input means quit.
mt-cluster sends `task ROUND RANK` before every task of a schedule. MT_SAMPLES is then the number of samples of
that task: at its end the worker prints `done`, calls `synchronise(ROUND, RANK)` if the script has set it,
prints `parked`, and waits for the next task.

Steps shorter than a twentieth of a second are reported together, in one line with their number, their samples
and the latest loss. Otherwise a reader on the same machine would take time from the training.
"""

from __future__ import annotations

import atexit
import collections
import json
import math
import os
import queue
import sys
import threading
import time
from typing import Any, Callable, Deque, Iterable, Iterator, List, Optional, TextIO, Tuple

Norms = Tuple[int, Any, int, Any]
"""Samples of a part of a batch and its squared norm, then samples of the whole batch and its squared norm."""

Finished = List[Tuple[Any, ...]]
"""Finished steps: (samples, loss) for each, or (samples, loss, norms)."""


class EnvironmentVariableError(ValueError):
    """An environment variable of the training has an invalid value."""


def _whole_number(name: str, least: int) -> Optional[int]:
    """The number in a variable; None if it is unset or empty."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise EnvironmentVariableError(f"{name} is {text!r}: it must be a whole number, at least {least}")
    return int(text)


def _read_lines(stream: TextIO, lines: queue.Queue) -> None:
    for line in stream:
        lines.put(line.split())
    lines.put(["quit"])


def _nothing() -> Finished:
    return []


def _norms(norms: Optional[Norms] = None) -> dict:
    """The member `norms` of a step: squared norms of the mean gradients over a small and a large number of
    samples. Empty if there are none or they are not finite."""
    if norms is None:
        return {}
    small, small_sq, large, large_sq = norms
    squares = float(small_sq), float(large_sq)
    if not all(map(math.isfinite, squares)):
        return {}
    return {"norms": {"small": int(small), "small_sq": squares[0], "large": int(large), "large_sq": squares[1]}}


class Worker:
    """What a training script must do, and how it reports what it has done.

    `batch` is the batch size, `samples` the number of samples to train on (None: until told to stop), and
    `trained` the number so far. A script that continues from a checkpoint sets `trained` before its first step.
    """

    PAUSE_S = 0.05
    """Minimum seconds between two lines about steps."""

    def __init__(
        self,
        batch: int,
        samples: Optional[int] = None,
        pool: bool = False,
        stdin: Optional[TextIO] = None,
        stdout: Optional[TextIO] = None,
    ) -> None:
        self.batch = batch
        self.samples = samples
        self.pool = pool
        self.trained = 0
        self.running = not pool
        self.synchronise: Optional[Callable[[int, int], None]] = None
        self._untold: Tuple[int, int, dict] = (0, 0, {})  # steps, samples, the latest loss and norms
        self._told_at = -math.inf
        atexit.register(self._last_words)
        self._task: Optional[Tuple[int, int]] = None
        self._within_steps = False
        self._told_to_quit = False
        self._out = stdout or sys.stdout
        self._orders = queue.Queue()
        if pool:
            source = stdin or sys.stdin
            threading.Thread(target=_read_lines, args=(source, self._orders), daemon=True).start()

    @classmethod
    def from_environment(cls, batch: Optional[int] = None) -> Worker:
        """Reads MT_BATCH_SIZE, MT_SAMPLES and MT_POOL; `batch` is the size if the first is unset. An
        EnvironmentVariableError names a variable that is not such a number."""
        size = _whole_number("MT_BATCH_SIZE", 1) or batch or 64
        samples = _whole_number("MT_SAMPLES", 0)
        return cls(size, samples, os.environ.get("MT_POOL", "") not in ("", "0"))

    def tell(self, **members: Any) -> None:
        """Prints one line of the protocol, after the steps that have not been reported yet."""
        self._flush()
        self._print(members)

    def _print(self, members):
        # Not print(), which some frameworks replace by a logger. One write, so that output of another thread
        # cannot come in between.
        self._out.write(json.dumps(members, separators=(",", ":")) + "\n")
        self._out.flush()

    def ready(self, mps: Optional[bool] = None, sms: Optional[int] = None) -> None:
        """Reports that the script is warm, and what it sees of its share."""
        more = {k: v for k, v in (("mps", mps), ("sms", sms)) if v is not None}
        self.tell(mt="ready", **more)

    def done(self) -> None:
        """Reports the end of the training. `steps` and `train` do so themselves."""
        self.tell(mt="done", samples=self.trained)

    def step(self, samples: int, loss: Optional[float] = None, norms: Optional[Norms] = None) -> bool:
        """Reports a finished step. `norms`: the result of mt_tools.norms for it.

        Returns whether to continue: False once MT_SAMPLES is reached, or after `quit`. In pool mode it
        waits here while the script is parked. A loop over `steps` can ignore the result.
        """
        self._report([(samples, loss, norms)])
        if self._within_steps:
            return True
        if self.samples is not None and self.trained >= self.samples:
            if not self._task:
                return False
            self._end_task(_nothing)
        return self.wait()

    def wait(self) -> bool:
        """In pool mode, reads orders, and waits while the script is parked; returns False after `quit`.
        A loop over the batches of a data loader calls it before its first step."""
        return self._obey(_nothing)

    def steps(self, drain: Callable[[], Finished] = _nothing) -> Iterator[int]:
        """Yields the batch size of every step to make, then reports `done`. The last one is cut so that
        MT_SAMPLES is met exactly. `drain` is that of `train`."""
        started = self.trained
        self._within_steps = True
        while self._obey(drain):
            size = self.batch
            if self.samples is not None:
                size = min(size, self.samples - started)
            if size <= 0 and self._task:
                self._end_task(drain)
                started = 0
            elif size <= 0:
                break
            else:
                started += size
                yield size
        self._within_steps = False
        self._report(drain())
        self.done()

    def train(self, step: Callable[[int], Finished], drain: Callable[[], Finished] = _nothing) -> None:
        """Trains until MT_SAMPLES is reached or the orders end, then reports `done`."""
        for size in self.steps(drain):
            self._report(step(size))

    def _report(self, finished: Finished) -> None:
        for samples, loss, *norms in finished:
            samples = int(samples)
            self.trained += samples
            steps, untold, latest = self._untold
            # JSON has no NaN: a loss that has diverged is left out.
            known = loss is not None and math.isfinite(loss)
            # A step without loss or norms keeps those of an earlier step. If several steps have norms, the last
            # ones are reported: which steps are merged depends only on time, so they are a fair sample.
            members = {"loss": float(loss)} if known else {}
            members.update(_norms(*norms))
            self._untold = (steps + 1, untold + samples, {**latest, **members})
            if time.monotonic() - self._told_at >= self.PAUSE_S:
                self._flush()

    def _flush(self) -> None:
        """Reports the steps that have not been reported yet, in one line."""
        steps, samples, members = self._untold
        if not steps:
            return
        self._untold, self._told_at = (0, 0, {}), time.monotonic()
        if steps > 1:
            members["steps"] = steps
        self._print({"mt": "step", "samples": samples, **members})

    def _last_words(self) -> None:
        """So that a script that ends without `done`, even by an exception, has reported all of its steps."""
        try:
            self._flush()
        except (OSError, ValueError):
            pass  # Standard output is closed: there is no reader.

    def _end_task(self, drain):
        self._report(drain())
        self.done()
        if self.synchronise:
            self.synchronise(*self._task)
        self.running = False
        self.tell(mt="parked")

    def _obey(self, drain):
        """Reads the orders that have arrived, and waits while parked; returns False after `quit`."""
        while self.pool and not self._told_to_quit:
            try:
                order = self._orders.get(block=not self.running)
            except queue.Empty:
                return True
            if order == ["quit"]:
                self._told_to_quit = True
            else:
                self._take(order or ["(an empty line)"], drain)
        return not self._told_to_quit

    def _take(self, order, drain):
        numbers = [int(word) for word in order[1:] if word.isdigit()]
        if order == ["run"]:
            self.running = True
        elif order == ["park"]:
            self.running = False
            self._report(drain())
            self.tell(mt="parked")
        elif order[0] == "task" and len(order) == 3 and len(numbers) == 2:
            self._task = numbers[0], numbers[1]
            self.trained = 0
        elif order[0] == "batch" and len(order) == 2 and numbers and numbers[0]:
            self.batch = numbers[0]
        else:
            print("unknown order:", " ".join(order), file=sys.stderr)


class Pipeline:
    """Steps in progress on a device: started now, reported `depth` steps later.

    `wait(token)` blocks until the step of that token has finished and returns its loss, or (loss, norms).
    """

    def __init__(self, wait: Callable[[Any], Any], depth: int = 2) -> None:
        self._wait = wait
        self._depth = depth
        self._under_way: Deque[Tuple[int, Any]] = collections.deque()

    def add(self, samples: int, token: Any) -> Finished:
        """Adds a started step; returns the finished ones, as pairs (samples, loss)."""
        self._under_way.append((samples, token))
        return self._finish(self._depth)

    def drain(self) -> Finished:
        """Waits for all steps; returns them in the same form."""
        return self._finish(0)

    def _finish(self, left):
        finished = []
        while len(self._under_way) > left:
            samples, token = self._under_way.popleft()
            told = self._wait(token)
            finished.append((samples, *told) if isinstance(told, tuple) else (samples, told))
        return finished
