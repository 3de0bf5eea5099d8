"""Tests of sweep.py with a shell loop in the place of a training."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sweep.py")


class Sweep(unittest.TestCase):
    def test_a_pool_and_the_queue_run_every_job(self):
        with tempfile.TemporaryDirectory() as folder:
            rows, training = os.path.join(folder, "rows.ndjson"), os.path.join(folder, "train.py")
            with open(training, "w") as file:
                file.write("import os, time\ntime.sleep(int(os.environ['MT_SAMPLES']) / 1e4)\n")
            subprocess.run([sys.executable, PROGRAM, "--output", rows, "--jobs", "4", "--samples", "1000", "--device", "cpu",
                            "--program", training, "2", "mt", "known"], check=True, stdout=subprocess.DEVNULL)
            with open(rows) as file:
                told = [json.loads(line) for line in file]
        self.assertEqual([row["scheme"] for row in told], ["2", "mt", "known"])
        for row in told:
            self.assertEqual(len(row["ends_s"]), 4)
            # Two at once: 0.1 and then 0.3 s beside 0.2 and then 0.1 s.
            self.assertGreaterEqual(row["makespan_s"], 0.3)
        self.assertGreaterEqual(told[1]["learnt"][0]["level"], 1)


if __name__ == "__main__":
    unittest.main()
