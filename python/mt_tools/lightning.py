"""The worker protocol for the Trainer of Lightning (or of pytorch_lightning, where that is installed).

    callback = MtCallback()
    loader = DataLoader(data, batch_size=callback.batch)
    Trainer(..., callbacks=[callback]).fit(model, loader)
"""

from __future__ import annotations

from typing import Optional

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from .callback import Teller
from .norms import GradientNorms
from .worker import Worker


def _samples(batch):
    """Samples of a batch: the length of its first tensor, or of itself."""
    while isinstance(batch, (list, tuple, dict)):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


def _loss(outputs):
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return None if loss is None else float(loss)


class MtCallback(Callback):
    """Reports every step, and ends the training after MT_SAMPLES samples.

    If there are several processes, the first one reports, and counts its batch once per process. With
    `accumulate_grad_batches` in a single process it also reports norms of gradients, from which mt-tools
    estimates what a larger batch is worth.
    """

    def __init__(self, worker: Optional[Worker] = None) -> None:
        self._teller = Teller(worker)
        self._gradients = None
        self._samples = self._index = 0
        self._norms = None

    @property
    def batch(self) -> int:
        """Batch size to train with: MT_BATCH_SIZE."""
        return self._teller.worker.batch

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self._samples, self._index = _samples(batch), batch_idx

    def on_after_backward(self, trainer, pl_module):
        # Before gradients are clipped. With several processes they are already averaged here.
        if trainer.accumulate_grad_batches < 2 or trainer.world_size > 1:
            return
        if self._gradients is None:
            self._gradients = GradientNorms(pl_module.parameters())
        self._gradients.part(self._samples)
        if (self._index + 1) % trainer.accumulate_grad_batches == 0:
            self._norms = self._gradients.whole()
        elif trainer.is_last_batch:
            # The last step of an epoch may have fewer micro-batches.
            self._gradients.forget()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.is_global_zero:
            samples = _samples(batch) * trainer.world_size
            norms, self._norms = self._norms, None
            if not self._teller.step(samples, _loss(outputs), norms):
                trainer.should_stop = True

    def on_train_end(self, trainer, pl_module):
        if trainer.is_global_zero:
            self._teller.end()
