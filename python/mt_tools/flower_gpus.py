"""Clients of a Flower simulation on GPUs: how many at once on each, within the memory that is free, and under which cap.

The first client shows the memory that one takes. Another is trained beside it on the same GPU while its memory suffices
and clients per second grow by it. Workers that start under an MPS daemon (`mt run 'python3 -m mt_tools.flower run APP
...'` starts one) have a cap once more than three share a GPU.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional, Set

import ray

from . import flower, gpus
from .sizing import ALIKE, Card, cap

#: The least that a process takes of a GPU it uses, in bytes: contexts have 200 to 500 MB.
CONTEXT = 100 * 10**6
#: Seconds between two looks at the memory of GPUs: NVML takes some milliseconds for each.
LOOK_S = 0.5


def backend(config: Dict[str, Any]) -> flower.SizedBackend:
    """The backend of a simulation: on GPUs if its configuration gives a client some and NVML shows them."""
    found = gpus.visible() if config.get("client_resources", {}).get("num_gpus") else []
    return GpuBackend(config, found) if found else flower.SizedBackend(config)


class GpuBackend(flower.SizedBackend):
    """Workers on GPUs."""

    def __init__(self, config: Dict[str, Any], found: List[gpus.Gpu]) -> None:
        super().__init__(config)
        # Ray would pack fractions of a GPU on the first one; each worker is told its own.
        self.options["num_gpus"], self.most = 0, flower.THREADS
        self.gpus = {gpu.uuid: gpu for gpu in found}
        self.cards: Dict[str, Card] = {}
        for gpu in found:
            memory = gpu.free_and_total()
            if memory:
                self.cards[gpu.uuid] = Card(total=memory[1], free=memory[0])
        if not self.cards:
            print("mt: no GPU of this machine answers", file=sys.stderr, flush=True)
            os._exit(3)
        self.begin = {uuid: card.free for uuid, card in self.cards.items()}
        self.workers: Dict[int, flower.Worker] = {}
        self.lost: Set[str] = set()
        self.looked = 0.0
        self.has_mps = gpus.mps_answers()
        if not self.has_mps:
            print("mt: no MPS daemon answers, so clients on a GPU take turns: run this as mt run 'python3 -m "
                  "mt_tools.flower run ...'", file=sys.stderr, flush=True)

    # What is different from processors alone.

    def _first(self) -> List[flower.Worker]:
        return [self._on(uuid) for uuid in self.cards]

    def _on(self, uuid: str) -> flower.Worker:
        """A new worker on a GPU."""
        env = {"CUDA_VISIBLE_DEVICES": uuid}
        if self.has_mps:
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(cap(len(self.cards[uuid].bytes) + 1))
        self.number += 1
        worker = self.workers[self.number] = flower.Worker(self.number, self.options, self.app_fn, env)
        self.cards[uuid].bytes[self.number] = 0
        return worker

    def _card(self, worker: flower.Worker) -> Card:
        return self.cards[worker.env["CUDA_VISIBLE_DEVICES"]]

    def _free_worker(self, now: float) -> Optional[flower.Worker]:
        own = self.idle[-1].bytes() if self.idle else 0
        if not self.sizer.may_start(now, self.free, own):
            return None
        # The GPU with the fewest at work is first: unlike ones are filled by how soon their clients end.
        there = [uuid for uuid in self.cards if uuid not in self.lost]
        by_work = sorted(there, key=lambda uuid: len(self.cards[uuid].running))
        for uuid in by_work:
            card = self.cards[uuid]
            idle = [worker for worker in self.idle if self._card(worker) is card and card.may_start(worker.number)]
            if idle:
                self.idle.remove(idle[-1])
                card.started(idle[-1].number)
                return idle[-1]
        for uuid in by_work:
            card = self.cards[uuid]
            # Clients that use no GPU get another worker as on processors: once the idle time has paid for its start.
            if card.may_create() and (not card.known or card.peak or not self.at_work or self.sizer.may_create()):
                worker = self._on(uuid)
                card.started(worker.number)
                return worker
        for uuid in by_work:
            if self.cards[uuid].has_room():
                # Memory keeps it waiting: what an idle worker holds is given back.
                self._drop_idle(self.cards[uuid], 1)
        return None

    def _drop_idle(self, card: Card, most: int) -> None:
        for worker in [worker for worker in self.idle if self._card(worker) is card][:most]:
            self.idle.remove(worker)
            self._gone(worker)

    def _failed(self, worker: flower.Worker) -> None:
        with self.changed:
            self._card(worker).failed(worker.number)
            super()._failed(worker)

    def _ended(self, worker: flower.Worker, usage: Dict[str, float]) -> None:
        with self.changed:
            self._see_memory()
            self._card(worker).ended(worker.number)
            super()._ended(worker, usage)
            self._renew()

    def _is_lost(self, error: BaseException) -> bool:
        # As PyTorch, JAX, TensorFlow and CUDA say it.
        words = str(error).lower()
        return super()._is_lost(error) or "out of memory" in words or "resource_exhausted" in words

    def _lost(self, worker: flower.Worker, error: BaseException) -> bool:
        with self.changed:
            again = super()._lost(worker, error)
            card = self._card(worker)
            if not super()._is_lost(error) and len(card.bytes) > 1:
                # Its process lives, and lacked what others have of the GPU.
                card.out_of_memory(worker.number)
                self._drop_idle(card, len(self.idle))
                again = True
            # What it holds of the GPU is free once its process has ended.
            self._gone(worker)
            return again

    def _gone(self, worker: flower.Worker) -> None:
        """A worker is not used again."""
        ray.kill(worker.actor)
        self._card(worker).gone(worker.number)
        del self.workers[worker.number]

    def _renew(self) -> None:
        """Between rounds, starts workers anew whose cap is not that of their number: a cap is fixed when a client of MPS
        starts."""
        if not self.has_mps or self.waiting or self.at_work:
            return
        for worker in [*self.idle]:
            card = self._card(worker)
            own = int(worker.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
            if card.settled and abs(own - cap(len(card.bytes))) >= ALIKE:
                self.idle.remove(worker)
                self._gone(worker)
                self.idle.append(self._on(worker.env["CUDA_VISIBLE_DEVICES"]))

    def _see(self, seconds: float) -> None:
        for card in self.cards.values():
            card.look(seconds)
        if time.monotonic() - self.looked >= LOOK_S:
            self._see_memory()

    def _see_memory(self) -> None:
        self.looked = time.monotonic()
        for uuid in self.cards.keys() - self.lost:
            memory = self.gpus[uuid].free_and_total()
            if memory is None:
                self._lose(uuid)
                continue
            self.cards[uuid].saw(memory[0], self._sizes(uuid, memory[0]))

    def _sizes(self, uuid: str, free: int) -> Dict[int, int]:
        """What each worker has of a GPU."""
        used = self.gpus[uuid].used()
        own = [worker for worker in self.workers.values() if worker.env["CUDA_VISIBLE_DEVICES"] == uuid]
        sizes = {worker.number: used[worker.pid] for worker in own if worker.pid in used}
        taken = self.begin[uuid] - free
        if sizes or not own or taken < CONTEXT:
            return sizes
        # In a container NVML may number processes as the host does: then what has gone since the start is theirs.
        return {worker.number: taken // len(own) for worker in own}

    def _lose(self, uuid: str) -> None:
        """A GPU no longer answers: its clients fail by themselves, and nothing is started on it."""
        print(f"mt: {uuid} is lost", file=sys.stderr, flush=True)
        lost = self.cards[uuid]
        self._drop_idle(lost, len(self.idle))
        lost.level, lost.settled, lost.free = 0, True, 0
        self.lost.add(uuid)
        if len(self.lost) == len(self.cards):
            print("mt: no GPU is left", file=sys.stderr, flush=True)
            ray.shutdown()
            os._exit(3)

    def summary(self) -> str:
        if not self.sizer.done:
            return super().summary()
        lines = [super().summary()]
        for uuid, card in self.cards.items():
            if card.peak:
                level = max(1, min(card.level, len(card.warm)))
                lines.append(f"mt: {uuid}: up to {level} at once, of at most {card.peak / 1e9:.1f} GB each, cap {cap(level)} %; "
                             f"for Flower alone: options.backend.client-resources.num-gpus = {1 / level:.3f}")
        return "\n".join(lines)
