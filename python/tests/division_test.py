"""Tests of who trains next among several federations, on a machine of numbers."""

import dataclasses
import heapq
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools.division import Division  # noqa: E402
from mt_tools.forecast import Work, choose, ends  # noqa: E402

GB = 10**9


def work(seconds, left, phases=0, clients=1, gap=0.0, workers=2, weight=1.0, need=1.0, start=1.0):
    return Work(weight, need, seconds, left, phases, clients, gap, workers, start)


class Playing(unittest.TestCase):
    def test_who_is_first_ends_first_and_the_others_fill(self):
        works = [work(1.0, 2), work(1.0, 4)]
        self.assertEqual(ends(works, [0, 1], 2), [1.0, 3.0])
        self.assertEqual(ends(works, [1, 0], 2), [3.0, 2.0])

    def test_between_rounds_another_has_the_processors(self):
        works = [work(1.0, 2, phases=1, clients=2, gap=1.0), work(1.0, 2)]
        self.assertEqual(ends(works, [0, 1], 2), [3.0, 2.0])
        self.assertEqual(ends(works[:1], [0], 2), [3.0])

    def test_twice_the_seconds_take_twice_as_long(self):
        works = [work(0.3, 3, 4, 7, 0.2), work(0.7, 0, 3, 5, 0.1, workers=1), work(1.1, 2, 2, 3, 0.5)]
        twice = [dataclasses.replace(w, seconds=2 * w.seconds, gap=2 * w.gap, start=2 * w.start) for w in works]
        for one, two in zip(ends(works, [2, 0, 1], 2), ends(twice, [2, 0, 1], 2)):
            self.assertAlmostEqual(two, 2 * one)

    def test_of_long_federations_a_part_is_played(self):
        works = [work(1.0, 50, 79, 50), work(1.0, 50, 159, 50)]
        first, last = ends(works, [0, 1], 2)
        # 4000 and 12000 seconds of work. At the end of each phase a client of the other may be at work for a second more.
        self.assertLess(abs(first / 2000 - 1), 0.1)
        self.assertLess(abs(last / 6000 - 1), 0.05)

    def test_more_workers_than_processors_do_not_help(self):
        self.assertEqual(ends([work(1.0, 8, workers=8)], [0], 2), [4.0])
        self.assertEqual(ends([work(1.0, 8, workers=8, need=0.25)], [0], 2), [1.0])


class Choosing(unittest.TestCase):
    def test_the_shorter_is_first_unless_the_other_is_worth_more(self):
        self.assertEqual(choose([work(1.0, 8), work(1.0, 4)], 2).order, [1, 0])
        self.assertEqual(choose([work(1.0, 8, weight=9.0), work(1.0, 4)], 2).order, [0, 1])

    def test_a_federation_with_one_client_at_a_time_is_not_left_for_the_end(self):
        # 12 seconds one after another, beside 20 seconds that use both processors.
        works = [work(1.0, 1, phases=11), work(1.0, 20)]
        self.assertEqual(max(choose(works, 2).ends), 16.0)

    def test_another_worker_starts_where_it_pays(self):
        for start, expected in ((1.0, [0]), (30.0, [])):
            self.assertEqual(choose([work(1.0, 20, workers=1, start=start)], 2).new, expected)
        self.assertEqual(choose([work(1.0, 20, workers=2)], 2).new, [])

    def test_each_gets_the_workers_that_it_needs(self):
        works = [work(1.0, 20, workers=1, start=0.5), work(1.0, 60, workers=1, start=0.5)]
        self.assertEqual(sorted(choose(works, 2).new), [0, 1])

    def test_clients_that_wait_are_not_worth_a_worker_each(self):
        found = choose([work(0.5, 8, workers=1, need=0.01, start=2.4)] * 2, 2)
        self.assertLessEqual(len(found.new), 2)

    def test_of_many_the_least_work_is_first(self):
        order = choose([work(1.0, left) for left in (9, 3, 7, 5, 1)], 2).order
        self.assertEqual(order, [4, 1, 3, 2, 0])


