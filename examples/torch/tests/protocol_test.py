#!/usr/bin/env python3
"""Tests of the worker protocol and of train.py's way through it, without PyTorch or a GPU.

train.py runs for real against a stand-in for torch that computes nothing; what the stand-in cannot
show is that the networks are right, which needs PyTorch: train.py --dry-run.
"""

import io
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from worker_protocol import Pipeline, Worker  # noqa: E402

STAND_IN = """
import os, runpy, sys
from unittest import mock
torch, vision = mock.MagicMock(name="torch"), mock.MagicMock(name="torchvision")
torch.cuda.is_available.return_value = False
torch.device.side_effect = lambda kind: mock.MagicMock(type=kind)
torch.rand.return_value.__lt__.return_value = mock.MagicMock()
torch.nn.functional.cross_entropy.return_value.detach.return_value = 2.5
sys.modules.update({"torch": torch, "torch.nn": torch.nn, "torchvision": vision})
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Protocol(unittest.TestCase):
    def test_alone_it_meets_the_count_exactly(self):
        out = io.StringIO()
        worker = Worker(32, samples=80, stdout=out)
        pipeline = Pipeline(lambda token: token)
        worker.ready(sms=40, mps=True)
        worker.train(lambda n: pipeline.add(n, 1.5), pipeline.drain)
        told = lines(out.getvalue())
        self.assertEqual(told[0], {"mt": "ready", "mps": True, "sms": 40})
        self.assertEqual([t["samples"] for t in told[1:-1]], [32, 32, 16])
        self.assertEqual(told[-1], {"mt": "done", "samples": 80})

    def test_a_step_is_told_when_it_is_done_and_not_before(self):
        waited = []
        pipeline = Pipeline(lambda token: waited.append(token) or 0.0, depth=2)
        self.assertEqual([pipeline.add(1, i) for i in range(3)], [[], [], [(1, 0.0)]])
        self.assertEqual(waited, [0])
        self.assertEqual(pipeline.drain(), [(1, 0.0), (1, 0.0)])

    def test_a_task_of_a_schedule_ends_and_the_worker_stays(self):
        out, synchronised = io.StringIO(), []
        orders = io.StringIO("task 0 1\nrun\n")
        worker = Worker(32, samples=80, pool=True, stdin=orders, stdout=out)
        worker.synchronise = lambda *task: synchronised.append(task)
        parked = worker.tell
        # The orders of the second task come when the first is parked, and nothing after them.
        def tell(**members):
            parked(**members)
            if members == {"mt": "parked"} and len(synchronised) == 1:
                for line in (["task", "1", "0"], ["run"]):
                    worker._orders.put(line)
            elif members == {"mt": "parked"}:
                worker._orders.put(["quit"])
        worker.tell = tell
        while not worker._orders.qsize() >= 3:
            time.sleep(0.01)
        # The end of standard input would be the end of the orders.
        first = [worker._orders.get() for _ in range(3)]
        self.assertEqual(first[2], ["quit"])
        for line in first[:2]:
            worker._orders.put(line)
        pipeline = Pipeline(lambda token: token)
        worker.train(lambda n: pipeline.add(n, 1.5), pipeline.drain)
        told = lines(out.getvalue())
        self.assertEqual([t["samples"] for t in told if t["mt"] == "step"], [32, 32, 16] * 2)
        ends = [t for t in told if t["mt"] != "step"]
        self.assertEqual(ends[:4], [{"mt": "done", "samples": 80}, {"mt": "parked"}] * 2)
        self.assertEqual(synchronised, [(0, 1), (1, 0)])

    def test_a_loss_that_is_no_number_is_left_out(self):
        out = io.StringIO()
        worker = Worker(8, samples=8, stdout=out)
        worker.train(lambda n: [(n, float("nan"))], lambda: [])
        self.assertEqual(lines(out.getvalue())[0], {"mt": "step", "samples": 8})

    def test_the_environment_is_read(self):
        with mock.patch.dict(os.environ, {"MT_BATCH_SIZE": "16", "MT_SAMPLES": "32", "MT_POOL": ""}):
            worker = Worker.from_environment()
            self.assertEqual((worker.batch, worker.samples, worker.pool), (16, 32, False))
        with mock.patch.dict(os.environ, {"MT_POOL": "1"}, clear=True):
            worker = Worker.from_environment(128)
            self.assertEqual((worker.batch, worker.samples, worker.pool), (128, None, True))


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
