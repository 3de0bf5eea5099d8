"""What the callbacks of frameworks have in common: a framework trains, and the callback reports its steps."""

from __future__ import annotations

from typing import Optional

from .worker import Norms, Worker


class Teller:
    """Reports the steps of a framework that has its own loop and its own batches.

    The first step is the warm-up, in which kernels are compiled and caches filled: `ready` is reported
    after it.
    """

    def __init__(self, worker: Optional[Worker] = None) -> None:
        self.worker = worker or Worker.from_environment()
        self._batch = self.worker.batch
        self._ready = False

    def step(self, samples: int, loss: Optional[float] = None, norms: Optional[Norms] = None) -> bool:
        """Reports a step of this many samples; returns whether to continue."""
        go_on = True
        if not self._ready:
            self._ready = True
            self.worker.ready()
            go_on = self.worker.wait()
        go_on = self.worker.step(samples, loss, norms) and go_on
        if self.worker.batch != self._batch:
            raise SystemExit(
                f"asked to train with batches of {self.worker.batch}, but this loop has batches of {self._batch}: "
                "leave `pool` out of the job in the workload, so that each batch size gets its own process")
        return go_on

    def end(self) -> None:
        """The training is over."""
        self.worker.done()
