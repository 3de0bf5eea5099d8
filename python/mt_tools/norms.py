"""Squared norms of gradients, from which mt-tools estimates the gradient noise scale: how large a batch is
worth its samples. Needs PyTorch; no second backward pass.

Gradient accumulation, where the loss of each micro-batch is divided by their number:

    norms = GradientNorms(model.parameters())
    for micro in batch:
        loss(micro).backward()
        norms.part(len(micro))
    told = norms.whole()                 before gradients are clipped
    optimiser.step()
    worker.step(len(batch), loss, norms=told)

Several processes under DistributedDataParallel, where parts are the ranks:

    norms = GradientNorms(ddp.parameters())
    norms.watch(ddp)
    loss(batch).backward()
    told = norms.whole_of_ranks(len(batch))

One step in `every` is looked at: a noise scale is a mean over hundreds of steps anyway. A constant factor
on the gradients of a step, such as that of a gradient scaler, cancels out of the noise scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Tuple

from .worker import Norms

if TYPE_CHECKING:
    import torch

# As mt-worker.
EVERY = 8


def square(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """The sum of squares, where the tensors are: reading it as a number is left to who needs it."""
    import torch

    parts = [t.detach().float().pow(2).sum() for t in tensors]
    return torch.stack(parts).sum() if parts else torch.zeros(())


class GradientNorms:
    """Looks at the gradients of a training on their way to a step."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], every: int = EVERY) -> None:
        self._parameters = list(parameters)
        self._every = every
        self._steps = 0
        self._begin()

    def _begin(self) -> None:
        self._samples = 0
        self._first: Optional[Tuple[int, torch.Tensor]] = None
        self._local: List[torch.Tensor] = []

    @property
    def looks(self) -> bool:
        """Whether the step under way is one that is looked at."""
        return self._steps % self._every == 0

    def _square(self) -> torch.Tensor:
        return square(p.grad for p in self._parameters if p.grad is not None)

    def part(self, samples: int) -> None:
        """After the backward pass of each micro-batch of so many samples."""
        if self.looks and self._first is None:
            self._first = samples, self._square()
        self._samples += samples

    def whole(self) -> Optional[Norms]:
        """After the last of them: what `Worker.step` takes, or None where this step is not looked at, or has
        one part only."""
        first, large = self._first, self._samples
        told = None
        if first is not None and large > first[0]:
            # What stood there after the first part was its share of the mean gradient.
            small_sq = first[1] * (large / first[0]) ** 2
            told = first[0], small_sq, large, self._square()
        self.forget()
        return told

    def forget(self) -> None:
        """Ends a step without a figure: in place of `whole` where it had fewer micro-batches than its losses
        were divided by."""
        self._steps += 1
        self._begin()

    def watch(self, ddp: Any) -> None:
        """Looks at the gradients of this rank in DistributedDataParallel, before they are averaged."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        def hook(group: Any, bucket: Any) -> Any:
            if self.looks:
                self._local.append(square([bucket.buffer()]))
            return default_hooks.allreduce_hook(group, bucket)

        ddp.register_comm_hook(None, hook)

    def whole_of_ranks(self, samples: int) -> Optional[Norms]:
        """After the backward pass over this rank's samples, of which each rank has as many."""
        import torch

        ranks = torch.distributed.get_world_size()
        told = None
        if self._local and ranks > 1:
            told = samples, torch.stack(self._local).sum(), samples * ranks, self._square()
        self.forget()
        return told
