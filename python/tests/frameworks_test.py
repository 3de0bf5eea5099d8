"""Trains with Hugging Face's and Lightning's own trainers; each test is skipped where its library is not."""

import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools import Worker  # noqa: E402


def has(*names):
    return all(importlib.util.find_spec(name) for name in names)


def told(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


@unittest.skipUnless(has("torch"), "there is no torch")
class Frameworks(unittest.TestCase):
    def check(self, out):
        said = told(out)
        self.assertEqual(said[0], {"mt": "ready"})
        self.assertEqual([t["samples"] for t in said[1:-1]], [16] * 6)
        self.assertEqual(said[-1], {"mt": "done", "samples": 96})
        self.assertLess(said[-2]["loss"], said[2]["loss"])

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


if __name__ == "__main__":
    unittest.main()
