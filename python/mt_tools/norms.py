"""Squared norms of gradients, from which mt-tools estimates the gradient noise scale: up to which size a batch
is worth its samples. Needs PyTorch, but no second backward pass.

With gradient accumulation, if the loss of each micro-batch is divided by their number:

    norms = GradientNorms(model.parameters())
    for micro in batch:
        loss(micro).backward()
        norms.part(len(micro))
    squares = norms.whole()              before gradients are clipped
    optimiser.step()
    worker.step(len(batch), loss, norms=squares)

With several processes under DistributedDataParallel, where the ranks are the parts:

    norms = GradientNorms(ddp.parameters())
    norms.watch(ddp)
    loss(batch).backward()
    squares = norms.whole_of_ranks(len(batch))

Only one step in `every` is measured, because a noise scale is a mean over hundreds of steps anyway. A constant
factor on the gradients of a step, such as that of a gradient scaler, cancels out of the noise scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Tuple

from .worker import Norms

if TYPE_CHECKING:
    import torch

# The same as in mt-worker.
EVERY = 8


def square(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """The sum of squares, on the device of the tensors: only reading it as a number waits for the device."""
    import torch

    parts = [t.detach().float().pow(2).sum() for t in tensors]
    return torch.stack(parts).sum() if parts else torch.zeros(())


class GradientNorms:
    """Measures the gradients of a training before each step."""

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
        """Whether the current step is measured."""
        return self._steps % self._every == 0

    def _square(self) -> torch.Tensor:
        return square(p.grad for p in self._parameters if p.grad is not None)

    def part(self, samples: int) -> None:
        """Call it after the backward pass of each micro-batch, with its number of samples."""
        if self.looks and self._first is None:
            self._first = samples, self._square()
        self._samples += samples

    def whole(self) -> Optional[Norms]:
        """Call it after the last part: returns the `norms` of `Worker.step`, or None if this step is not
        measured or has only one part."""
        first, large = self._first, self._samples
        told = None
        if first is not None and large > first[0]:
            # The gradient after the first part was its share of the mean gradient.
            small_sq = first[1] * (large / first[0]) ** 2
            told = first[0], small_sq, large, self._square()
        self.forget()
        return told

    def forget(self) -> None:
        """Ends a step without norms: call it instead of `whole` if the step had fewer micro-batches than its
        losses were divided by."""
        self._steps += 1
        self._begin()

    def watch(self, ddp: Any) -> None:
        """Measures the gradients of this rank in DistributedDataParallel, before they are averaged."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        # Without annotations: PyTorch refuses a hook whose annotations are not its own types.
        def hook(group, bucket):
            if self.looks:
                self._local.append(square([bucket.buffer()]))
            return default_hooks.allreduce_hook(group, bucket)

        ddp.register_comm_hook(None, hook)

    def whole_of_ranks(self, samples: int) -> Optional[Norms]:
        """Call it after the backward pass over this rank's samples; all ranks must have the same number."""
        import torch

        ranks = torch.distributed.get_world_size()
        told = None
        if self._local and ranks > 1:
            told = samples, torch.stack(self._local).sum(), samples * ranks, self._square()
        self.forget()
        return told
