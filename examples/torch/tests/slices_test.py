"""Tests of slices.py without any training: rates of made-up steps, and what a kill leaves of its output."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slices  # noqa: E402


class Rates(unittest.TestCase):
    def test_whole_steps_count_and_no_parts_of_them(self):
        # 10 samples every 0.1 s, told from 0.05 s on; the window cuts steps at both ends.
        steps = [(0.05 + 0.1 * k, 10) for k in range(40)]
        mean, error = slices.rate(steps, 0.5, 2.51)
        self.assertAlmostEqual(mean, 100.0)
        self.assertAlmostEqual(error, 0.0, places=6)

    def test_the_error_is_that_of_stretches(self):
        # Slower by half in the second half: stretches of 200, 200, 100 and 100 samples/s, and one between.
        steps = [(0.01 * k, 2) for k in range(51)] + [(0.5 + 0.02 * k, 2) for k in range(1, 26)]
        mean, error = slices.rate(steps, 0.0, 1.0)
        self.assertTrue(130 < mean < 160, mean)
        self.assertTrue(15 < error < 30, error)

    def test_too_few_steps_are_none(self):
        self.assertIsNone(slices.rate([(0.1 * k, 1) for k in range(5)], 0.0, 1.0))


class Output(unittest.TestCase):
    CONFIGURATIONS = [[("a", 8)], [("b", 8)], [("a", 8), ("b", 8)], [("a", 4), ("b", 4)]]

    def left(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.csv")
            with open(path, "w") as file:
                file.write(text)
            done = slices.measured(path, self.CONFIGURATIONS)
            with open(path) as file:
                return done, file.read()

    def test_a_half_written_configuration_is_dropped(self):
        head = ",".join(slices.HEAD) + "\n"
        whole = head + "0,a,8,100,5,1\n1,b,8,100,5,1\n2,a,8,100,3,1\n2,b,8,100,3,1\n"
        self.assertEqual(self.left(whole), (3, whole))
        # A kill may end a line anywhere.
        for cut in range(len(whole) - 1, len(head), -1):
            done, text = self.left(whole[:cut])
            self.assertTrue(done < 3)
            self.assertEqual(text.count("\n") - 1, {0: 0, 1: 1, 2: 2}[done])
            self.assertTrue(whole.startswith(text))
        self.assertEqual(self.left(head[:4]), (0, head))


if __name__ == "__main__":
    unittest.main()
