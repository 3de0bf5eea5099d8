"""The worker protocol of mt-tools for a training script. Needs nothing but Python.

A loop that can train with any batch size:

    worker = Worker.from_environment()
    ...build the model, warm up...
    worker.ready()
    for batch in worker.steps():
        worker.step(batch, loss=train_on(batch))

A loop over somebody else's batches:

    worker = Worker.from_environment()
    worker.ready()
    worker.wait()
    for x, y in loader:
        loss = train_on(x, y)
        if not worker.step(len(x), loss):
            break
    worker.done()

A loop on a GPU, where steps are started before those before them are done:

    worker.train(step, drain)

`step(batch)` starts one training step and returns what was finished meanwhile, as pairs (samples,
loss), or (samples, loss, norms) with what mt_tools.norms makes of its gradients; a step may only be
reported once it is done. `drain()` waits for everything that was started and returns it in the same form.

Alone (MT_POOL unset) the script trains until MT_SAMPLES is reached, or until it is stopped. With
MT_POOL=1 it obeys lines on standard input: run, park, batch N, quit; the end of input is quit. After
`task ROUND RANK`, which mt-cluster says before every task of a schedule, MT_SAMPLES are those of this
task: the worker says `done`, calls `synchronise(ROUND, RANK)` if the script has given one, says `parked`,
and waits for the next.

Steps that are quicker than a twentieth of a second are told together, in one line with their number, their
samples and the latest loss: a reader on the same machine would otherwise take time from the training.
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
"""Samples of a part of a batch, its squared norm, samples of the batch, its squared norm."""

Finished = List[Tuple[Any, ...]]
"""Steps that are done: (samples, loss) of each, or (samples, loss, norms)."""


class EnvironmentVariableError(ValueError):
    """A variable that a training is started with holds something else than it should."""


def _whole_number(name: str, least: int) -> Optional[int]:
    """The number that a variable holds; None where it is unset or empty."""
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
    """As a member of a step: squared norms of the mean gradients over a small and a large number of
    samples; nothing where there are none or they have diverged."""
    if norms is None:
        return {}
    small, small_sq, large, large_sq = norms
    squares = float(small_sq), float(large_sq)
    if not all(map(math.isfinite, squares)):
        return {}
    return {"norms": {"small": int(small), "small_sq": squares[0], "large": int(large), "large_sq": squares[1]}}


class Worker:
    """What a training script is told, and how it tells what it does.

    `batch` is the batch size, `samples` how many to train on (None: until told), `trained` how many have
    been. A script that goes on from a checkpoint sets `trained` before its first step.
    """

    PAUSE_S = 0.05
    """Least seconds between two lines on steps."""

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
        """Reads MT_BATCH_SIZE, MT_SAMPLES and MT_POOL; `batch` holds where the first is unset. An
        EnvironmentVariableError names a variable that holds no such number."""
        size = _whole_number("MT_BATCH_SIZE", 1) or batch or 64
        samples = _whole_number("MT_SAMPLES", 0)
        return cls(size, samples, os.environ.get("MT_POOL", "") not in ("", "0"))

    def tell(self, **members: Any) -> None:
        """Prints one line of the protocol, after the steps that are not told yet."""
        self._flush()
        self._print(members)

    def _print(self, members):
        # Not by print(), which some frameworks replace by one that logs. One write, so that nothing of
        # another thread comes between.
        self._out.write(json.dumps(members, separators=(",", ":")) + "\n")
        self._out.flush()

    def ready(self, mps: Optional[bool] = None, sms: Optional[int] = None) -> None:
        """Says that the script is warm and what it sees of its share."""
        more = {k: v for k, v in (("mps", mps), ("sms", sms)) if v is not None}
        self.tell(mt="ready", **more)

    def done(self) -> None:
        """Says that all is trained. `steps` and `train` do so themselves."""
        self.tell(mt="done", samples=self.trained)

    def step(self, samples: int, loss: Optional[float] = None, norms: Optional[Norms] = None) -> bool:
        """Tells of a step that has been made. `norms`: what mt_tools.norms makes of its gradients.

        Answers whether to go on: False once MT_SAMPLES are trained, or after `quit`. In pool mode it
        waits here while the script is to be parked. A loop over `steps` need not look at the answer.
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
        """In pool mode, takes orders, and waits while the script is to be parked; False after `quit`.
        A loop over somebody else's batches calls it before its first step."""
        return self._obey(_nothing)

    def steps(self, drain: Callable[[], Finished] = _nothing) -> Iterator[int]:
        """Yields the batch size of every step to make, the last one cut so that MT_SAMPLES are met
        exactly; then says `done`. `drain` is that of `train`."""
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
        """Trains until the samples are done or the orders end, then says `done`."""
        for size in self.steps(drain):
            self._report(step(size))

    def _report(self, finished: Finished) -> None:
        for samples, loss, *norms in finished:
            samples = int(samples)
            self.trained += samples
            steps, untold, latest = self._untold
            # JSON has no NaN: a loss that has diverged is left out.
            known = loss is not None and math.isfinite(loss)
            # A step without a loss, or without norms, does not take away those of one before it. Of several
            # norms the last are told: steps that are left out for the clock are a fair sample.
            members = {"loss": float(loss)} if known else {}
            members.update(_norms(*norms))
            self._untold = (steps + 1, untold + samples, {**latest, **members})
            if time.monotonic() - self._told_at >= self.PAUSE_S:
                self._flush()

    def _flush(self) -> None:
        """Tells the steps that are not told yet, in one line."""
        steps, samples, members = self._untold
        if not steps:
            return
        self._untold, self._told_at = (0, 0, {}), time.monotonic()
        if steps > 1:
            members["steps"] = steps
        self._print({"mt": "step", "samples": samples, **members})

    def _last_words(self) -> None:
        """A script that ends without `done`, also by an exception, has told all of its steps."""
        try:
            self._flush()
        except (OSError, ValueError):
            pass  # Standard output is closed: nobody is left to tell.

    def _end_task(self, drain):
        self._report(drain())
        self.done()
        if self.synchronise:
            self.synchronise(*self._task)
        self.running = False
        self.tell(mt="parked")

    def _obey(self, drain):
        """Takes the orders that have come, and waits while parked; False after `quit`."""
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
    """Steps under way on a device: started now, reported `depth` steps later.

    `wait(token)` blocks until the step of that token is done and returns its loss, or (loss, norms).
    """

    def __init__(self, wait: Callable[[Any], Any], depth: int = 2) -> None:
        self._wait = wait
        self._depth = depth
        self._under_way: Deque[Tuple[int, Any]] = collections.deque()

    def add(self, samples: int, token: Any) -> Finished:
        """Notes a step that was started; returns those that are done, as pairs (samples, loss)."""
        self._under_way.append((samples, token))
        return self._finish(self._depth)

    def drain(self) -> Finished:
        """Waits for all; returns them likewise."""
        return self._finish(0)

    def _finish(self, left):
        finished = []
        while len(self._under_way) > left:
            samples, token = self._under_way.popleft()
            told = self._wait(token)
            finished.append((samples, *told) if isinstance(told, tuple) else (samples, told))
        return finished
