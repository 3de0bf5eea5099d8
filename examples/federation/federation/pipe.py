"""Calls of the tools: mt-profile | mt-fit | mt-solve | mt-overlap on simulated devices.

A client whose device has S times the speed of the simulated GPU and a link of L bit/s is planned as this GPU with a
link of L / S, and all of its seconds are divided by S. This is exact, and each GPU is profiled only once.
"""
from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
from typing import Iterable, Mapping, NamedTuple, Sequence

from federation.curves import BATCHES
from federation.devices import Client
from federation.kept import written

MODELS = {"digits": "resnet18", "letters": "mobilenet_v3_large", "satellite": "shufflenet_v2_x1_0",
          "mnist": "resnet34"}
"""The models that determine the timelines; the learning curves come from small networks."""

WEIGHTS = {"digits": 11_689_512, "letters": 5_483_032, "satellite": 2_278_604, "mnist": 21_797_672}
"""Parameters of the models (torchvision); a round sends 16 bits for each down, and up again."""

SAMPLES = 20_000
"""Rows of the mean client per round in the timelines; other clients have more or fewer in proportion to their data."""

BUDGET = 40
"""Co-runs that are profiled for each GPU and set of tasks."""

Task = str
Corun = tuple[tuple[Task, int, float], ...]
"""Batch size and share in percent of each task that trains, in the order of the tasks."""


class Round(NamedTuple):
    """A client's part of a round: batch sizes and shares of its tasks, and its rows of each."""

    client: Client
    gives: Mapping[Task, tuple[int, float]]
    rows: Mapping[Task, float]


def run(argv: Sequence[str], given: str = "") -> str:
    """Standard output of a tool; if it fails, its standard error is shown."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def lines(documents: Iterable[object]) -> str:
    return "".join(json.dumps(d) + "\n" for d in documents)


def workload(gpu: str, tasks: Sequence[Task]) -> dict:
    return {"schema": "mt.workload/1", "id": f"{gpu}-{'-'.join(tasks)}", "device": {"kind": "sim", "gpu": gpu},
            "link": {"down_bps": 1e8, "up_bps": 1e8},
            "tasks": [{"id": t, "model": MODELS[t], "batch_sizes": list(BATCHES), "samples": SAMPLES,
                       "update_bytes": {"down": 2 * WEIGHTS[t], "up": 2 * WEIGHTS[t]}} for t in tasks]}


class Devices:
    """Profiles, models and measured rates of simulated GPUs, kept in a folder."""

    def __init__(self, kept: pathlib.Path) -> None:
        self.kept = kept
        kept.mkdir(parents=True, exist_ok=True)
        self.rates_path = kept / "rates.json"
        self.rates: dict[str, list[float]] = (
            json.loads(self.rates_path.read_text()) if self.rates_path.exists() else {})

    def model(self, gpu: str, tasks: Sequence[Task]) -> dict:
        """What mt-fit learns from mt-profile's co-runs."""
        path = self.kept / f"{gpu}-{'-'.join(tasks)}.model.json"
        if not path.exists():
            profile = run(["mt-profile", "--batch", "free", "--budget", str(BUDGET), "-"], json.dumps(workload(gpu, tasks)))
            path.write_text(run(["mt-fit"], profile))
        return json.loads(path.read_text())

    def measured(self, gpu: str, coruns: Iterable[Corun]) -> dict[Corun, dict[Task, float]]:
        """Samples per second of each task in each co-run, measured on the simulated GPU with another seed than the
        profile: no scheme is judged by the model that chose it."""
        coruns = set(coruns)
        new = [c for c in coruns if _key(gpu, c) not in self.rates]
        if new:
            profile = run(["mt-profile", "--seed", "77", "--configs", table(new, self.kept / "coruns.csv"), "-"],
                          json.dumps(workload(gpu, list(MODELS))))
            for corun, rates in zip(new, _rates_of(profile, len(new))):
                self.rates[_key(gpu, corun)] = [rates[t] for t, _, _ in corun]
            written(self.rates_path, self.rates)
        return {c: dict(zip((t for t, _, _ in c), self.rates[_key(gpu, c)])) for c in coruns}

    def lengths(self, rounds: Sequence[Round], in_turns: bool = False) -> list[float]:
        """Seconds of each round according to mt-overlap, from measured rates of every set of tasks that may train."""
        wanted: dict[str, set[Corun]] = {}
        for r in rounds:
            wanted.setdefault(r.client.gpu, set()).update(subsets(r.gives))
        known = {gpu: self.measured(gpu, coruns) for gpu, coruns in wanted.items()}
        plans = [plan(r, known[r.client.gpu], in_turns) for r in rounds]
        timelines = run(["mt-overlap", "-"], lines(plans)).splitlines() if plans else []
        return [json.loads(t)["makespan_s"] / r.client.speed for t, r in zip(timelines, rounds, strict=True)]


