"""Trains with Hugging Face's and Lightning's own trainers; each test is skipped if its library is not installed."""

import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools import Worker  # noqa: E402


def has(*names):
    return all(importlib.util.find_spec(name) for name in names)


def told(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


STEPS, MICRO, PARTS = 400, 8, 4


def noisy(count):
    """Rows for which the gradient of (w - x)^2, at w = 1, has mean 2 and variance 36 in each of 4 directions."""
    import torch

    torch.manual_seed(1)
    return 3 * torch.randn(count, 4)


@mock.patch.object(Worker, "PAUSE_S", 0)
@unittest.skipUnless(has("torch"), "there is no torch")
class Frameworks(unittest.TestCase):
    def check(self, out):
        said = told(out)
        self.assertEqual(said[0], {"mt": "ready"})
        self.assertEqual([t["samples"] for t in said[1:-1]], [16] * 6)
        self.assertEqual(said[-1], {"mt": "done", "samples": 96})
        self.assertLess(said[-2]["loss"], said[2]["loss"])

    def check_norms(self, out, small, large):
        """The noise scale is 144 / 16, and the reported norms of one part and of the whole batch agree with it."""
        norms = [t["norms"] for t in told(out) if t.get("norms")]
        self.assertGreater(len(norms), STEPS * 0.9)
        self.assertEqual({(n["small"], n["large"]) for n in norms}, {(small, large)})
        b_sq, sq = (sum(n[k] for n in norms) / len(norms) for k in ("small_sq", "large_sq"))
        squared = (large * sq - small * b_sq) / (large - small)
        variance = (b_sq - sq) / (1 / small - 1 / large)
        # The trainer may scale a step's gradients by a constant, which cancels out. One part of each step shows the
        # noise, so the standard error over 400 steps is 8 %.
        self.assertAlmostEqual(variance / squared, 9, delta=2.2)

    @unittest.skipUnless(has("transformers", "accelerate"), "there is no transformers with accelerate")
    def test_hugging_face_tells_norms(self):
        import torch
        from transformers import Trainer, TrainingArguments

        from mt_tools.huggingface import MtCallback
        from mt_tools.norms import GradientNorms

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = torch.nn.Parameter(torch.ones(4))

            def forward(self, x):
                return {"loss": ((self.weights - x) ** 2).sum(1).mean()}

        out, net = io.StringIO(), Net()
        callback = MtCallback(Worker(MICRO, samples=STEPS * MICRO * PARTS, stdout=out))
        callback._gradients = GradientNorms(net.parameters(), every=1)
        data = [{"x": x} for x in noisy(STEPS * MICRO * PARTS)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder, per_device_train_batch_size=MICRO, gradient_accumulation_steps=PARTS, learning_rate=0.0,
                num_train_epochs=1, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no",
                max_grad_norm=1.0)
            Trainer(net, arguments, train_dataset=data, callbacks=[callback]).train()
        # The last part comes after the last call of the callback.
        self.check_norms(out, MICRO, MICRO * (PARTS - 1))

    @unittest.skipUnless(has("transformers", "accelerate"), "there is no transformers with accelerate")
    def test_hugging_face(self):
        import torch
        from transformers import Trainer, TrainingArguments

        from mt_tools.huggingface import MtCallback

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.line = torch.nn.Linear(4, 1)

            def forward(self, x, y):
                answer = self.line(x).squeeze(1)
                return {"loss": ((answer - y) ** 2).mean(), "answer": answer}

        out = io.StringIO()
        callback = MtCallback(Worker(16, samples=96, stdout=out))
        data = [{"x": torch.full((4,), i / 64), "y": torch.tensor(i / 16)} for i in range(64)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder, per_device_train_batch_size=callback.batch, num_train_epochs=10, logging_steps=1,
                learning_rate=0.1, report_to=[], save_strategy="no", disable_tqdm=True)
            Trainer(Net(), arguments, train_dataset=data, callbacks=[callback]).train()
        self.check(out)

    @unittest.skipUnless(has("lightning") or has("pytorch_lightning"), "there is no lightning")
    def test_lightning(self):
        import torch

        from mt_tools.lightning import MtCallback
        try:
            import lightning.pytorch as pl
        except ImportError:
            import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.line = torch.nn.Linear(4, 1)

            def training_step(self, batch, index):
                x, y = batch
                return ((self.line(x).squeeze(1) - y) ** 2).mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        out = io.StringIO()
        callback = MtCallback(Worker(16, samples=96, stdout=out))
        x = torch.linspace(0, 1, 64).reshape(64, 1).expand(64, 4)
        data = torch.utils.data.TensorDataset(x, 4 * x[:, 0])
        loader = torch.utils.data.DataLoader(data, batch_size=callback.batch)
        with tempfile.TemporaryDirectory() as folder:
            pl.Trainer(max_epochs=10, callbacks=[callback], default_root_dir=folder, logger=False, accelerator="cpu",
                       enable_checkpointing=False, enable_progress_bar=False).fit(Net(), loader)
        self.check(out)

    @unittest.skipUnless(has("lightning") or has("pytorch_lightning"), "there is no lightning")
    def test_lightning_tells_norms(self):
        import torch

        from mt_tools.lightning import MtCallback
        from mt_tools.norms import GradientNorms
        try:
            import lightning.pytorch as pl
        except ImportError:
            import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.weights = torch.nn.Parameter(torch.ones(4))

            def training_step(self, batch, index):
                return ((self.weights - batch[0]) ** 2).sum(1).mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.0)

        out, net = io.StringIO(), Net()
        callback = MtCallback(Worker(MICRO, samples=STEPS * MICRO * PARTS, stdout=out))
        callback._gradients = GradientNorms(net.parameters(), every=1)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(noisy(STEPS * MICRO * PARTS)), batch_size=MICRO)
        with tempfile.TemporaryDirectory() as folder:
            pl.Trainer(max_epochs=1, accumulate_grad_batches=PARTS, gradient_clip_val=1.0, callbacks=[callback],
                       default_root_dir=folder, logger=False, accelerator="cpu", enable_checkpointing=False,
                       enable_progress_bar=False).fit(net, loader)
        self.check_norms(out, MICRO, MICRO * PARTS)


if __name__ == "__main__":
    unittest.main()
