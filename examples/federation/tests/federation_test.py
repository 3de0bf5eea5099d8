"""The functions that need no tools, no network and no data sets; skipped if numpy is absent."""
import json
import math
import pathlib
import statistics
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed")

from federation import alone, clock, curves, data, deadline, devices, few, kept, law, net, noise, page, pipe, schemes, virtual  # noqa: E402

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
        phi = law.phi_of({b: 0.3 * (75 + b) for b in curves.BATCHES})
        self.assertLess(abs(phi / 75 - 1), 0.03)

    def test_what_a_sample_is_worth_is_the_law_until_learning_rates_end(self):
        for batch in curves.BATCHES:
            free = law.worth(90, batch, 32, 0.1, lambda b: math.inf)
            self.assertAlmostEqual(free, (90 + 32) / (90 + batch))
            # The equation by hand: how much a step at rate e lowers the loss, divided by the samples of the step.
            best = 0.3 * (1 + 90 / 32) / (1 + 90 / batch)
            taken = min(best, 0.3)
            by_hand = taken * (1 - taken / best / 2) / batch / (0.3 / 2 / 32)
            self.assertAlmostEqual(law.worth(90, batch, 32, 0.3, lambda b: 0.3), by_hand)
        # At one rate, a step of a larger batch is worth less than twice a step of the reference.
        self.assertLess(law.worth(1e9, 1 << 20, 32, 0.3, lambda b: 0.3) * (1 << 20) / 32, 2)
        # A rate above the sweep's last one, as in a sweep that grows with the batch, must not be lowered.
        self.assertAlmostEqual(law.worth(90, 32, 32, 0.5, lambda b: 0.3), 1)

    def test_a_table_and_a_noise_scale_say_the_same_of_a_size_that_is_kept(self):
        told = noise.known(90.0, 8.0, curves.BATCHES, [1000] * 6)
        table = law.bounded(told, 0.1, lambda b: math.inf, curves.BATCHES)
        for batch in curves.BATCHES:
            one, other = schemes.kept_size(told, batch), schemes.kept_size(table, batch)
            self.assertAlmostEqual(one["rounds_to_target"], other["rounds_to_target"])
            self.assertEqual(other["batch_sizes"], [batch])

    def test_rounds_that_were_seen_are_levelled_and_sizes_that_missed_the_target_left_out(self):
        told = law.learnt({8: 4.0, 16: 3.0, 32: 3.0, 64: 6.0, 128: 12.0, 256: math.inf}, 32)
        self.assertEqual(told["batch_sizes"], [8, 16, 32, 64, 128])
        level = 36 ** (1 / 3)
        self.assertAlmostEqual(told["rounds_to_target"], level)
        for batch, rounds in {8: level, 16: level, 32: level, 64: 6, 128: 12}.items():
            self.assertAlmostEqual(schemes.kept_size(told, batch)["rounds_to_target"], rounds)

    def test_the_best_by_other_seeds_has_no_luck(self):
        def ends(*seconds):
            return clock.Ends([{"a": s} for s in seconds])

        made = schemes.Schemes.__new__(schemes.Schemes)
        # The first is best only because of its third seed; the other seeds do not choose it.
        made.tried = {"x": [ends(12, 12, 1), ends(9, 9, 9)], "y": [ends(20, 20, 20)]}
        self.assertEqual(made.crossed(["x", "y"]), (12 + 12 + 9) / 3)
        self.assertEqual(made.crossed(["y"]), 20)

    def test_seeds_that_differ_make_the_interval_of_the_law(self):
        same = law.shown({b: [75 + b] * 5 for b in (8, 32, 128)})
        self.assertEqual(same["low"], same["high"])
        odd = law.shown({b: [f * (75 + b) for f in (0.7, 0.8, 1, 1.2, 1.3)] for b in (8, 32, 128)})
        self.assertLess(odd["low"], odd["phi"])
        self.assertGreater(odd["high"], odd["phi"])
        self.assertIsNone(law.shown({8: [3.0], 16: [math.inf]})["phi"])

    def test_a_training_that_never_reaches_its_target_has_no_noise_scale(self):
        coin = np.random.default_rng(1).integers(0, 2, 400)
        targets = {"coin": 1.1}
        with unittest.mock.patch.multiple(alone, TARGETS=targets, MOST_EPOCHS=1):
            found = alone.row("coin", data.divide(np.zeros((400, 6)), coin))
        self.assertEqual((found["later_half"], found["over_time"]), (math.inf, math.inf))

    def test_a_scale_that_changes_is_one_by_the_length_of_the_training(self):
        # 100 steps at phi 32, 100 at phi 96: at 64 they take 96 / 64 and 160 / 128 times the samples, as at phi 53.3.
        phi = alone.over_time([(32.0, 1.0)] * 100 + [(96.0, 1.0)] * 100)
        self.assertAlmostEqual((phi + 64) / (phi + 32), (96 / 64 + 160 / 128) / 2)


