"""The page of results, its pictures, and the summary that the page quotes."""
from __future__ import annotations

import json
import math
import pathlib
import statistics
from typing import Mapping, Sequence

from federation.clock import Mix
from federation.curves import BATCHES, TARGETS, Curves, phi_from_rounds
from federation.schemes import ANY_SIZE, IN_TURNS, PROGRESS, SAMPLES

GOALS = {"over_hindsight_median": 1.05, "over_hindsight_worst": 1.25, "over_samples_plan_median": 0.6,
         "over_one_after_another_median": 0.85}
"""At most so much."""


def noise_rows(mixes: Sequence[Mix], curves: Curves) -> list[dict]:
    """Rounds to the target at each batch size, the noise scale that fits them, and the one that workers measured,
    for each task, split and number of clients."""
    rows = []
    for setting in sorted({mix.setting(t) for mix in mixes for t in mix.tasks}):
        rounds = {b: statistics.mean(curves.rounds(setting, [b] * setting.clients)) for b in BATCHES}
        phi = curves.phi(setting)
        shown = phi_from_rounds({b: n for b, n in rounds.items() if math.isfinite(n)})
        rows.append({"task": setting.task, "split": setting.split, "clients": setting.clients,
                     "rounds": {str(b): n if math.isfinite(n) else None for b, n in rounds.items()},
                     "phi_rounds": shown, "phi_measured": phi["pooled"], "phi_alone": phi["alone"],
                     "measured_over_rounds": phi["pooled"] / shown})
    return rows


def summary(results: Mapping) -> dict:
    """The figures that goals are about, and a row for each mix."""
    rows = results["rows"]

    def ratio(name: str, join) -> float:
        return round(join(r[name] for r in rows), 3)

    short = [{**{k: r[k] for k in ("mix", "best_in_hindsight")},
              **{k: round(r[k], 3) for k in ("over_hindsight", "over_samples_plan", "over_one_after_another")},
              "phi": {t: round(p, 1) for t, p in r["phi"].items()},
              "seconds": {s: {at: None if o["seconds"] is None else round(o["seconds"], 1) for at, o in of.items()}
                          for s, of in r["schemes"].items()},
              "batch": r["schemes"][PROGRESS]["as planned"]["batch"]} for r in rows]
    by_task = {t: round(statistics.median(n["measured_over_rounds"] for n in results["noise"] if n["task"] == t), 2)
               for t in sorted({n["task"] for n in results["noise"]})}
    live = live_means(results["live"])
    any_size = [r["schemes"][ANY_SIZE]["as planned"]["seconds"] / r["schemes"][r["best_in_hindsight"]]["hindsight"]
               ["seconds"] for r in rows]
    return {"command": results["command"], "tools": results["tools"], "inputs_sha256": results["inputs_sha256"],
            "devices": results["devices"], "mixes": len(rows),
            "over_hindsight_median": ratio("over_hindsight", statistics.median),
            "over_hindsight_worst": ratio("over_hindsight", max),
            "over_samples_plan_median": ratio("over_samples_plan", statistics.median),
            "over_one_after_another_median": ratio("over_one_after_another", statistics.median),
            "any_size_over_hindsight_median": round(statistics.median(any_size), 3),
            "any_size_over_hindsight_worst": round(max(any_size), 3),
            "live_predicted_over_real": round(statistics.median(r["predicted_over_real"] for r in live), 3),
            "live_order_kept": order_kept(live), "phi_measured_over_rounds": by_task,
            "deadline_over_waiting_median": round(statistics.median(
                d["deadline"]["seconds"] / d["wait_for_all"]["seconds"] for d in results["deadline"]), 3),
            "replanned_over_waiting_median": round(statistics.median(
                d["deadline_replanned"]["seconds"] / d["wait_for_all"]["seconds"] for d in results["deadline"]), 3),
            "rows": short, "losses": losses(rows), "noise": _rounded(results["noise"]),
            "deadline": _rounded(over_waiting(results["deadline"])), "live": live,
            "scaled": [{"mix": r["mix"], "over_hindsight": round(r["over_hindsight"], 3),
                        "over_samples_plan": round(r["over_samples_plan"], 3)} for r in results["scaled"]]}


def _rounded(value):
    """Numbers to four significant digits, wherever they stand."""
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def losses(rows: Sequence[Mapping]) -> list[dict]:
    """Time to target of each scheme over that of the best scheme and batch sizes in hindsight; the worst is absent
    where a target was never reached."""
    found = []
    for scheme, of in rows[0]["schemes"].items():
        for at in of:
            lost = []
            for r in rows:
                best = r["schemes"][r["best_in_hindsight"]]["hindsight"]["seconds"]
                own = r["schemes"][scheme][at]["seconds"]
                lost.append(math.inf if own is None else own / best)
            found.append({"scheme": scheme, "at": at, "median": round(statistics.median(lost), 3),
                          "worst": None if math.isinf(max(lost)) else round(max(lost), 3)})
    return sorted(found, key=lambda row: row["median"])


