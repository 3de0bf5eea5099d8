"""Tests of how many workers run at once, on a machine of numbers, and of reading memory."""

import os
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools import gpus, memory  # noqa: E402
from mt_tools.flower_mod import planned  # noqa: E402
from mt_tools.sizing import FLAT_S, Card, Sizer, cap  # noqa: E402

GB = 10**9


def play(sizer, work, others=0, pieces=40, step=0.1):
    """Plays `pieces` of work, each (seconds on a processor, seconds waiting, bytes), on shared processors with
    `others` bytes in use. Gives the seconds, the most at once, and the most bytes that were in use at once."""
    now, begun, left = 0.0, 0, {}
    most = used_most = 0
    while begun < pieces or left:
        used = others + sum(size * min(1, (now - since) / 0.5) for _, _, size, since in left.values())
        used_most = max(used_most, used)
        while begun < pieces and sizer.may_start(now, sizer.total - int(used)):
            sizer.started(begun, now)
            left[begun] = (*work[begun % len(work)], now)
            begun += 1
        most = max(most, len(left))
        computing = sum(1 for cpu, *_ in left.values() if cpu > 0)
        part = min(1, sizer.processors / max(1, computing))
        for number, (cpu, wait, size, since) in list(left.items()):
            if cpu > 0:
                left[number] = (cpu - step * part, wait, size, since)
            elif wait > 0:
                left[number] = (cpu, wait - step, size, since)
            else:
                del left[number]
                whole = work[number % len(work)]
                sizer.ended(number, whole[0] + whole[1], whole[0], size)
        for number, (_, _, size, since) in left.items():
            sizer.saw(number, now, int(size * min(1, (now - since) / 0.5)))
        sizer.look(step, max(0.0, sizer.processors - computing), begun < pieces)
        now += step
    return now, most, used_most


def play_card(total, each, best, pieces=200, others=0):
    """Plays `pieces` of a second each on a GPU that trains up to `best` workers at full speed, and no more than that in
    all. Gives the card, and the most that trained at once."""
    card, running, begun, most, workers = Card(total, total - others), {}, 0, 0, 0
    while begun < pieces or running:
        idle = [worker for worker in card.bytes if worker not in running]
        while begun < pieces:
            may = [worker for worker in idle if card.may_start(worker)]
            if may:
                worker = may[0]
                idle.remove(worker)
            elif not idle and card.may_create():
                worker, workers = workers, workers + 1
            else:
                break
            card.started(worker)
            running[worker], begun = 1.0, begun + 1
        most = max(most, len(running))
        sizes = {worker: each for worker in card.bytes}
        card.saw(total - others - sum(sizes.values()), sizes)
        card.look(0.1)
        speed = min(1.0, best / max(1, len(running)))
        for worker in [*running]:
            running[worker] -= 0.1 * speed
            if running[worker] <= 1e-9:
                del running[worker]
                card.ended(worker)
    return card, most


class Cards(unittest.TestCase):
    def test_as_many_as_memory_holds(self):
        self.assertEqual(play_card(10 * GB, GB, best=99)[1], 8)
        self.assertEqual(play_card(10 * GB, GB, best=99, others=4 * GB)[1], 4)
        # Not even two.
        self.assertEqual(play_card(10 * GB, 6 * GB, best=99)[1], 1)

    def test_no_more_than_gain(self):
        for best in (1, 3, 6):
            card, most = play_card(100 * GB, GB, best)
            self.assertTrue(card.settled)
            self.assertEqual((card.level, most), (best, best + 1))

    def test_a_program_that_uses_no_gpu_does_not_wait_for_it(self):
        card, _ = play_card(10 * GB, 0, best=99, pieces=1)
        card.started(0)
        self.assertTrue(card.may_create())
        self.assertTrue(card.may_start(1))

    def test_too_little_memory_is_remembered(self):
        card, _ = play_card(10 * GB, GB, best=99, pieces=20)
        for worker in range(3):
            card.started(worker)
        card.out_of_memory(2)
        self.assertEqual((card.level, card.settled), (2, True))
        self.assertNotIn(2, card.bytes)

    def test_caps_begin_where_they_gain(self):
        self.assertEqual([cap(number) for number in (1, 3, 4, 8)], [100, 100, 50, 25])

    def test_gpus_are_chosen_as_cuda_does(self):
        both = [gpus.Gpu(uuid, None, None) for uuid in ("GPU-ab12", "GPU-cd34")]
        for words, expected in ((None, [0, 1]), ("", []), ("1", [1]), ("1,0", [1, 0]), ("GPU-cd", [1]), ("0,7,1", [0]), ("1,1", [1])):
            self.assertEqual(gpus.chosen(both, words), [both[number] for number in expected], words)


