"""How a device may be shared: one after another, fixed shares, and what mt-solve plans."""
from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Sequence

from federation import law, noise, pipe
from federation.clock import Clock, Ends, Gives, Sizes, Stage
from federation.curves import BATCHES, RATES
from federation.noise import REFERENCE
from federation.pipe import Round, Task

LARGEST = max(BATCHES)

FIXED = {"equal shares": lambda n: 100 / n, "100 % each": lambda n: 100.0,
         "NVIDIA's advice": lambda n: min(100.0, 200 / n)}
"""Share in percent of each of n tasks. NVIDIA's advice for MPS: 100 % / (0.5 n)."""

IN_TURNS = "one after another"
SAMPLES = "plan by samples"
PROGRESS = "plan by progress"
"""By the rounds of the runs that chose learning rates."""
NORMS = "plan by noise scale"
"""By the noise scale that workers measure at the reference size, for those who have no runs at other sizes."""
ANY_SIZE = "plan by noise scale, any batch size"
"""The same without the bound on steps, which leaves momentum enough steps to build up."""
ANY_RATE = "plan by noise scale, any learning rate"
"""The same as if the sweep of learning rates had no end."""
SINGLE = "each task's best size alone, 100 % each"
"""The trivial rival of the plan by progress: it has the same rounds, and no model of co-runs."""


class Outcome(NamedTuple):
    """The result of a scheme, and its batch sizes."""

    sizes: Sizes
    ends: Ends


