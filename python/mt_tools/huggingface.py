"""The worker protocol for the Trainer of Hugging Face's transformers.

    callback = MtCallback()
    arguments = TrainingArguments(..., per_device_train_batch_size=callback.batch)
    Trainer(model, arguments, ..., callbacks=[callback]).train()
"""

from __future__ import annotations

from typing import Optional

from transformers import TrainerCallback

from .callback import Teller
from .norms import GradientNorms
from .worker import Worker


class MtCallback(TrainerCallback):
    """Reports every step, and ends the training after MT_SAMPLES samples.

    A step counts as `train_batch_size * gradient_accumulation_steps * world_size` samples, even if it is the
    last of an epoch and has fewer (`dataloader_drop_last` drops it). The loss is that of the latest log
    (`logging_steps`). If there are several processes, the first one reports.

    With three or more micro-batches per step (`gradient_accumulation_steps`) it also reports norms of
    gradients, from which mt-tools estimates what a larger batch is worth: after the first micro-batch, and
    before the last, because the trainer clips gradients after that.
    """

    def __init__(self, worker: Optional[Worker] = None) -> None:
        self._teller = Teller(worker)
        self._loss = None
        self._gradients = None
        self._parts = 0
        self._norms = None

    @property
    def batch(self) -> int:
        """Batch size to train with: MT_BATCH_SIZE."""
        return self._teller.worker.batch

    def on_log(self, args, state, control, logs=None, **kwargs):
        self._loss = (logs or {}).get("loss", self._loss)

    def on_substep_end(self, args, state, control, model=None, **kwargs):
        # Called after each micro-batch but the last, before DistributedDataParallel averages over processes.
        if args.gradient_accumulation_steps < 3 or model is None:
            return
        if self._gradients is None:
            self._gradients = GradientNorms(model.parameters())
        self._gradients.part(args.train_batch_size)
        self._parts += 1
        if self._parts == args.gradient_accumulation_steps - 1:
            self._parts, self._norms = 0, self._gradients.whole()

    def on_step_end(self, args, state, control, **kwargs):
        if self._parts:
            # The last step of an epoch may have fewer micro-batches.
            self._gradients.forget()
        norms, self._norms, self._parts = self._norms, None, 0
        if state.is_world_process_zero:
            samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
            if not self._teller.step(samples, self._loss, norms):
                control.should_training_stop = True
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self._teller.end()