def over_waiting(late: Sequence[Mapping]) -> list[dict]:
    """The rows of the deadline, with the time to target of each policy over that of waiting for all."""
    return [{k: v if isinstance(v, str) else {**v, "over_waiting": v["seconds"] / d["wait_for_all"]["seconds"]}
             for k, v in d.items()} for d in late]


def live_means(rows: Sequence[Mapping]) -> list[dict]:
    """Means over the seeds of each scheme of the live part."""
    means = []
    for name in dict.fromkeys(r["scheme"] for r in rows):
        own = [r for r in rows if r["scheme"] == name]
        told = {k: statistics.mean(r[k] for r in own) for k in ("rounds", "predicted_s", "real_s")}
        means.append({"scheme": name, "batch": own[0]["batch"], **{k: round(v, 1) for k, v in told.items()},
                      "predicted_over_real": round(told["predicted_s"] / told["real_s"], 3)})
    return means


def order_kept(live: Sequence[Mapping]) -> bool:
    """Whether the schemes end in the order that was predicted."""
    def order(key: str) -> list[str]:
        return [r["scheme"] for r in sorted(live, key=lambda r: r[key])]

    return order("predicted_s") == order("real_s")


def write(results: Mapping, folder: pathlib.Path) -> None:
    """RESULTS.md, summary.json and the pictures, into `folder`/page."""
    from federation import pictures

    into = folder / "page"
    into.mkdir(exist_ok=True)
    told = summary(results)
    (into / "summary.json").write_text(json.dumps(told, indent=1, allow_nan=False) + "\n")
    drawn = pictures.draw(results, into)
    (into / "RESULTS.md").write_text(text(told, drawn))