class Schemes:
    """Every scheme on one mix."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.mix = clock, clock.mix
        self.models = {c.gpu: clock.devices.model(c.gpu, self.mix.tasks) for c in self.mix.clients}
        self.plans: dict[str, list[dict]] = {}
        self.tried: dict[str, list[Ends]] = {}
        """All results of each scheme, including those on the way to its best in hindsight."""

    def all(self) -> dict[str, dict[str, Outcome]]:
        """Each scheme at the reference batch size, at the largest and at its best in hindsight."""
        outcomes = {name: self._at_sizes(lambda sizes, n=name: self.fixed(n, sizes)) for name in (IN_TURNS, *FIXED)}
        # Plans for all combinations of sizes would take hours: only sizes that all tasks share are tried, and those
        # that were best with fixed shares.
        tried = [{t: b for t in self.mix.tasks} for b in BATCHES]
        tried += [{t: s[0] for t, s in outcomes[name]["hindsight"].sizes.items()} for name in FIXED]
        judged = self._noted(SAMPLES, self.planned([self.clock.same(s) for s in tried]))
        outcomes[SAMPLES] = self._at(self.planned, min(zip((e.score() for e in judged), range(len(tried))))[1], tried)
        outcomes[SAMPLES]["as planned"] = self.by_samples()
        return outcomes

    def _at_sizes(self, judge) -> dict[str, Outcome]:
        best = self.clock.search(lambda sizes: [e.score() for e in judge([self.clock.same(s) for s in sizes])])
        return self._at(judge, 0, [best])

    def _at(self, judge, best: int, tried: Sequence[Mapping[Task, int]]) -> dict[str, Outcome]:
        sizes = {"reference": {t: REFERENCE for t in self.mix.tasks},
                 "largest": {t: LARGEST for t in self.mix.tasks}, "hindsight": tried[best]}
        return {at: Outcome(self.clock.same(s), judge([self.clock.same(s)])[0]) for at, s in sizes.items()}

    def fixed(self, name: str, sizes: Sequence[Sizes]) -> list[Ends]:
        """Shares that depend only on the number of tasks; one after another, a task has the whole device."""
        def shares(wanted: Sequence[Stage]) -> list[list[Gives]]:
            return self._fixed_shares(name, wanted)

        together = self.clock.judge(name, shares, sizes, in_turns=name == IN_TURNS)
        if name != IN_TURNS:
            return self._noted(name, together)
        # Two ways of one after another: in every round, where transfers overlap, or task by task to its target, the
        # shortest first.
        apart = [self._task_by_task(name, shares, s) for s in sizes]
        return self._noted(name, [min(pair, key=Ends.score) for pair in zip(together, apart)])

    def _noted(self, name: str, ends: list[Ends]) -> list[Ends]:
        self.tried.setdefault(name, []).extend(ends)
        return ends

    def crossed(self, names: Sequence[str]) -> float:
        """Time to target of the best of these schemes and batch sizes in hindsight, chosen with the other seeds and
        judged on one; the mean over seeds. The minimum of some hundred means of five seeds is partly luck, which does
        not carry over to another seed."""
        tried = [e.last() for name in names for e in self.tried[name]]
        seeds = range(len(tried[0]))
        best = [min(tried, key=lambda last, k=k: sum(s for j, s in enumerate(last) if j != k))[k] for k in seeds]
        return sum(best) / len(best)

    def _fixed_shares(self, name: str, wanted: Sequence[Stage]) -> list[list[Gives]]:
        # MPS takes whole percentages.
        return [[{t: (own[t][k], float(int(FIXED[name](len(active)))) if name in FIXED else 100.0)
                  for t in self.mix.tasks if t in active} for k in range(len(self.mix.clients))]
                for active, own in wanted]

    def _task_by_task(self, name: str, shares, sizes: Sizes) -> Ends:
        length = self.clock.lengths(name, shares, [(frozenset([t]), sizes) for t in self.mix.tasks], in_turns=True)
        ends = []
        for rounds in self.clock.rounds(sizes):
            spans = {t: n * length[self.clock.key(name, frozenset([t]), sizes)] for t, n in rounds.items()}
            order = sorted(spans, key=lambda t: spans[t])
            ends.append({t: sum(spans[u] for u in order[:k + 1]) for k, t in enumerate(order)})
        return Ends(ends)

    def planned(self, sizes: Sequence[Sizes]) -> list[Ends]:
        """Shares of mt-solve for the shortest round, with given batch sizes."""
        return self.clock.judge(SAMPLES, self.shares_planned, sizes)

    def learnt(self) -> dict[Task, dict]:
        """What a user knows of each task after the runs that chose the learning rate of each batch size."""
        return {t: law.learnt({b: self.clock.curves.seen(self.mix.setting(t), b) for b in BATCHES}, REFERENCE)
                for t in self.mix.tasks}

    def single(self, known: Mapping[Task, Mapping]) -> Outcome:
        """Each task at the batch size that reaches its target soonest where it has the devices for itself, by measured
        rates; then all together at 100 %."""
        sizes = {}
        for task in self.mix.tasks:
            tried = [self.clock.same({**{t: REFERENCE for t in self.mix.tasks}, task: b})
                     for b in known[task]["batch_sizes"]]
            only = frozenset([task])
            length = self.clock.lengths(IN_TURNS, lambda wanted: self._fixed_shares(IN_TURNS, wanted),
                                        [(only, s) for s in tried], in_turns=True)
            sizes[task] = min((length[self.clock.key(IN_TURNS, only, s)] / worth_of(known[task], s[task][0]), s[task][0])
                              for s in tried)[1]
        whole = self.clock.same(sizes)
        return Outcome(whole, self.fixed("100 % each", [whole])[0])

    def measured(self, steps: bool = True, rates: bool = True) -> dict[Task, dict]:
        """What a user knows of each task after a first run at the reference size, with the bound on `steps` per round
        and with the end of the sweep of learning `rates`."""
        curves, found = self.clock.curves, {}

        def most(batch: int) -> float:
            return max(RATES) * (math.sqrt(batch / REFERENCE) if curves.scaled else 1.0)

        for task in self.mix.tasks:
            setting = self.mix.setting(task)
            known = noise.known(curves.phi(setting)["pooled"], curves.seen(setting), BATCHES, curves.rows(setting), steps)
            rate = curves.rate(setting, [REFERENCE] * setting.clients)
            found[task] = law.bounded(known, rate, most, BATCHES) if rates else known
        return found

    def shares_planned(self, wanted: Sequence[Stage]) -> list[list[Gives]]:
        return [[pipe.gives_of(p) if p else {t: (sizes[t][k], 100.0) for t in active} for k, p in enumerate(plans)]
                for (active, sizes), plans in zip(wanted, self._planned(wanted))]

    def _planned(self, wanted: Sequence[Stage]) -> list[list[dict | None]]:
        """The plans of the clients for each stage, with one call of mt-solve for each set of tasks. Clients that need
        no plan have none: a task alone has 100 %."""
        new: dict[frozenset[Task], list[Stage]] = {}
        slow = self._slow([s for s in wanted if self.clock.key("", *s) not in self.plans])
        for active, sizes in wanted:
            key = self.clock.key("", active, sizes)
            if len(active) == 1:
                self.plans[key] = [None] * len(self.mix.clients)
            elif key not in self.plans:
                new.setdefault(active, []).append((active, sizes))
        for active, group in new.items():
            only = [t for t in self.mix.tasks if t in active]
            models = [pipe.adapted(self.models[c.gpu], c, self.clock.rows(k, active),
                                   {t: {"batch_sizes": [sizes[t][k]]} for t in only})
                      for _, sizes in group for k, c in enumerate(self.mix.clients)
                      if k in slow[self.clock.key("", active, sizes)]]
            answers = iter(pipe.solve(models, only, ["--objective", "round", "--batch", "free"]))
            for stage in group:
                key = self.clock.key("", *stage)
                self.plans[key] = [next(answers) if k in slow[key] else None for k in range(len(self.mix.clients))]
        return [self.plans[self.clock.key("", *stage)] for stage in wanted]

    def _slow(self, wanted: Sequence[Stage]) -> dict[str, list[int]]:
        """The clients that may be the slowest under a plan: those whose round with 100 % for each task takes at least
        0.85 of the longest. Plans saved less than 5 % over that on these devices, so the other clients wait in any
        case."""
        gives = self._fixed_shares("100 % each", wanted)
        rounds = [Round(c, g, self.clock.rows(k, active))
                  for (active, _), stage in zip(wanted, gives)
                  for k, (c, g) in enumerate(zip(self.mix.clients, stage))]
        seconds, slow = iter(self.clock.devices.lengths(rounds)), {}
        for stage in wanted:
            own = [next(seconds) for _ in self.mix.clients]
            slow[self.clock.key("", *stage)] = [k for k, s in enumerate(own) if s >= 0.85 * max(own)]
        return slow

    def by_samples(self) -> Outcome:
        """The plan by samples: every client's mt-solve chooses its batch sizes freely for the shortest round of all
        tasks, and keeps them when tasks leave."""
        answers = pipe.solve([pipe.adapted(self.models[c.gpu], c, self.clock.rows(k, self.mix.tasks))
                              for k, c in enumerate(self.mix.clients)], self.mix.tasks,
                             ["--objective", "round", "--batch", "free"])
        sizes = sizes_of(self.mix.tasks, answers)
        return Outcome(sizes, self.planned([sizes])[0])

    def by_progress(self, known: Mapping[Task, Mapping]) -> Outcome:
        """The plan by progress: the proposal that reaches all targets soonest, by what is `known` of the tasks
        (members of the workload: `efficiency`, `rounds_to_target`, and `batch_sizes` to choose from).

        Every client proposes the batch sizes that mt-solve plans for it. A round ends with its slowest client, so the
        server takes the proposal with the shortest time for the worst-off client, and gives it to all. (A client that
        waits for its link would choose small batches, which a slow one cannot afford.) Each client chooses its own
        shares."""
        options, everyone = ["--objective", "progress-last"], frozenset(self.mix.tasks)
        plans = pipe.solve([pipe.adapted(self.models[c.gpu], c, self.clock.rows(k, self.mix.tasks), known)
                            for k, c in enumerate(self.mix.clients)], self.mix.tasks, options)
        proposals = list(dict.fromkeys(tuple(pipe.gives_of(p)[t][0] for t in self.mix.tasks) for p in plans))
        wholes = [self.clock.same(dict(zip(self.mix.tasks, sizes))) for sizes in proposals]
        slow = self._slow([(everyone, whole) for whole in wholes])
        asked = [(n, k) for n, whole in enumerate(wholes) for k in slow[self.clock.key("", everyone, whole)]]
        answers = pipe.solve([pipe.adapted(
            self.models[self.mix.clients[k].gpu], self.mix.clients[k], self.clock.rows(k, self.mix.tasks),
            {t: {**known[t], **kept_size(known[t], wholes[n][t][k])} for t in self.mix.tasks})
            for n, k in asked], self.mix.tasks, [*options, *pipe.UNPROVEN])
        worst = [0.0] * len(wholes)
        for (n, k), plan in zip(asked, answers):
            worst[n] = max(worst[n], plan["target"]["together_s"] / self.mix.clients[k].speed)
        sizes = wholes[worst.index(min(worst))]
        return Outcome(sizes, self.planned([sizes])[0])


def kept_size(known: Mapping, batch: int) -> dict:
    """What a workload says of a task that keeps its batch size: the rounds that it takes with it."""
    rounds = known["rounds_to_target"] / worth_of(known, batch)
    return {"batch_sizes": [batch], "batch": batch, "rounds_to_target": rounds}


def worth_of(known: Mapping, batch: int) -> float:
    """What a sample is worth at a batch size, relative to the reference size, according to a workload."""
    told = known["efficiency"]
    if "table" in told:
        rows = {row["batch"]: row["progress"] for row in told["table"]}
        return rows[batch] / rows[known["batch"]]
    return (told["noise_scale"] + known["batch"]) / (told["noise_scale"] + batch)


def sizes_of(tasks: Sequence[Task], plans: Sequence[Mapping]) -> Sizes:
    """The batch size of each task at each client."""
    gives = [pipe.gives_of(p) for p in plans]
    return {t: tuple(g[t][0] for g in gives) for t in tasks}

