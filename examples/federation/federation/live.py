"""The live federation: rounds of processes under CPU quotas, with transfers of limited rate, on the wall clock."""
from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from federation import law, net, pipe
from federation.clock import Gives, finishing
from federation.curves import SEEDS, TARGETS, Curves, Setting
from federation.noise import REFERENCE
from federation.pipe import Task
from federation.place import BATCHES, DOWN_BPS, EPOCHS, SITES, SPLIT, TASKS, UP_BPS, WIDTH

CHUNK = 4096
ROUND, PROGRESS = "round", "progress-last"
"""Objectives of mt-solve."""
Rates = Mapping[pipe.Corun, Mapping[Task, float]]


class Scheme(NamedTuple):
    """A scheme of the live comparison."""

    name: str
    sizes: Mapping[Task, int]
    planned: bool
    """Shares by mt-solve; otherwise 100 % for each task."""
    in_turns: bool = False
    objective: str = PROGRESS
    """That of the profile whose model plans it: mt-profile measures the co-runs that matter to an objective."""


class Place:
    """The models of a site by objective, its data and its learning curves."""

    def __init__(self, inputs: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder, self.inputs = folder, inputs
        self.folder.mkdir(parents=True, exist_ok=True)
        self.curves = Curves(self.inputs, folder / "curves", width=WIDTH, epochs=EPOCHS)
        self.learnt = {t: law.learnt({b: self.curves.seen(self.setting(t), b) for b in BATCHES}, REFERENCE)
                       for t in TASKS}
        self.models = {ROUND: self._profiled(ROUND, {}), PROGRESS: self._profiled(PROGRESS, self.learnt)}

    def setting(self, task: Task) -> Setting:
        return Setting(task, SITES, SPLIT)

    def workload(self, known: Mapping[Task, Mapping]) -> dict:
        return {"schema": "mt.workload/1", "id": "live", "device": {"kind": "cpu"},
                "link": {"down_bps": DOWN_BPS[0], "up_bps": UP_BPS[0]},
                "tasks": [{"id": t, "batch_sizes": list(BATCHES), "samples": self.samples(t, 0),
                           "update_bytes": {"down": self.bytes_of(t), "up": self.bytes_of(t)},
                           "job": {"argv": client(t, 0, self.inputs), "pool": True}, **known.get(t, {})} for t in TASKS]}

    def samples(self, task: Task, site: int) -> int:
        return EPOCHS * self.curves.rows(self.setting(task))[site]

    def bytes_of(self, task: Task) -> int:
        """Size of the file of weights."""
        data = self.curves.data(task)
        path = self.folder / f"{task}.npz"
        save(path, [w[0] for w in net.initial(data.train_x.shape[1], data.classes, [0], WIDTH)])
        return path.stat().st_size

    def _profiled(self, objective: str, known: Mapping[Task, Mapping]) -> dict:
        """The speed of a site's processor, measured just before; it includes the effect of other load on the
        machine."""
        profile = pipe.run(["taskset", "-c", "0", "mt-profile", "--objective", objective, "--batch", "free", "--window",
                            "0.5", "--max-window", "1.5", "--budget", "30", "-"], json.dumps(self.workload(known)))
        return json.loads(pipe.run(["mt-fit"], profile))

    def adapted(self, objective: str, site: int, changed: Mapping[Task, Mapping]) -> dict:
        """The model with a site's volumes and link, and with changes to its tasks."""
        model = self.models[objective]
        work = dict(model["workload"])
        work["link"] = {"down_bps": DOWN_BPS[site], "up_bps": UP_BPS[site]}
        work["tasks"] = [{**t, "samples": self.samples(t["id"], site),
                          **changed.get(t["id"], {})} for t in work["tasks"]]
        return {**model, "workload": work}

    def gives(self, scheme: Scheme, site: int, active: Sequence[Task]) -> Gives:
        if not scheme.planned or len(active) == 1:
            return {t: (scheme.sizes[t], 100.0) for t in active}
        fixed = {t: {"batch_sizes": [b], "batch": b} for t, b in scheme.sizes.items()}
        model = self.adapted(scheme.objective, site, fixed)
        return pipe.gives_of(pipe.solve([model], active, ["--objective", ROUND, "--batch", "free"])[0])

    def planned(self, scheme: Scheme, active: Sequence[Task]) -> list[tuple[Gives, dict]]:
        """What each site gives to the tasks, and its timeline."""
        gives = [self.gives(scheme, site, active) for site in range(SITES)]
        return [(g, self.timeline(scheme, site, g)) for site, g in enumerate(gives)]

    def foretold(self, scheme: Scheme) -> float:
        """Seconds to the last target, before anything is trained: the rounds of the runs that chose the learning
        rates, and the lengths of the timelines."""
        def length(active: frozenset[Task]) -> float:
            return longest(self.planned(scheme, [t for t in TASKS if t in active]))

        rounds = {t: self.curves.seen(self.setting(t), scheme.sizes[t]) for t in TASKS}
        return max(finishing(rounds, length).values())

    def timeline(self, scheme: Scheme, site: int, gives: Gives) -> dict:
        """Order and length of a site's round, predicted."""
        coruns = pipe.subsets(gives, TASKS)
        rates = pipe.predict(self.models[scheme.objective], coruns, self.folder / "coruns.csv")
        table = [{"active": [t for t, _, _ in c],
                  "samples_per_s": {t: rates[((t, b, s),)][t] / len(c) if scheme.in_turns else rates[c][t]
                                    for t, b, s in c}} for c in coruns]
        plan = {"schema": "mt.plan/1", "link": {"down_bps": DOWN_BPS[site], "up_bps": UP_BPS[site]},
                "tasks": [{"id": t, "samples": self.samples(t, site),
                           "update_bytes": {"down": self.bytes_of(t), "up": self.bytes_of(t)}} for t in gives],
                "rates": table}
        return json.loads(pipe.run(["mt-overlap", "--no-wait", "-"], json.dumps(plan)))


def client(task: Task, site: int, inputs: pathlib.Path) -> list[str]:
    """The process that trains, with one thread, since a site is one processor."""
    return ["env", f"PYTHONPATH={pathlib.Path(__file__).resolve().parents[1]}", "OPENBLAS_NUM_THREADS=1",
            sys.executable, "-m", "federation.client", task, str(site), str(inputs)]


def save(path: pathlib.Path, weights: net.Weights) -> None:
    np.savez(path, **{f"w{k}": w for k, w in enumerate(weights)})


def read(path: pathlib.Path) -> net.Weights:
    with np.load(path) as file:
        return [file[f"w{k}"] for k in range(4)]


def transfer(source: pathlib.Path, target: pathlib.Path, bits_per_s: float) -> None:
    """Copies a file at the rate of a link."""
    begun, moved = time.monotonic(), 0
    with source.open("rb") as a, target.open("wb") as b:
        while piece := a.read(CHUNK):
            b.write(piece)
            moved += len(piece)
            time.sleep(max(0.0, 8 * moved / bits_per_s - (time.monotonic() - begun)))


def longest(sites: Sequence[tuple[Gives, Mapping]]) -> float:
    """Predicted seconds of a round, which ends with its slowest site."""
    return max(timeline["makespan_s"] for _, timeline in sites)


class Site:
    """The processes of a site for the tasks that still train."""

    def __init__(self, place: Place, number: int, gives: Gives, timeline: Mapping, in_turns: bool) -> None:
        self.number, self.gives, self.timeline, self.in_turns = number, gives, timeline, in_turns
        self.folder = place.folder / f"site-{number}"
        self.folder.mkdir(exist_ok=True)
        processors = sorted(os.sched_getaffinity(0))
        self.jobs = {t: subprocess.Popen(
            ["taskset", "-c", str(processors[number % len(processors)]), "mt-launch", "exec", "--device", "cpu",
             "--share", f"{share:g}", "--", *client(t, number, place.inputs)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for t, (_, share) in gives.items()}
        for job in self.jobs.values():
            if job.stdout.readline() != "ready\n":
                raise SystemExit(f"site {number}: a client did not start")

    def play(self, place: Place, number: int, seed: int, rates: Mapping[Task, float]) -> float:
        """One round in the order of the timeline; returns its seconds."""
        begun = time.monotonic()
        turns = threading.Lock() if self.in_turns else contextlib.nullcontext()
        trained = {t: threading.Event() for t in self.gives}

        def train(task: Task) -> None:
            with turns:
                asked = {"round": number, "seed": seed, "batch": self.gives[task][0], "rate": rates[task],
                         "from": str(self.folder / f"{task}.npz"), "to": str(self.folder / f"{task}-trained.npz")}
                self.jobs[task].stdin.write(json.dumps(asked) + "\n")
                self.jobs[task].stdin.flush()
                self.jobs[task].stdout.readline()
            trained[task].set()

        def uploads() -> None:
            for task in self.timeline["upload_order"]:
                trained[task].wait()
                transfer(self.folder / f"{task}-trained.npz", place.folder / f"{task}-{self.number}.npz",
                         UP_BPS[self.number])

        threads = [threading.Thread(target=uploads)]
        threads[0].start()
        for task in self.timeline["download_order"]:
            transfer(place.folder / f"{task}.npz", self.folder / f"{task}.npz", DOWN_BPS[self.number])
            threads.append(threading.Thread(target=train, args=(task,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return time.monotonic() - begun

    def close(self) -> None:
        for job in self.jobs.values():
            job.stdin.close()
            job.wait()


def played(place: Place, scheme: Scheme, seed: int) -> dict:
    """A training of all tasks to their targets; returns predicted and real seconds. Starting processes, averaging and
    testing count in neither."""
    weights = {}
    for task in TASKS:
        data = place.curves.data(task)
        weights[task] = [w[0] for w in net.initial(data.train_x.shape[1], data.classes, [seed], WIDTH)]
    rates = {t: place.curves.rate(place.setting(t), [scheme.sizes[t]] * SITES) for t in TASKS}
    expected = {t: place.curves.rounds(place.setting(t), [scheme.sizes[t]] * SITES)[SEEDS.index(seed)] for t in TASKS}
    active, sites, number, lengths = list(TASKS), [], 0, []
    real: dict[Task, float] = {}
    points: dict[Task, list[tuple[float, float]]] = {t: [] for t in TASKS}
    now = planned = 0.0
    while active:
        if not sites:
            now_planned = place.planned(scheme, active)
            sites = [Site(place, k, gives, timeline, scheme.in_turns) for k, (gives, timeline) in enumerate(now_planned)]
        for task in active:
            save(place.folder / f"{task}.npz", weights[task])
        seconds = _together(sites, place, number, seed, rates)
        number, now = number + 1, now + max(seconds)
        planned += longest(now_planned)
        lengths.append((longest(now_planned), max(seconds)))
        for task in list(active):
            weights[task] = net.average([read(place.folder / f"{task}-{k}.npz") for k in range(SITES)],
                                        [place.samples(task, k) for k in range(SITES)])
            accuracy = net.accuracy([w[None] for w in weights[task]], place.curves.data(task))[0]
            points[task].append((now, float(accuracy)))
            if accuracy >= TARGETS[task]:
                real[task] = now
                active.remove(task)
        if len(real) and set(active) != set(sites[0].gives):
            for site in sites:
                site.close()
            sites = []
    return {"scheme": scheme.name, "batch": dict(scheme.sizes), "seed": seed, "rounds": number, "rounds_on_virtual_clock": expected,
            "predicted_s": planned, "real_s": now, "real_by_task_s": real, "points": points,
            "length_predicted_over_real": float(np.median([a / b for a, b in lengths]))}


def _together(sites: Sequence[Site], place: Place, number: int, seed: int,
              rates: Mapping[Task, float]) -> list[float]:
    seconds = [0.0] * len(sites)

    def one(k: int) -> None:
        seconds[k] = sites[k].play(place, number, seed, rates)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(len(sites))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds


def by_progress(place: Place) -> dict[Task, int]:
    """The batch sizes with which the slower site expects to reach all targets soonest; the server gives them to all
    sites."""
    plans = pipe.solve([place.adapted(PROGRESS, k, {}) for k in range(SITES)], TASKS, ["--objective", PROGRESS])
    return {t: b for t, (b, _) in pipe.gives_of(max(plans, key=lambda p: p["target"]["together_s"])).items()}


def play(inputs: pathlib.Path, folder: pathlib.Path, seeds: Sequence[int]) -> list[dict]:
    """The rows of the live comparison; its processes exchange files in `folder`."""
    place = Place(inputs, folder)
    free = pipe.solve([place.adapted(ROUND, 0, {})], TASKS, ["--objective", ROUND, "--batch", "free"])[0]
    reference = {t: REFERENCE for t in TASKS}
    progress = by_progress(place)
    schemes = [Scheme("one after another", progress, False, True), Scheme("100 % each", reference, False),
               Scheme("plan by samples", {t: b for t, (b, _) in pipe.gives_of(free).items()}, True, objective=ROUND),
               Scheme("plan by progress", progress, True)]
    foretold = {scheme.name: place.foretold(scheme) for scheme in schemes}
    rows = []
    # Seed by seed, so that other load on the machine affects all schemes alike.
    for seed, scheme in itertools.product(seeds, schemes):
        rows.append({**played(place, scheme, seed), "foretold_s": foretold[scheme.name]})
        print(f"live, {scheme.name} {dict(scheme.sizes)}, seed {seed}: {rows[-1]['rounds']} rounds, predicted "
              f"{rows[-1]['predicted_s']:.1f} s, real {rows[-1]['real_s']:.1f} s", file=sys.stderr, flush=True)
    return rows
