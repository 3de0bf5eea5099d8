"""What the callbacks of frameworks have in common: a framework trains, and this tells of it."""

from __future__ import annotations

from typing import Optional

from .worker import Norms, Worker


class Teller:
    """Tells of the steps of a framework that brings its own loop and its own batches.

    The first step is the warm-up, in which kernels are compiled and caches filled: `ready` is told once
    it is done.
    """

    def __init__(self, worker: Optional[Worker] = None) -> None:
        self.worker = worker or Worker.from_environment()
        self._batch = self.worker.batch
        self._ready = False

    def step(self, samples: int, loss: Optional[float] = None, norms: Optional[Norms] = None) -> bool:
        """Answers whether to go on, after a step over so many samples."""
        go_on = True
        if not self._ready:
            self._ready = True
            self.worker.ready()
            go_on = self.worker.wait()
        go_on = self.worker.step(samples, loss, norms) and go_on
        if self.worker.batch != self._batch:
            raise SystemExit(
                f"told to train with batches of {self.worker.batch}, but this loop has batches of {self._batch}: "
                "leave `pool` out of the job in the workload, and each batch size has a process of its own")
        return go_on

    def end(self) -> None:
        """The training is over."""
        self.worker.done()