class Few(unittest.TestCase):
    def test_a_crossing_lies_in_the_round_that_reaches_the_target(self):
        # The third round falls back: the fourth reaches 0.7 from 0.6, the highest so far.
        self.assertAlmostEqual(few.crossing([0.4, 0.6, 0.5, 0.8], 0.7), 3.5)
        self.assertEqual(few.crossing([0.9], 0.1), 0.3)
        self.assertEqual(few.crossing([0.4, 0.5], 0.7), math.inf)

    def test_whole_rounds_and_crossings_of_two_trainings(self):
        runs = [[0.4, 0.8], [0.2, 0.4, 0.6, 0.8]]
        self.assertEqual(few.by_whole(runs, 0.7), 3.0)
        self.assertAlmostEqual(few.by_crossing(runs, 0.7), math.sqrt(1.75 * 3.5))

    def test_the_interval_pools_the_spread_of_sizes(self):
        # Four sizes with a square of 1/2 each beside the prior: Student's t for 8 degrees of freedom is 2.31.
        pairs = [[n, n * math.e] for n in (4, 5, 6, 9)]
        spread = math.sqrt((4 * 0.5 + law.SPREAD_FREEDOM * law.SPREAD ** 2) / (4 + law.SPREAD_FREEDOM))
        self.assertAlmostEqual(math.log(law.within(pairs)) / (2.31 * spread * math.sqrt(1.5)), 1, places=2)
        self.assertEqual(law.within([*pairs, [3, math.inf]]), law.within(pairs))
        self.assertIsNone(law.within([[3, math.inf]]))
        for row in law.learnt({16: 4, 32: 6}, 32, 2.0)["efficiency"]["table"]:
            self.assertEqual(row["interval"], [row["progress"] / 2, row["progress"] * 2])

    def test_held_counts_both_sides_and_a_constant(self):
        found = few.held([few.Miss(*m) for m in ((0.4, 2.0), (0.9, 2.0), (1.5, 1.2), (2.5, 3.0))])
        self.assertEqual(found, {"within": 50.0, "below": 25.0, "above": 25.0, "factor": 2.0, "within_constant": 50.0,
                                 "trainings": 4})

    def test_the_kept_figures_are_those_of_the_rows(self):
        told = json.loads((HERE / "few.json").read_text())
        self.assertEqual(len(told["rows"]), len(few.MIXES) * len(few.ROUNDS) * len(few.PAIRS))
        for name, figures in told["all"].items():
            lost = [r["over_hindsight"][name] for r in told["rows"]]
            self.assertEqual((figures["median"], figures["worst"]), (round(statistics.median(lost), 3), max(lost)))

    def test_the_documents_quote_the_kept_figures(self):
        told = json.loads((HERE / "few.json").read_text())
        every, off = told["all"], told["rounds_over_planned"]["two trainings"]
        two, between, four = (every[kind] for kind in few.KINDS)
        single = every["two trainings: each task's best size alone"]
        by_rounds = {kind: [told["by_rounds"][str(k)][kind]["median"] for k in few.ROUNDS] for kind in few.KINDS}

        held, left = told["intervals"]["in_use"], told["intervals"]["left_out"]
        by_set = [left[name]["within"] for name in few.TABLES]

        def listed(kind):
            return "{:.3f}, {:.3f} and {:.3f}".format(*by_rounds[kind])

        quoted = {"README.md": (
            f"median {two['median']:.3f}, worst {two['worst']:.3f}; each task's best size alone: "
            f"{single['median']:.3f}, worst {single['worst']:.3f}",
            f"gives {between['median']:.3f} and {between['worst']:.3f}, two more trainings at each size "
            f"{four['median']:.3f} and {four['worst']:.3f}",
            f"{listed('four trainings')}, instead of {listed('two trainings')}",
            f"between {off['low']:.2f} and {off['high']:.2f} times the planned rounds",
            f"for {held['within']} % of the {held['trainings']} trainings of the judges, {held['below']} % below and "
            f"{held['above']} % above, with a median factor of {held['factor']}",
            f"the intervals hold for {left['all']['within']} %", f"holds for {held['within_constant']} % at the same"),
            "../../docs/federated.md": (
                f"took {two['median']:.2f} times the time of the best in hindsight in the median, and "
                f"{two['worst']:.2f} times at worst",
                f"took {single['median']:.2f} and {single['worst']:.2f} times",
                f"between {off['low']:.2f} and {off['high']:.2f} times the planned rounds",
                f"{held['within']} % of {held['trainings']} other trainings stay within it",
                f"the median factor is {held['factor']}", f"a prior of {law.SPREAD} with {law.SPREAD_FREEDOM} degrees",
                f"holds for {min(by_set)} to {max(by_set)} % of the fourth",
                f"holds for {held['within_constant']} %")}
        for name, sentences in quoted.items():
            text = " ".join((HERE / name).read_text().split())
            for sentence in sentences:
                self.assertIn(sentence, text)


