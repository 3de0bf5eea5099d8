#!/usr/bin/env python3
"""Tests of train.py's way through the worker protocol, without PyTorch or a GPU.

train.py runs for real against a stand-in for torch that computes nothing; what the stand-in cannot
show is that the networks are right, which needs PyTorch: train.py --dry-run.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent

STAND_IN = """
import os, runpy, sys
from unittest import mock
torch, vision = mock.MagicMock(name="torch"), mock.MagicMock(name="torchvision")
torch.cuda.is_available.return_value = False
torch.device.side_effect = lambda kind: mock.MagicMock(type=kind)
torch.rand.return_value.__lt__.return_value = mock.MagicMock()
torch.nn.functional.cross_entropy.return_value.detach.return_value = 2.5
keep = lambda state, path: open(path, "w").write(str(state["samples"]))
torch.stack.return_value.tolist.return_value = [2.5]
torch.save.side_effect = keep
torch.load.side_effect = lambda path, **_: mock.MagicMock(__getitem__=lambda _, name: int(open(path).read()))
sys.modules.update({"torch": torch, "torch.nn": torch.nn, "torchvision": vision})
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
sys.path.append(os.path.join(sys.path[0], "..", "..", "python"))
from mt_tools import Worker
Worker.PAUSE_S = 0  # every step in a line of its own
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Script(unittest.TestCase):
    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, "-c", STAND_IN, str(HERE.parent / "train.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})

    def test_one_round(self):
        for extra in ([], ["--amp"], ["--amp", "fp16", "--channels-last"], ["--input", "host"],
                      ["--stem", "cifar", "--model", "densenet121"]):
            child = self.start(*extra, MT_BATCH_SIZE="32", MT_SAMPLES="100")
            out, _ = child.communicate(timeout=60)
            told = lines(out)
            self.assertEqual(child.returncode, 0)
            self.assertEqual(told[0], {"mt": "ready"})
            self.assertEqual([t["samples"] for t in told[1:-1]], [32, 32, 32, 4], extra)
            self.assertEqual(told[1]["loss"], 2.5)
            self.assertEqual(told[-1], {"mt": "done", "samples": 100})

    def test_a_checkpoint_is_gone_on_from(self):
        # The stand-in's files: what torch.save is given, by name.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            for samples, made in (("100", [32, 32, 32, 4]), ("150", [32, 18]), ("150", [])):
                child = self.start("--checkpoint", path, "--checkpoint-every", "2", MT_BATCH_SIZE="32", MT_SAMPLES=samples)
                out, _ = child.communicate(timeout=60)
                self.assertEqual(child.returncode, 0)
                self.assertEqual([t["samples"] for t in lines(out) if t["mt"] == "step"], made)
                self.assertEqual(lines(out)[-1], {"mt": "done", "samples": int(samples)})
            self.assertEqual(os.listdir(folder), ["state"])

    def test_pool(self):
        child = self.start(MT_BATCH_SIZE="32", MT_POOL="1")

        def tell(line):
            child.stdin.write(line + "\n")
            child.stdin.flush()

        def next_of(kind, **members):
            while True:
                told = json.loads(child.stdout.readline())
                if told["mt"] == kind and members.items() <= told.items():
                    return told

        next_of("ready")
        tell("run")
        next_of("step", samples=32)
        tell("batch 64")
        next_of("step", samples=64)
        tell("park")
        next_of("parked")
        time.sleep(0.3)
        tell("nonsense")
        tell("run")
        # Nothing was trained while parked, or it would stand before this.
        self.assertEqual(json.loads(child.stdout.readline())["samples"], 64)
        tell("quit")
        next_of("done")
        child.stdin.close()
        self.assertEqual(child.wait(timeout=30), 0)
        child.stdout.close()

    def test_the_end_of_input_is_quit(self):
        child = self.start(MT_POOL="1")
        out, _ = child.communicate("", timeout=60)
        self.assertEqual((child.returncode, lines(out)[-1]), (0, {"mt": "done", "samples": 0}))

    def test_missing_data_is_named(self):
        child = subprocess.run(
            [sys.executable, "-c", STAND_IN, str(HERE.parent / "train.py"), "--data", "cifar10", "--data-dir", "/none"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertIn("/none/cifar-10-batches-py/data_batch_1 is missing", child.stderr)


if __name__ == "__main__":
    unittest.main()
