"""The functions that need no tools, no network and no data sets; skipped where numpy is absent."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed")

from federation import clock, curves, data, deadline, devices, net, noise, page, pipe, virtual  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parents[1]


def made_up(rows=400, inputs=6, classes=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inputs))
    return data.divide(x, (x[:, :classes] + 0.3 * rng.normal(size=(rows, classes))).argmax(axis=1))


class Clock(unittest.TestCase):
    def test_a_task_that_has_ended_makes_rounds_shorter(self):
        length = {frozenset("ab"): 10.0, frozenset("a"): 6.0}
        ends = clock.finishing({"a": 5, "b": 2}, lambda active: length[active])
        self.assertEqual(ends, {"b": 20.0, "a": 38.0})
        self.assertEqual(clock.stages({"a": 5, "b": 2}), [frozenset("ab"), frozenset("a")])

    def test_a_task_that_never_ends_takes_for_ever_and_others_do_not_wait(self):
        ends = clock.finishing({"a": math.inf, "b": 2}, lambda active: 3.0)
        self.assertEqual(ends, {"b": 6.0, "a": math.inf})


class Noise(unittest.TestCase):
    def test_estimates_are_the_ones_of_known_moments(self):
        # |g_B|^2 = |G|^2 + S / B for |G|^2 = 2, S = 48.
        slope, spread = noise.estimates(2 + 48 / 16, 16, 2 + 48 / 32, 32)
        self.assertAlmostEqual(slope, 2)
        self.assertAlmostEqual(spread, 48)
        self.assertEqual(noise.ratio(48.0, -1.0), math.inf)

    def test_halves_are_unbiased(self):
        made = made_up()
        weights = [w[0] for w in net.initial(6, 3, [1])]
        n = len(made.train_y)
        whole = net.gradient(weights, made.train_x, made.train_y, np.full(n, 1 / n, np.float32))
        square = sum(float((g.astype(float) ** 2).sum()) for g in whole)
        rng, seen = np.random.default_rng(2), []
        for _ in range(3000):
            rows = rng.integers(0, n, 8)
            seen.append(noise.halves(weights, made.train_x[rows], made.train_y[rows])[0])
        # The standard error of the mean is about 2 % here.
        self.assertLess(abs(np.mean(seen) / square - 1), 0.1)

    def test_clients_with_opposite_gradients_are_noise_to_the_federation(self):
        def client(sign):
            return noise.Norms(4.0, 1.0, 4.0, 1.0, [np.array([2.0 * sign]), *[np.zeros(1)] * 3])

        same = noise.combined([[client(1), client(1)]], [5, 5])
        self.assertAlmostEqual(same.alone, 0.25)
        self.assertAlmostEqual(same.pooled, 0.25)
        apart = noise.combined([[client(1), client(-1), client(1)]], [5, 5, 5])
        self.assertGreater(apart.pooled, 1)

    def test_sizes_that_leave_too_few_steps_are_told(self):
        self.assertTrue(noise.leaves_steps(64, 32, [430, 430]))
        self.assertFalse(noise.leaves_steps(64, 32, [410, 410]))
        self.assertTrue(noise.leaves_steps(32, 32, [50]))

    def test_the_law_is_found_again_in_its_own_rounds(self):
        phi = curves.phi_from_rounds({b: 0.3 * (75 + b) for b in curves.BATCHES})
        self.assertLess(abs(phi / 75 - 1), 0.03)


class Training(unittest.TestCase):
    def test_all_at_once_is_each_client_alone(self):
        made, own = made_up(), [np.arange(0, 100), np.arange(100, 317)]
        how = net.Local([16, 32])
        start = net.initial(6, 3, [1, 2])
        average, net.average = net.average, lambda parts, rows: [parts, rows]
        try:
            parts, rows = net.train(start, made, own, how, [net.Repetition(1, 0.1), net.Repetition(2, 0.3)], 4)
        finally:
            net.average = average
        places = net.Schedule(own, how, [1, 2], 4).order
        for place, c in enumerate(places):
            self.assertEqual(rows[place], len(own[c]))
            for r, (seed, rate) in enumerate(((1, 0.1), (2, 0.3))):
                drawn = net.order(own[c], how, c, seed, 4)
                *_, last = net.steps([w[r] for w in start], made, drawn, how.batches[c], rate)
                for a, b in zip(last, parts[place]):
                    np.testing.assert_allclose(a, b[r], rtol=2e-3, atol=2e-5)

    def test_a_client_that_keeps_half_of_its_rows_trains_on_half(self):
        how = net.Local([8, 8], kept=[0.5, 1.0])
        self.assertEqual(net.Schedule([np.arange(40), np.arange(30)], how, [1], 0).rows_of, [20, 30])

    def test_splits_give_every_row_once(self):
        labels = np.arange(3000) % 5
        for split in ("iid", "dirichlet"):
            own = data.parts(labels, 6, split, 1)
            self.assertEqual(sorted(np.concatenate(own)), list(range(3000)))
            self.assertGreaterEqual(min(map(len, own)), 50)


class Tools(unittest.TestCase):
    def test_sets_of_tasks_keep_their_shares(self):
        gives = {"digits": (32, 60.0), "letters": (64, 100.0)}
        self.assertEqual(pipe.subsets(gives), [(("digits", 32, 60.0),), (("letters", 64, 100.0),),
                                               (("digits", 32, 60.0), ("letters", 64, 100.0))])

    def test_re_planned_clients_are_read(self):
        self.assertEqual(deadline.replanned("a=256@60% b=64@12.5%"), {"a": (256, 60.0), "b": (64, 12.5)})
        self.assertEqual(deadline.replanned(""), {})

    def test_without_recorded_devices_there_is_a_table(self):
        own, source = devices.clients(12, HERE / "absent.csv", HERE / "devices.csv")
        self.assertEqual((len(own), source), (12, "synthetic"))
        self.assertTrue(all(c.up_bps >= 1e3 * devices.LEAST_UP_KBPS and c.speed > 0 for c in own))

    def test_a_rival_that_never_ends_is_infinitely_slower(self):
        def told(seconds):
            return {"seconds": seconds}

        found = virtual.ratios({"one after another": {"hindsight": told(20.0)},
                                "100 % each": {"hindsight": told(10.0)},
                                "plan by samples": {"hindsight": told(12.0), "as planned": told(None)},
                                "plan by progress": {"as planned": told(11.0)}})
        self.assertEqual(found, {"best_in_hindsight": "100 % each", "over_hindsight": 1.1, "over_samples_plan": 0.0,
                                 "over_one_after_another": 0.55})

    def test_the_order_of_schemes(self):
        rows = [{"scheme": "a", "predicted_s": 1, "real_s": 2}, {"scheme": "b", "predicted_s": 2, "real_s": 3}]
        self.assertTrue(page.order_kept(rows))
        rows[1]["real_s"] = 1
        self.assertFalse(page.order_kept(rows))


if __name__ == "__main__":
    unittest.main()