def text(told: Mapping, drawn: Sequence[tuple[str, str]]) -> str:
    """The page; every figure of its tables is one of the summary."""
    parts = [_head(told), _goals(told), _mixes(told), _losses(told), _noise(told), _late(told), _live(told),
             _scaled(told), "## Accuracy over seconds\n\n" + "\n\n".join(f"![{title}]({name})" for name, title in drawn)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def _head(told: Mapping) -> str:
    return f"""# A federation that learns: results

Written by `{told['command']}` with {told['tools']}; the devices are {told['devices']} ones, and the SHA-256 of
the inputs is `{told['inputs_sha256'][:16]}`. All figures of this page are in `summary.json`, or derived from the
rows there. What was done, and where the figures may mislead, is in [README.md](README.md). The seconds of all but
the live section are simulated: rounds of real training times the length of rounds on simulated GPUs.

Time to target is the time until all tasks of a mix have reached their test accuracies, the mean of five seeds.
In the plan by progress, each client proposes what `mt-solve --objective progress-last` plans for it, and the server
takes the proposal that is predicted to be there soonest. It knows the noise scales that workers measured in a first
run of three rounds, and how many rounds the runs that chose the learning rate took at batch size 32; none of the
curves that it is judged by."""


def _goals(told: Mapping) -> str:
    names = {"over_hindsight_median": "best scheme and batch sizes in hindsight, median",
             "over_hindsight_worst": "the same, worst mix", "over_samples_plan_median": "plan by samples, median",
             "over_one_after_another_median": "one after another at its best batch sizes, median"}
    rows = [[names[k], f"{told[k]:.3f}", f"at most {goal}", _met(told[k] <= goal)] for k, goal in GOALS.items()]
    rows += [[f"{names[k]}, without the bound on steps", f"{told[f'any_size_{k}']:.3f}", f"at most {GOALS[k]}",
              _met(told[f"any_size_{k}"] <= GOALS[k])] for k in ("over_hindsight_median", "over_hindsight_worst")]
    live = told["live_predicted_over_real"]
    rows.append(["live: predicted over real, median of schemes", f"{live:.3f}", "0.75 to 1.25",
                 _met(0.75 <= live <= 1.25)])
    rows.append(["live: the schemes end in the predicted order", "yes" if told["live_order_kept"] else "no", "yes",
                 _met(told["live_order_kept"])])
    off = {t: r for t, r in told["phi_measured_over_rounds"].items() if not 0.5 <= r <= 2}
    rows.append(["noise scale measured over that from rounds, data sets beyond a factor of two",
                 ", ".join(f"{t} {r:g}" for t, r in off.items()) or "none", "none", _met(not off)])
    return f"""## Goals

Time to target of the plan by progress over that of its rivals, on {told['mixes']} mixes; below 1 it is sooner.

{_table(["over", "measured", "goal", ""], rows)}"""


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def _mixes(told: Mapping) -> str:
    rows = []
    for r in told["rows"]:
        s = r["seconds"]
        rows.append([r["mix"], ", ".join(f"{b}" for b in r["batch"].values()),
                     _seconds(s[PROGRESS]["as planned"]), f"{_seconds(s[r['best_in_hindsight']]['hindsight'])} "
                     f"({r['best_in_hindsight']})", _seconds(s[SAMPLES]["as planned"]),
                     _seconds(s[IN_TURNS]["hindsight"]), f"{r['over_hindsight']:.2f}",
                     f"{r['over_samples_plan']:.2f}", f"{r['over_one_after_another']:.2f}"])
    head = ["mix", "batch sizes", "plan by progress, s", "best in hindsight, s", "plan by samples, s",
            "one after another, s", "over hindsight", "over samples", "over one after another"]
    return f"## Every mix\n\nA dash: the targets were not reached in 300 rounds.\n\n{_table(head, rows)}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _losses(told: Mapping) -> str:
    rows = [[r["scheme"], r["at"], f"{r['median']:.2f}", "never" if r["worst"] is None else f"{r['worst']:.2f}"]
            for r in told["losses"]]
    return f"""## What each scheme loses

Time to target over that of the best scheme and batch sizes in hindsight. Only rows *as planned* could have been
chosen beforehand, and those at the reference size, 32; the largest is 256. The plan
by progress leaves out batch sizes above 32 with which clients make fewer than 6.6 steps a round, in which momentum
is not even half built up; *any batch size* is the same plan without that bound.

{_table(["scheme", "batch sizes", "median", "worst"], rows)}"""


def _noise(told: Mapping) -> str:
    rows = [[n["task"], n["split"], str(n["clients"]), *(_rounds(n["rounds"][str(b)]) for b in BATCHES),
             f"{n['phi_rounds']:.0f}", f"{n['phi_measured']:.0f}", f"{n['phi_alone']:.0f}",
             f"{n['measured_over_rounds']:.2f}"] for n in told["noise"]]
    targets = ", ".join(f"{t} {100 * a:g} %" for t, a in TARGETS.items())
    medians = ", ".join(f"{t} {r:g}" for t, r in told["phi_measured_over_rounds"].items())
    return f"""## Noise scales: measured, and from rounds

Rounds to the target (test accuracy: {targets}; mean of five seeds), the noise scale for which rounds in proportion to
phi + B fit them best, and what workers measured in the first run: for the federation's gradient, which plans use,
and for each client's own. Measured over that from rounds, median of the settings of a data set: {medians}.

{_table(["task", "split", "clients", *map(str, BATCHES), "phi from rounds", "measured", "of clients alone", "ratio"], rows)}"""


def _rounds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _late(told: Mapping) -> str:
    rows = []
    for d in told["deadline"]:
        for key, name in (("wait_for_all", "wait for all"), ("deadline", "deadline"),
                          ("deadline_replanned", "deadline, late clients re-planned")):
            rows.append([d["mix"], name, f"{d[key]['round_s']:.0f}", f"{d[key]['rows_percent']:.0f} %",
                         ", ".join(f"{t} {n:.1f}" for t, n in d[key]["rounds"].items()), _seconds(d[key]["seconds"]),
                         f"{d[key]['over_waiting']:.2f}"])
    head = ["mix", "policy", "round, s", "rows trained", "rounds", "time to target, s", "over waiting"]
    return f"""## Stragglers

The deadline is half of the round that waits for all; the batch sizes are those of the plan by progress. `mt-overlap
--federation --deadline` says with which part of its samples a late client ends in time, and averages weigh it by
that. Re-planned, it first takes the batch sizes and shares of its shortest round: large batches, whose samples are
worth less. Medians over waiting: deadline {told['deadline_over_waiting_median']:.2f}, re-planned
{told['replanned_over_waiting_median']:.2f}.

{_table(head, rows)}"""


def _live(told: Mapping) -> str:
    rows = [[r["scheme"], ", ".join(f"{t} {b}" for t, b in r["batch"].items()), f"{r['rounds']:g}",
             f"{r['predicted_s']:.1f}", f"{r['real_s']:.1f}", f"{r['predicted_over_real']:.2f}"] for r in told["live"]]
    return f"""## Live

Two sites, each a processor of this machine, three processes a site under CPU quotas (`mt-launch exec`), transfers of
limited rate, on the wall clock: one run of each of two seeds, and their means. Predicted is the number of rounds played times the
timeline's length from a profile taken just before.

{_table(["scheme", "batch sizes", "rounds", "predicted, s", "real, s", "predicted / real"], rows)}"""


def _scaled(told: Mapping) -> str:
    rows = [[r["mix"], f"{r['over_hindsight']:.2f}", f"{r['over_samples_plan']:.2f}"] for r in told["scaled"]]
    if not rows:
        return ""
    return f"""## With learning rates that grow with the batch

The sweep of learning rates above is the same at every batch size, 0.01 to 0.3. Offered these times the root of B / 32
instead, up to 0.85 at 256, large batches need fewer rounds, and the plan by progress gains less over that by samples:

{_table(["mix", "over hindsight", "over plan by samples"], rows)}"""