def table(coruns: Sequence[Corun], path: pathlib.Path) -> str:
    """Writes a table of configurations, as mt-profile and mt-solve read it."""
    rows = [f"c{k},{t},{b},{s:g}" for k, c in enumerate(coruns) for t, b, s in c]
    path.write_text("\n".join(["config,task,batch,share_percent", *rows, ""]))
    return str(path)


def predict(model: Mapping, coruns: Sequence[Corun], path: pathlib.Path) -> dict[Corun, dict[Task, float]]:
    """Samples per second of each task in each co-run, predicted by a model; their table goes into `path`."""
    answers = run(["mt-solve", "--predict", table(coruns, path), "--json", "-"], json.dumps(model)).splitlines()
    told = {(row["config"], row["task"]): row["samples_per_s"] for row in map(json.loads, answers)}
    return {c: {t: told[f"c{k}", t] for t, _, _ in c} for k, c in enumerate(coruns)}


def _key(gpu: str, corun: Corun) -> str:
    return f"{gpu} " + " ".join(f"{t}:{b}:{s:g}" for t, b, s in corun)


def _rates_of(profile: str, count: int) -> list[dict[Task, float]]:
    """Rates in the order of the configurations of a table, from a profile of them."""
    measured = [r for r in map(json.loads, profile.splitlines()) if r.get("record") == "sample"]
    if len(measured) != count:
        raise SystemExit(f"mt-profile measured {len(measured)} of {count} configurations")
    return [{t["id"]: t["samples_per_s"] for t in r["tasks"]} for r in measured]


def subsets(gives: Mapping[Task, tuple[int, float]], order: Iterable[Task] = MODELS) -> list[Corun]:
    """Every set of tasks that may compute at the same time in a round; shares stay when a task has ended."""
    tasks = [t for t in order if t in gives]
    return [tuple((t, *gives[t]) for t in chosen)
            for n in range(1, len(tasks) + 1) for chosen in itertools.combinations(tasks, n)]


def planned_link(client: Client) -> dict[str, float]:
    return {"down_bps": client.down_bps / client.speed, "up_bps": client.up_bps / client.speed}


def plan(r: Round, rates: Mapping[Corun, Mapping[Task, float]], in_turns: bool) -> dict:
    """A hand-written plan with a table of rates. With `in_turns`, tasks compute one after another, each with the
    whole device; this is as fast as equal time slices, and mt-overlap finds the best order."""
    tasks = [{"id": t, "samples": round(r.rows[t]), "update_bytes": {"down": 2 * WEIGHTS[t], "up": 2 * WEIGHTS[t]}}
             for t in MODELS if t in r.gives]
    table = []
    for c in subsets(r.gives):
        speeds = {t: rates[((t, b, s),)][t] / len(c) for t, b, s in c} if in_turns else dict(rates[c])
        table.append({"active": [t for t, _, _ in c], "samples_per_s": speeds})
    return {"schema": "mt.plan/1", "link": planned_link(r.client), "tasks": tasks, "rates": table}


UNPROVEN = ["--search", "local"]
"""For predictions that are only compared: a proof of shares enumerates them, which takes ten seconds for four tasks."""


def solve(models: Sequence[Mapping], only: Sequence[Task], options: Sequence[str]) -> list[dict]:
    """The plans of mt-solve for the tasks `only` of each model."""
    if not models:
        return []
    whole = len(only) == len(models[0]["workload"]["tasks"])
    answers = run(["mt-solve", *options, *([] if whole else ["--only", ",".join(only)]), "-"], lines(models))
    return [json.loads(a) for a in answers.splitlines()]


def gives_of(plan: Mapping) -> dict[Task, tuple[int, float]]:
    """Batch size and share of each task of a plan."""
    return {t["id"]: (t["batch"], t["share_percent"]) for t in plan["tasks"]}


def adapted(model: Mapping, client: Client, rows: Mapping[Task, float],
            changed: Mapping[Task, Mapping] | None = None) -> dict:
    """The model with a client's link and volumes, and with the workload's tasks `changed`: fewer batch sizes to
    choose from, or a known efficiency."""
    work = dict(model["workload"])
    work["link"] = planned_link(client)
    work["tasks"] = [{**t, **({"samples": round(rows[t["id"]])} if t["id"] in rows else {}),
                      **(changed or {}).get(t["id"], {})} for t in work["tasks"]]
    return {**model, "workload": work}


def version() -> str:
    return run(["mt-solve", "--version"]).strip()