class Mod(unittest.TestCase):
    def test_the_batch_size_is_that_of_the_plan(self):
        for environment, expected in (({"MT_BATCH_SIZE": "64"}, 64), ({}, 32)):
            context = types.SimpleNamespace(run_config={"batch-size": 32})
            with mock.patch.dict(os.environ, environment):
                reply = planned("message", context, lambda message, context: (message, context.run_config["batch-size"]))
            self.assertEqual(reply, ("message", expected))


class Sizing(unittest.TestCase):
    def test_workers_that_compute_are_as_many_as_processors(self):
        seconds, most, _ = play(Sizer(2.0, 4 * GB), [(2.0, 0.0, GB // 10)])
        self.assertEqual(most, 2)
        # 40 seconds are the least for 80 seconds of work; the first is alone until its memory is known.
        self.assertLess(seconds, 46)

    def test_workers_that_wait_are_more(self):
        _, most, _ = play(Sizer(2.0, 4 * GB), [(0.5, 1.5, GB // 10)])
        self.assertGreaterEqual(most, 7)

    def test_memory_bounds_them_and_what_others_use_counts(self):
        for size, others, expected in [(GB, 0, 3), (GB, 2 * GB, 1), (3 * GB, 0, 1), (GB // 2, 0, 6)]:
            sizer = Sizer(8.0, 4 * GB)
            _, most, used = play(sizer, [(2.0, 0.0, size)], others)
            self.assertEqual(most, expected, (size, others))
            self.assertLessEqual(used, 4 * GB)

    def test_before_the_first_is_done_others_wait_until_its_memory_is_flat(self):
        sizer = Sizer(4.0, 4 * GB)
        self.assertTrue(sizer.may_start(0.0, 4 * GB))
        sizer.started(1, 0.0)
        sizer.saw(1, 0.1, GB // 2)
        self.assertFalse(sizer.may_start(0.2, 3 * GB))
        self.assertTrue(sizer.may_start(0.2 + FLAT_S, 3 * GB))
        sizer.saw(1, 1.0, GB)
        self.assertFalse(sizer.may_start(0.2 + FLAT_S, 3 * GB))

    def test_a_shortage_is_met_by_fewer(self):
        sizer = Sizer(4.0, 8 * GB)
        for worker in range(4):
            sizer.started(worker, 0.0)
        sizer.ended(0, 1.0, 1.0, GB // 10)
        sizer.out_of_memory(1)
        self.assertEqual(sizer.level(), 2)
        sizer.failed(2)
        self.assertEqual(sizer.level(), 2)

    def test_workers_of_several_threads_are_fewer(self):
        sizer = Sizer(8.0, 8 * GB)
        sizer.started(0, 0.0)
        sizer.ended(0, 1.0, 3.0, GB)
        self.assertEqual(sizer.level(), 3)

    def test_one_more_stays_only_if_less_is_idle(self):
        for helps in (True, False):
            sizer = Sizer(2.0, 8 * GB)
            sizer.started(0, 0.0)
            sizer.ended(0, 1.0, 1.0, GB // 10)
            for worker in range(3):
                sizer.started(worker, 0.0)
            for _ in range(300):
                sizer.look(0.1, 0.2 if sizer.extra and helps else 0.4, True)
            self.assertEqual(sizer.level() > 2, helps)


    def test_a_worker_is_created_when_idle_time_has_paid_for_it(self):
        sizer = Sizer(2.0, 8 * GB, start_s=3.0)
        sizer.started(0, 0.0)
        sizer.ended(0, 1.0, 0.1, GB // 10)
        sizer.look(2.0, 1.4, False)
        sizer.look(2.0, 1.4, True)
        self.assertFalse(sizer.may_create())
        sizer.look(0.2, 1.4, True)
        self.assertTrue(sizer.may_create())
        self.assertFalse(sizer.may_create())


class Memory(unittest.TestCase):
    def test_this_process_has_some_and_no_more_than_there_is(self):
        now, peak = memory.anonymous(os.getpid())
        self.assertTrue(1 << 20 < now <= peak)
        free, total = memory.free_and_total()
        self.assertTrue(0 < free <= total)
        self.assertEqual(memory.anonymous(2**22 + 1), (0, 0))
        self.assertGreaterEqual(memory.kills(), 0)


if __name__ == "__main__":
    unittest.main()