class Kept(unittest.TestCase):
    def test_what_is_kept_is_not_computed_again_and_appears_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "row.json"
            self.assertEqual(kept.remembered(path, lambda: [1]), [1])
            self.assertEqual(kept.remembered(path, lambda: self.fail("computed again")), [1])
            self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], ["row.json"])

    def test_the_hash_knows_where_a_part_ends(self):
        self.assertNotEqual(kept.hash_of([b"ab", b"c"]), kept.hash_of([b"a", b"bc"]))


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

    def test_late_clients_share_the_learning_rate_of_the_plan(self):
        known = law.bounded(noise.known(90.0, 8.0, curves.BATCHES, [10_000] * 6), 0.1, lambda b: math.inf, curves.BATCHES)
        told = deadline.at_one_rate(known, 90.0, 64)
        self.assertEqual((told["batch"], told["batch_sizes"]), (64, [64, 128, 256]))
        # Four times the batch, each step at the same rate: 1 - (1 + 90/256) / (1 + 90/64) / 2 over a half.
        by_hand = (1 - (1 + 90 / 256) / (1 + 90 / 64) / 2) / 0.5 / 4
        self.assertAlmostEqual(told["efficiency"]["table"][2]["progress"], by_hand)
        self.assertEqual(len(deadline.at_one_rate(known, 90.0, 256)["efficiency"]["table"]), 2)
        # A size that needs many rounds even at its own best rate is worth no more at another.
        seen = law.learnt({32: 5.0, 64: 5.0, 128: 6.0, 256: 100.0}, 32)
        worth = [row["progress"] for row in deadline.at_one_rate(seen, 90.0, 64)["efficiency"]["table"]]
        self.assertAlmostEqual(worth[1], law.worth(90.0, 128, 64, 1.0, lambda _: 1.0))
        self.assertAlmostEqual(worth[2], 0.05)

    def test_what_is_foretold_is_read(self):
        note = "x\nmt-overlap: note: targets are reached in 203.2 s where all wait for the slowest; by the deadline, " \
               "late devices with fewer samples, in 318.3 s; "
        self.assertEqual(deadline.foretold_by(note + "no other batch sizes and shares of late devices are faster"),
                         (203.2, 318.3, 318.3))
        self.assertEqual(deadline.foretold_by(note + "with other batch sizes and shares of 1 of them in 307.4 s: waiting "
                                              "for all is faster"), (203.2, 318.3, 307.4))
        never = note.replace("in 318.3 s", "never (nobody trains on one of the tasks)")
        self.assertEqual(deadline.foretold_by(never + "no other batch sizes"), (203.2, math.inf, math.inf))

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
                                schemes.SINGLE: {"as planned": told(22.0)},
                                "plan by progress": {"as planned": told(11.0)}})
        self.assertEqual(found, {"best_in_hindsight": "100 % each", "over_hindsight": 1.1, "over_samples_plan": 0.0,
                                 "over_single": 0.5, "over_one_after_another": 0.55})

    def test_a_training_without_a_later_half_is_a_dash(self):
        row = {"task": "a", "epochs": {str(b): math.inf for b in page.BATCHES},
               "shown": law.shown({b: [math.inf] for b in page.BATCHES}),
               "summed": 12.0, "later_half": math.inf, "over_time": 9.0, "by_rate": {"0.1": math.inf}}
        text = page._alone({"alone": page._rounded([row])})
        self.assertIn("| - | 12 | - | 9 | - at 0.1 |", text)

    def test_the_order_of_schemes(self):
        rows = [{"scheme": "a", "foretold_s": 1, "real_by_seed_s": [2, 5]},
                {"scheme": "b", "foretold_s": 2, "real_by_seed_s": [3, 6]}]
        self.assertEqual(page.apart(rows), [(rows[0], rows[1])])
        self.assertTrue(page.order_kept(rows))
        rows[0]["foretold_s"] = 3
        self.assertFalse(page.order_kept(rows))
        # With one seed the other is sooner: nothing is known of their order.
        rows[1]["real_by_seed_s"] = [1, 6]
        self.assertEqual(page.apart(rows), [])
        self.assertTrue(page.order_kept(rows))


if __name__ == "__main__":
    unittest.main()
