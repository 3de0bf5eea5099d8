"""Tests of the worker protocol."""

import io
import json
import os
import pathlib
import subprocess
import sys
import time
import typing
import unittest
from unittest import mock

ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, ROOT)
import mt_tools  # noqa: E402
from mt_tools import EnvironmentVariableError, Pipeline, Worker  # noqa: E402


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Merging(unittest.TestCase):
    def told(self, times, losses, end):
        """What is reported about steps of 8 samples that end at `times`, and then `end`."""
        out = io.StringIO()
        worker = Worker(8, stdout=out)
        with mock.patch("mt_tools.worker.time.monotonic") as clock:
            for at, loss in zip(times, losses):
                clock.return_value = at
                worker.step(8, loss)
            before = lines(out.getvalue())
            end(worker)
        return before, lines(out.getvalue())[len(before):]

    def test_quick_steps_are_told_together_and_the_last_with_done(self):
        times = [i / 1000 for i in range(1000)]
        before, after = self.told(times, [1.0] * 1000, Worker.done)
        self.assertLessEqual(len(before), 20)
        self.assertEqual(before[0], {"mt": "step", "samples": 8, "loss": 1.0})
        self.assertEqual(sum(t.get("steps", 1) for t in before + after[:-1]), 1000)
        self.assertEqual(sum(t["samples"] for t in before + after[:-1]), 8000)
        self.assertEqual(after[-1], {"mt": "done", "samples": 8000})

    def test_slow_steps_are_told_each(self):
        before, after = self.told([0.0, 0.06, 0.12], [1.0, None, 3.0], Worker.done)
        self.assertEqual(len(before), 3)
        self.assertEqual(len(after), 1)

    def test_a_rare_loss_is_not_lost(self):
        _, after = self.told([0, 0.01, 0.02, 0.03], [3.0, None, 2.0, None], Worker.done)
        self.assertEqual(after[0], {"mt": "step", "samples": 24, "steps": 3, "loss": 2.0})

    def test_a_script_that_ends_without_done_has_told_its_steps(self):
        script = "from mt_tools import Worker; w = Worker(8); w.step(8); w.step(8); w.step(8); raise ValueError"
        run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
        told = lines(run.stdout)
        self.assertEqual([t["samples"] for t in told], [8, 16])

    def test_park_comes_after_the_steps(self):
        _, after = self.told([0, 0.01], [1.0, 1.0], lambda worker: worker._take(["park"], lambda: []))
        self.assertEqual([t["mt"] for t in after], ["step", "parked"])


@mock.patch.object(Worker, "PAUSE_S", 0)
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

    def test_norms_are_told_with_their_step(self):
        out = io.StringIO()
        worker = Worker(32, stdout=out)
        worker.step(32, 0.5, norms=(8, 2.0, 32, 1.0))
        # A training that diverges reports neither.
        worker.step(32, float("nan"), norms=(8, float("inf"), 32, 1.0))
        pipeline = Pipeline(lambda token: token, depth=0)
        worker._report(pipeline.add(32, (0.25, (8, 2, 32, 1))) + pipeline.add(32, (0.25, None)))
        norms = {"small": 8, "small_sq": 2.0, "large": 32, "large_sq": 1.0}
        self.assertEqual(lines(out.getvalue()), [
            {"mt": "step", "samples": 32, "loss": 0.5, "norms": norms},
            {"mt": "step", "samples": 32},
            {"mt": "step", "samples": 32, "loss": 0.25, "norms": norms},
            {"mt": "step", "samples": 32, "loss": 0.25}])

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
        # The orders of the second task arrive when the first is parked; nothing comes after them.
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
        # The end of standard input would mean the end of the orders.
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

    def test_a_variable_that_holds_no_number_is_named(self):
        for name, value in (("MT_BATCH_SIZE", "12x"), ("MT_BATCH_SIZE", "0"), ("MT_SAMPLES", "-3"), ("MT_SAMPLES", "1e3")):
            with mock.patch.dict(os.environ, {name: value}, clear=True):
                with self.assertRaisesRegex(EnvironmentVariableError, f"{name} is '{value}'"):
                    Worker.from_environment()

    def test_the_package_has_a_version_and_types(self):
        self.assertRegex(mt_tools.__version__, r"^[0-9]")
        self.assertTrue(pathlib.Path(mt_tools.__file__).with_name("py.typed").exists())
        for function in (Worker.step, Worker.from_environment, Pipeline.add):
            self.assertIn("return", typing.get_type_hints(function))

    def test_a_plain_loop_meets_the_count_exactly(self):
        out = io.StringIO()
        worker = Worker(32, samples=80, stdout=out)
        worker.trained = 8  # as after a checkpoint
        for size in worker.steps():
            self.assertTrue(worker.step(size, loss=1))
        self.assertEqual([t["samples"] for t in lines(out.getvalue())], [32, 32, 8, 80])

    def test_a_loop_over_batches_of_others_ends_at_the_count(self):
        out = io.StringIO()
        worker = Worker(32, samples=80, stdout=out)
        made = [worker.step(32) for _ in range(3)]
        self.assertEqual(made, [True, True, False])
        worker.done()
        self.assertEqual(lines(out.getvalue())[-1], {"mt": "done", "samples": 96})

    def test_a_loop_over_batches_of_others_obeys(self):
        out = io.StringIO()
        read, write = os.pipe()
        with os.fdopen(read) as orders, os.fdopen(write, "w", buffering=1) as tell:
            worker = Worker(32, pool=True, stdin=orders, stdout=out)
            tell.write("run\n")
            self.assertTrue(worker.wait())
            self.assertTrue(worker.step(32))
            tell.write("park\nbatch 16\nrun\nquit\n")
            time.sleep(0.2)
            self.assertFalse(worker.step(32))
            self.assertFalse(worker.wait(), "quit was told once and holds")
        self.assertEqual([t["mt"] for t in lines(out.getvalue())], ["step", "step", "parked"])
        self.assertEqual(worker.batch, 16)

    def test_quit_ends_a_plain_loop_that_tells_its_steps(self):
        out = io.StringIO()
        worker = Worker(32, pool=True, stdin=io.StringIO("run\n"), stdout=out)
        for size in worker.steps():
            worker.step(size)
        self.assertEqual(lines(out.getvalue())[-1]["mt"], "done")


if __name__ == "__main__":
    unittest.main()
