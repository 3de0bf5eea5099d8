"""Tests of stopwatch.py with made-up trainings: a shell loop that reports a step every 20 ms."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stopwatch.py")
# The worker protocol, and a line with the share that it was started with.
TRAINING = """
import os, select, sys, time
print('{"mt":"ready"}', flush=True)
running = False
while True:
    if select.select([sys.stdin], [], [], 0.02 if running else None)[0]:
        order = sys.stdin.readline().strip()
        if not order:
            break
        running = order == "run"
        if order == "park":
            print('{"mt":"parked"}', flush=True)
    elif running:
        print('{"mt":"step","samples":8}', flush=True)
        print(os.environ["MT_TASK"], os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), file=sys.stderr, flush=True)
"""


class Stopwatch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_schemes(self, *schemes, program=TRAINING):
        task = {"batch_sizes": [8], "job": {"argv": [sys.executable, "-c", program]}}
        with open(self.path("w.json"), "w") as file:
            json.dump({"tasks": [{"id": "a", "samples": 80, **task}, {"id": "b", "samples": 40, **task}]}, file)
        return subprocess.run([sys.executable, PROGRAM, "--workload", self.path("w.json"), "--output", self.path("out.csv"),
                               "--logs", self.folder.name, *schemes], capture_output=True, text=True, timeout=60)

    def test_every_scheme_takes_turns_and_is_timed_to_the_last_step(self):
        done = self.run_schemes("apart", "together", "100/50")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out.csv"), newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual([row[:2] for row in rows[::2]], [[s, str(r)] for r in (0, 1) for s in ("apart", "together", "100/50")])
        ends = {tuple(row[:3]): float(row[4]) for row in rows}
        # Ten steps of 20 ms, then five more; together, the longer of them.
        self.assertGreaterEqual(round(ends["apart", "0", "b"] - ends["apart", "0", "a"], 3), 0.1)
        self.assertGreaterEqual(ends["together", "0", "a"], 0.2)
        self.assertLess(ends["together", "0", "b"], ends["together", "0", "a"])
        with open(self.path("b.log")) as file:
            self.assertEqual(set(file.read().splitlines()), {"b None", "b 50"})

    def test_shares_are_one_for_each_task(self):
        done = self.run_schemes("100/50/50")
        self.assertEqual((done.returncode, done.stderr), (1, "stopwatch.py: 100/50/50 has 3 shares for 2 tasks\n"))

    def test_a_training_that_ends_is_named(self):
        done = self.run_schemes("together", program="print('{\"mt\":\"ready\"}')")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "stopwatch.py: [ab] (ended|takes no orders)")


if __name__ == "__main__":
    unittest.main()