class Machine:
    """Plays federations of (seconds of a client, clients, rounds, gap, bytes) under a division."""

    def __init__(self, federations, total=8 * GB, weights=None):
        self.now, self.used_most, self.total = 0.0, 0, total
        self.division = Division(2.0, total, weights or [1.0] * len(federations), clock=lambda: self.now)
        self.federations, self.end = federations, {}
        self.waiting, self.running, self.round, self.left = {}, {}, {}, {}
        self.events = []
        for number in range(len(federations)):
            self.division.join(number)
            self.division.tell_rounds(number, federations[number][2])
            self.round[number] = 0
            heapq.heappush(self.events, (0.0, number, 0))

    def play(self):
        while self.events:
            self.now, number, worker = heapq.heappop(self.events)
            seconds, clients, rounds, gap, size = self.federations[number]
            if worker:
                del self.running[number, worker]
                self.division.ended(number, worker, {"seconds": seconds, "wanted_s": seconds, "before_s": 1.0, "peak": size})
                self.left[number] -= 1
                if not self.left[number]:
                    if self.round[number] == rounds:
                        self.division.leave(number)
                        self.end[number] = self.now
                    else:
                        heapq.heappush(self.events, (self.now + gap, number, 0))
            else:
                self.round[number] += 1
                self.waiting[number] = self.left[number] = clients
                self.division.send(number, clients, str(self.round[number]))
            self.start()
        return [self.end[number] for number in range(len(self.federations))]

    def start(self):
        used = sum(self.federations[number][4] for number, _ in self.running)
        self.used_most = max(self.used_most, used)
        self.division.look(self.total - used)
        for federation, _ in self.running:
            sizes = {worker: self.federations[federation][4] for number, worker in self.running if number == federation}
            for worker in self.division.saw(federation, sizes):
                assert (federation, worker) not in self.running
        started = True
        while started:
            started = False
            for number, federation in self.division.federations.items():
                federation.asks = self.waiting.get(number, 0) > 0
            for number in list(self.division.federations):
                worker = self.division.federations[number].asks and self.division._next(number)
                if worker:
                    self.waiting[number] -= 1
                    self.running[number, worker] = True
                    heapq.heappush(self.events, (self.now + self.federations[number][0], number, worker))
                    used = sum(self.federations[n][4] for n, _ in self.running)
                    self.division.look(self.total - used)
                    started = True
                    break


class Dividing(unittest.TestCase):
    def test_it_is_faster_than_one_after_another_and_fixed_parts(self):
        federations = [(1.0, 6, 5, 0.5, GB // 10), (0.5, 10, 8, 0.5, GB // 10), (2.0, 5, 8, 0.5, GB // 10)]
        found = Machine(federations).play()
        after, now = [], 0.0
        for seconds, clients, rounds, gap, _ in federations:
            now += rounds * (-(-clients // 2) * seconds + gap) - gap
            after.append(now)
        fixed = [1.5 * rounds * (clients * seconds + gap) for seconds, clients, rounds, gap, _ in federations]
        for rival in (after, fixed):
            self.assertLess(max(found), max(rival))
            self.assertLess(max(found) + sum(found) / 3, max(rival) + sum(rival) / 3)
        # 150 seconds of work: no schedule on two processors ends before half of that.
        self.assertLess(max(found), 1.15 * 75)

    def test_weights_change_who_ends_first(self):
        federations = [(1.0, 6, 5, 0.1, GB // 10), (1.0, 6, 10, 0.1, GB // 10)]
        equal = Machine(federations).play()
        weighted = Machine(federations, weights=[1.0, 20.0]).play()
        self.assertLess(equal[0], equal[1])
        self.assertLess(weighted[1], weighted[0])

    def test_memory_suffices_for_all(self):
        machine = Machine([(1.0, 6, 3, 0.1, 3 * GB), (0.5, 8, 4, 0.1, GB), (0.5, 8, 4, 0.1, 2 * GB)], 6 * GB)
        self.assertEqual(len(machine.play()), 3)
        self.assertLess(machine.used_most, 6 * GB)

    def test_a_large_federation_is_not_kept_waiting_by_small_ones(self):
        # Beside the small ones it never fits.
        ends_s = Machine([(0.5, 40, 5, 0.1, GB), (1.0, 3, 2, 0.1, 7 * GB)]).play()
        self.assertLess(ends_s[1], 15)

    def test_one_that_dies_for_memory_is_trained_again_if_it_was_not_alone(self):
        shared = Division(2.0, GB, [1.0, 1.0], clock=lambda: 0.0)
        for number in (0, 1):
            shared.federations[number].asks = True
            shared.join(number)
            shared.federations[number].sizer.done = 1
        first, second = shared._next(0), shared._next(1)
        self.assertIsNotNone(first)
        self.assertIsNotNone(second)
        self.assertTrue(shared.lost(1, second, True))
        self.assertEqual(shared.most, 1)
        self.assertFalse(shared.lost(0, first, True))

    def test_who_has_left_is_not_waited_for(self):
        shared = Division(1.0, GB, [1.0, 1.0], clock=lambda: 0.0)
        for number in (0, 1):
            shared.join(number)
            shared.federations[number].asks = True
        self.assertIsNotNone(shared._next(0))
        self.assertIsNone(shared._next(1))
        shared.leave(0)
        self.assertIsNotNone(shared._next(1))


if __name__ == "__main__":
    unittest.main()
