"""The page of results, its pictures, and the summary that the page quotes."""
from __future__ import annotations

import json
import math
import pathlib
import statistics
import textwrap
from typing import Iterable, Mapping, Sequence

from federation import law
from federation.clock import Mix
from federation.curves import BATCHES, RATES, TARGETS, Curves
from federation.noise import REFERENCE, leaves_steps
from federation.schemes import ANY_RATE, ANY_SIZE, IN_TURNS, NORMS, PROGRESS, SAMPLES, SINGLE

GOALS = {"over_hindsight_median": 1.05, "over_hindsight_worst": 1.25, "over_samples_plan_median": 0.6,
         "over_one_after_another_idle_median": 0.85}
"""At most so much."""

IDLE = 0.85
"""The reference batch size leaves devices idle if rounds in which all tasks share at 100 % take at most this part of
rounds of one after another. It depends on the devices alone, not on any training or plan. If sharing cannot gain as
much as the goal requires, no plan can."""

OTHERS = {"single": (SINGLE, "each task's best size alone, 100 % each"),
          "norms": (NORMS, "plan by noise scale"),
          "any_rate": (ANY_RATE, "plan by noise scale without the end of the sweep of learning rates"),
          "any_size": (ANY_SIZE, "plan by noise scale without the bound on steps")}
"""Other schemes that could be chosen beforehand, by the name of their figures."""


def noise_rows(mixes: Sequence[Mix], curves: Curves) -> list[dict]:
    """Rounds to the target at each batch size, the noise scale that fits them, and the one that workers measured, for
    each task, split and number of clients: for all sizes, and for those at which clients make enough steps per round
    for the law to describe noise."""
    rows = []
    for setting in sorted({mix.setting(t) for mix in mixes for t in mix.tasks}):
        rounds = {b: curves.rounds(setting, [b] * setting.clients) for b in BATCHES}
        phi = curves.phi(setting)
        every = law.shown(rounds)
        steps = law.shown({b: n for b, n in rounds.items() if leaves_steps(b, 0, curves.rows(setting))})
        # Scales within the interval cannot be distinguished; a factor of two beyond it still counts as agreement.
        agrees = steps["phi"] is None or steps["low"] <= 2 * phi["pooled"] and phi["pooled"] <= 2 * steps["high"]
        rows.append({"task": setting.task, "split": setting.split, "clients": setting.clients,
                     "rounds": {str(b): statistics.mean(n) if max(n) < math.inf else None for b, n in rounds.items()},
                     "phi_rounds": every["phi"], "phi_measured": phi["pooled"], "phi_alone": phi["alone"],
                     "measured_over_rounds": phi["pooled"] / every["phi"], "with_steps": steps, "agrees": agrees,
                     "rate": curves.rate(setting, [REFERENCE] * setting.clients)})
    return rows


def foretold(noise: Sequence[Mapping]) -> list[dict]:
    """How far measured rounds to the target, relative to the reference size, are from those predicted by the measured
    noise scale: root mean square of the logarithm of the ratio over the settings in which the target was reached."""
    rows = []
    for b in (b for b in BATCHES if b != REFERENCE):
        off: dict[str, list[float]] = {"law": [], "end_of_sweep": []}
        for n in noise:
            measured = n["rounds"][str(b)], n["rounds"][str(REFERENCE)]
            if None in measured:
                continue
            for name, most in (("law", math.inf), ("end_of_sweep", max(RATES))):
                worth = law.worth(n["phi_measured"], b, REFERENCE, n["rate"], lambda _, most=most: most)
                off[name].append(math.log(measured[1] / measured[0] / worth))
        rows.append({"batch": b, "settings": len(off["law"]), **{
            name: round(math.sqrt(statistics.mean(o * o for o in all_off)), 2) for name, all_off in off.items()}})
    return rows


def summary(results: Mapping) -> dict:
    """The figures of the goals, and a row for each mix."""
    rows = results["rows"]

    def ratio(name: str, join) -> float:
        return round(join(r[name] for r in rows), 3)

    short = [{**{k: r[k] for k in ("mix", "best_in_hindsight")},
              **{k: round(r[k], 3) for k in ("over_hindsight", "over_samples_plan", "over_single", "over_one_after_another")},
              "phi": {t: round(p, 1) for t, p in r["phi"].items()},
              "seconds": {s: {at: None if o["seconds"] is None else round(o["seconds"], 1) for at, o in of.items()}
                          for s, of in r["schemes"].items()},
              "batch": r["schemes"][PROGRESS]["as planned"]["batch"]} for r in rows]
    by_task = {t: round(statistics.median(n["measured_over_rounds"] for n in results["noise"] if n["task"] == t), 2)
               for t in sorted({n["task"] for n in results["noise"]})}
    live, live_program = results["live_before"] if not results["live"] else (
        live_means(results["live"]), results["program_sha256"])
    anew = [d["deadline_replanned"]["seconds"] / d["deadline"]["seconds"] for d in results["deadline"]
            if math.isfinite(d["deadline"]["seconds"])]
    advice = [d[advised(d)]["seconds"] / d["wait_for_all"]["seconds"] for d in results["deadline"]]
    idle = [r for r in rows if _shared(r) <= IDLE]
    others = {key: [_over_hindsight(r, scheme) for r in rows] for key, (scheme, _) in OTHERS.items()}
    return {"command": results["command"], "tools": results["tools"], "inputs_sha256": results["inputs_sha256"],
            "program_sha256": results["program_sha256"], "devices": results["devices"], "mixes": len(rows),
            "all_mixes": results["all_mixes"],
            "over_hindsight_median": ratio("over_hindsight", statistics.median),
            "over_hindsight_worst": ratio("over_hindsight", max),
            "over_samples_plan_median": ratio("over_samples_plan", statistics.median),
            "over_single_median": ratio("over_single", statistics.median), "over_single_worst": ratio("over_single", max),
            "over_one_after_another_median": ratio("over_one_after_another", statistics.median),
            "over_one_after_another_idle_median": middle(r["over_one_after_another"] for r in idle), "idle_mixes": len(idle),
            "best_over_one_after_another_median": middle(
                r["over_one_after_another"] / r["over_hindsight"] for r in rows),
            "over_crossed_median": ratio("over_crossed", statistics.median), "over_crossed_worst": ratio("over_crossed", max),
            "one_after_another_crossed_median": ratio("one_after_another_crossed", statistics.median),
            **{f"{key}_over_hindsight_median": round(statistics.median(lost), 3) for key, lost in others.items()},
            **{f"{key}_over_hindsight_worst": round(max(lost), 3) for key, lost in others.items()},
            "live_predicted_over_real": middle(r["predicted_over_real"] for r in live),
            "live_foretold_over_real_least": min((r["foretold_over_real"] for r in live), default=None),
            "live_foretold_over_real_most": max((r["foretold_over_real"] for r in live), default=None),
            "live_pairs": len(live) * (len(live) - 1) // 2, "live_pairs_apart": len(apart(live)),
            "live_order_kept": order_kept(live), "phi_measured_over_rounds": by_task,
            "phi_agrees": sum(n["agrees"] for n in results["noise"]), "phi_settings": len(results["noise"]),
            "deadline_over_waiting_median": middle(
                d["deadline"]["seconds"] / d["wait_for_all"]["seconds"] for d in results["deadline"]),
            "replanned_over_waiting_median": middle(
                d["deadline_replanned"]["seconds"] / d["wait_for_all"]["seconds"] for d in results["deadline"]),
            **{f"advised_over_waiting_{name}": join(advice) if advice else None
               for name, join in (("median", middle), ("worst", lambda v: round(max(v), 3)))},
            **{f"replanned_over_deadline_{name}": join(anew) for name, join in (
                ("median", middle), ("least", lambda v: round(min(v), 3) if v else None),
                ("most", lambda v: round(max(v), 3) if v else None))},
            "alone": _rounded(results["alone"]), "learning_rates": RATES,
            "rows": short, "losses": losses(rows), "noise": _rounded(results["noise"]),
            "foretold": foretold(results["noise"]),
            "deadline": _rounded(over_waiting(results["deadline"])), "live": live, "live_program": live_program,
            "scaled": [{"mix": r["mix"], "over_hindsight": round(r["over_hindsight"], 3),
                        "over_samples_plan": round(r["over_samples_plan"], 3)} for r in results["scaled"]]}


def _shared(row: Mapping) -> float:
    """Rounds of all tasks at 100 % relative to rounds of one after another, both at the reference batch size. Both
    need the same number of rounds to the target, so this is the ratio of the times."""
    return row["schemes"]["100 % each"]["reference"]["seconds"] / row["schemes"][IN_TURNS]["reference"]["seconds"]


def _over_hindsight(row: Mapping, scheme: str) -> float:
    """Time to target of a scheme as planned, relative to the best in hindsight."""
    return row["schemes"][scheme]["as planned"]["seconds"] / row["schemes"][row["best_in_hindsight"]]["hindsight"]["seconds"]


def middle(values: Iterable[float]) -> float | None:
    """The median to three digits; absent if nothing was run."""
    found = list(values)
    return round(statistics.median(found), 3) if found else None


def _rounded(value):
    """Rounds all numbers within a value to four significant digits. Infinite ones become absent, because JSON has
    none."""
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def losses(rows: Sequence[Mapping]) -> list[dict]:
    """Time to target of each scheme relative to the best scheme and batch sizes in hindsight; the worst is absent if
    a target was never reached."""
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


POLICIES = ("wait_for_all", "deadline", "deadline_replanned")


def advised(row: Mapping) -> str:
    """The policy with the earliest targets according to mt-overlap; the simpler one if equal."""
    return min(POLICIES, key=lambda policy: row[policy]["foretold_s"])


def over_waiting(late: Sequence[Mapping]) -> list[dict]:
    """The rows of the deadline, with the time to target of each policy relative to waiting for all."""
    return [{k: v if isinstance(v, str) else {**v, "over_waiting": v["seconds"] / d["wait_for_all"]["seconds"]}
             for k, v in d.items()} for d in late]


def live_means(rows: Sequence[Mapping]) -> list[dict]:
    """Means over the seeds of each scheme of the live part."""
    means = []
    for name in dict.fromkeys(r["scheme"] for r in rows):
        own = [r for r in rows if r["scheme"] == name]
        told = {k: statistics.mean(r[k] for r in own) for k in ("rounds", "foretold_s", "predicted_s", "real_s")}
        means.append({"scheme": name, "batch": own[0]["batch"], **{k: round(v, 1) for k, v in told.items()},
                      "real_by_seed_s": [round(r["real_s"], 2) for r in own],
                      **{f"{k}_over_real": round(told[f"{k}_s"] / told["real_s"], 3) for k in ("foretold", "predicted")}})
    return means


def apart(live: Sequence[Mapping]) -> list[tuple[Mapping, Mapping]]:
    """The pairs of schemes, the sooner one first, that end in the same order with every seed."""
    return [(a, b) for a in live for b in live
            if a is not b and all(x < y for x, y in zip(a["real_by_seed_s"], b["real_by_seed_s"]))]


def order_kept(live: Sequence[Mapping]) -> bool:
    """Whether no two schemes that end in one order with every seed were foretold in the other."""
    return all(a["foretold_s"] <= b["foretold_s"] for a, b in apart(live))


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
    """The page; every figure of its tables is in the summary."""
    parts = [_head(told), _goals(told), _mixes(told), _losses(told), _noise(told), _alone(told), _late(told), _live(told),
             _scaled(told), "## Accuracy over seconds\n\n" + "\n\n".join(f"![{title}]({name})" for name, title in drawn)]
    paragraphs = "\n\n".join(part for part in parts if part).split("\n\n")
    return "\n\n".join(p if p[0] in "#|!" else textwrap.fill(p, 120, break_on_hyphens=False) for p in paragraphs) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def _head(told: Mapping) -> str:
    return f"""# A federation that learns: results

Written by `{told['command']}` with {told['tools']} from {told['mixes']} of {told['all_mixes']} mixes, all of one program
and of the same inputs (`{told['program_sha256']}`); the devices are {told['devices']} ones, and the SHA-256 of
the inputs is `{told['inputs_sha256'][:16]}`. All figures of this page are in `summary.json`, or derived from the
rows there. [README.md](README.md) says what was done, and where the figures may mislead. All seconds except
those of the live section are simulated: rounds of real training, multiplied by the length of rounds on
simulated GPUs.

Time to target is the time until all tasks of a mix have reached their test accuracies, a mean over five seeds.
In the plan by progress, each client proposes what `mt-solve --objective progress-last` plans for it, and the server
takes the proposal with the earliest predicted time to target. It knows how many rounds the runs took that chose the
learning rate of each batch size, two seeds each, but not the curves by which it is judged, which have other seeds.
The plan by noise scale has no runs at other sizes than 32: it knows the noise scale that workers measured there in a
first run of three rounds."""


def _goals(told: Mapping) -> str:
    names = {"over_hindsight_median": "best scheme and batch sizes in hindsight, median",
             "over_hindsight_worst": "the same, worst mix", "over_samples_plan_median": "plan by samples, median",
             "over_one_after_another_idle_median": "one after another at its best batch sizes, median of the "
             f"{told['idle_mixes']} mixes whose devices batch size 32 leaves idle"}
    rows = [[names[k], f"{told[k]:.3f}", f"at most {goal}", _met(told[k] <= goal)] for k, goal in GOALS.items()
            if told[k] is not None]
    rows.append([f"the same, median of all mixes (the best in hindsight: {told['best_over_one_after_another_median']:.3f})",
                 f"{told['over_one_after_another_median']:.3f}", "-", ""])
    rows.append(["each task's best size alone, 100 % each: median (worst mix)",
                 f"{told['over_single_median']:.3f} ({told['over_single_worst']:.3f})", "-", ""])
    for key, (_, what) in OTHERS.items():
        rows += [[f"**{what}** over the best in hindsight, {join}", f"{told[f'{key}_{k}']:.3f}", f"at most {GOALS[k]}",
                  _met(told[f"{key}_{k}"] <= GOALS[k])]
                 for k, join in (("over_hindsight_median", "median"), ("over_hindsight_worst", "worst mix"))]
    if told["live"]:
        least, most = told["live_foretold_over_real_least"], told["live_foretold_over_real_most"]
        rows.append(["live: time to target foretold before the run over real, all schemes", f"{least:.3f} to {most:.3f}",
                     "0.75 to 1.25", _met(0.75 <= least and most <= 1.25)])
        rows.append(["live: rounds taken times predicted length over real, median of schemes",
                     f"{told['live_predicted_over_real']:.3f}", "0.75 to 1.25",
                     _met(0.75 <= told["live_predicted_over_real"] <= 1.25)])
        rows.append([f"live: the {told['live_pairs_apart']} of {told['live_pairs']} pairs of schemes that end in one "
                     "order with every seed were foretold in it", "yes" if told["live_order_kept"] else "no", "yes",
                     _met(told["live_order_kept"])])
    off = {t: r for t, r in told["phi_measured_over_rounds"].items() if not 0.5 <= r <= 2}
    rows.append(["noise scale measured over that from rounds, data sets beyond a factor of two",
                 ", ".join(f"{t} {r:g}" for t, r in off.items()) or "none", "none", _met(not off)])
    rows.append(["settings whose measured noise scale is within a factor of two of the interval from rounds at sizes "
                 "with enough steps", f"{told['phi_agrees']} of {told['phi_settings']}", "all",
                 _met(told["phi_agrees"] == told["phi_settings"])])
    return f"""## Goals

Time to target of the plan by progress relative to that of its rivals, on {told['mixes']} mixes; below 1 the plan is faster.

{_table(["over", "measured", "goal", ""], rows)}

Batch size 32 leaves devices idle if rounds in which all tasks share at 100 % take at most {IDLE:g} of the time
of rounds that run one task after another, both at 32. Otherwise no plan gains by sharing.

The best in hindsight is the minimum of about a hundred means of five seeds, so it is partly luck. This
advantage disappears if it is chosen with four seeds and judged on the fifth, in rotation. Relative to that
choice, the plan takes
{told['over_crossed_median']:.3f} in the median and \
{told['over_crossed_worst']:.3f} on the worst mix, and
relative to one after another with batch sizes chosen in this way it takes {told['one_after_another_crossed_median']:.3f} in the median."""


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

Time to target relative to the best scheme and batch sizes in hindsight. Only the rows *as planned* and those at
the reference size, 32, could have been chosen beforehand. The largest size is 256. *Each task's best size alone* is
the trivial rival of the plan by progress: it has the same rounds, but no model of co-runs, and takes for each task
the size that reaches its target soonest where it has the devices for itself. The plan by noise scale excludes batch
sizes above 32 at which clients make fewer than 6.6 steps per round, since momentum is then not even half built up;
*any batch size* is the same plan without that bound. It also knows that the sweep of learning rates ends at \
{max(told['learning_rates']):g}: a batch size that needs a larger rate is worth less than the noise \
scale says; *any learning rate* is the plan without that.

{_table(["scheme", "batch sizes", "median", "worst"], rows)}"""


def _noise(told: Mapping) -> str:
    rows = [[n["task"], n["split"], str(n["clients"]), *(_rounds(n["rounds"][str(b)]) for b in BATCHES),
             _scale(n["phi_rounds"]), _shown(n["with_steps"]), _scale(n["phi_measured"]), _scale(n["phi_alone"]),
             "-" if n["measured_over_rounds"] is None else f"{n['measured_over_rounds']:.2f}", "yes" if n["agrees"] else "no"] for n in told["noise"]]
    targets = ", ".join(f"{t} {100 * a:g} %" for t, a in TARGETS.items())
    medians = ", ".join(f"{t} {r:g}" for t, r in told["phi_measured_over_rounds"].items())
    return f"""## Noise scales: measured, and from rounds

Rounds to the target (test accuracy: {targets}; mean of five seeds), the noise scale phi that fits them best
(rounds in proportion to phi + B), and the scales that workers measured in the first run: that of the
federation's gradient, which plans by noise scale use, and that of each client's own gradient. Measured scale relative to the
scale from rounds, median over the settings of a data set: {medians}.

*With enough steps* fits only sizes at which clients make at least 6.6 steps per round. In brackets is the 95 %
interval over resampled seeds; a dash means that fewer than two sizes have that many steps. A measured scale
agrees if it is within a factor of two of that interval. A small data set spread over many clients has one or
two steps per round at 128 and 256; its rounds then show the restart of momentum, not noise.

{_table(["task", "split", "clients", *map(str, BATCHES), "phi from rounds", "with enough steps", "measured",
         "of clients alone", "ratio", "agrees"], rows)}

Rounds predicted from the measured scale over measured rounds, both relative to batch size 32. Each cell is the
root mean square of the logarithm of this ratio over the settings, by the law alone and with the end of the
sweep of learning rates.

{_table(["batch size", "settings", "law alone", "with the end of the sweep"],
        [[str(f["batch"]), str(f["settings"]), f"{f['law']:.2f}", f"{f['end_of_sweep']:.2f}"] for f in told["foretold"]])}"""


def _scale(phi: float | None) -> str:
    """A noise scale; a dash if the gradient vanishes in the noise, which happens to the later half of a training that
    reaches its target early."""
    return "-" if phi is None else f"{phi:.0f}"


def _shown(shown: Mapping) -> str:
    return "-" if shown["phi"] is None else f"{shown['phi']:.0f} ({shown['low']:.0f} to {shown['high']:.0f})"


def _alone(told: Mapping) -> str:
    if not told["alone"]:
        return ""
    rows = [[a["task"], *(_rounds(a["epochs"][str(b)]) for b in BATCHES), _shown(a["shown"]),
             *(_scale(a[k]) for k in ("summed", "later_half", "over_time")),
             ", ".join(f"{_scale(p)} at {rate}" for rate, p in a["by_rate"].items())] for a in told["alone"]]
    return f"""## Noise scales without a federation

One training of each data set on all its rows, without clients and rounds, with the learning rate that is
fastest at each size. The columns: epochs to the target at each batch size (mean of five seeds); the noise scale
that fits them; and three noise scales from norms of half and whole batches at 32. The first of these is one
ratio of sums over all steps, the second uses the later half of the steps, and the third is the constant scale
that gives a training of the same length (phi + 32 is the harmonic mean over ten parts). The last column is the
third one again, for trainings with other learning rates to the same target.

{_table(["task", *map(str, BATCHES), "phi from epochs", "summed", "later half", "over time", "by learning rate"], rows)}"""


def _rounds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _late(told: Mapping) -> str:
    if not told["deadline"]:
        return ""
    rows = []
    for d in told["deadline"]:
        for key, name in (("wait_for_all", "wait for all"), ("deadline", "deadline"),
                          ("deadline_replanned", "deadline, late clients re-planned")):
            ratio = d[key]["over_waiting"]
            rows.append([d["mix"], name, f"{d[key]['round_s']:.0f}", f"{d[key]['rows_percent']:.0f} %",
                         ", ".join(f"{t} {_rounds(n)}" for t, n in d[key]["rounds"].items()),
                         _seconds(d[key]["seconds"]), _seconds(d[key]["foretold_s"]), "-" if ratio is None else f"{ratio:.2f}"])
    head = ["mix", "policy", "round, s", "rows trained", "rounds", "time to target, s", "foretold, s", "over waiting"]
    return f"""## Stragglers

The deadline is half the length of a round that waits for all clients; the batch sizes are those of the plan by progress. `mt-overlap
--federation --deadline` gives the fraction of its samples that a late client can train on in time; this is also
its weight in averages. If they are re-planned, late clients get the batch sizes and shares with the earliest
predicted targets, given the value of their samples at the learning rate that all clients share: by the noise
scale, and no more than by the rounds at a rate of their own. The fraction
that they train on follows from measured rates, as for the deadline. Medians relative to waiting: deadline {told['deadline_over_waiting_median']:.3f}, re-planned \
{told['replanned_over_waiting_median']:.3f}.
Re-planned over deadline: median {told['replanned_over_deadline_median']:.3f}, \
{told['replanned_over_deadline_least']:.3f} to {told['replanned_over_deadline_most']:.3f}.
The policy for which `mt-overlap` predicts the earliest targets: median \
{told['advised_over_waiting_median']:.3f}, worst {told['advised_over_waiting_worst']:.3f}. A dash means that a
client is too late to take part, and that a target cannot be reached without its rows.

{_table(head, rows)}"""


def _live(told: Mapping) -> str:
    if not told["live"]:
        return ""
    rows = [[r["scheme"], ", ".join(f"{t} {b}" for t, b in r["batch"].items()), f"{r['rounds']:g}",
             f"{r['foretold_s']:.1f}", f"{r['predicted_s']:.1f}", f"{r['real_s']:.1f}",
             f"{min(r['real_by_seed_s']):.1f} to {max(r['real_by_seed_s']):.1f}", f"{r['foretold_over_real']:.2f}",
             f"{r['predicted_over_real']:.2f}"] for r in told["live"]]
    pairs = "; ".join(f"{a['scheme']} before {b['scheme']}" for a, b in apart(told["live"])) or "none"
    return f"""## Live

Two sites, each one processor of this machine, with three processes per site under CPU quotas (`mt-launch exec`)
and transfers of limited rate. Times are wall-clock, means of one run with each of \
{len(told['live'][0]['real_by_seed_s'])} seeds. *Foretold*, before anything was trained, is the number of rounds of the
runs that chose the learning rates, multiplied by the length of the timeline from a profile taken just before;
*predicted* is the same with the number of rounds that the run took. It was run with the tools and sources of
`{told['live_program']}`.

{_table(["scheme", "batch sizes", "rounds", "foretold, s", "predicted, s", "real, s", "least to most, s",
         "foretold / real", "predicted / real"], rows)}

**How sure the order is.** In one order with every seed: {pairs}. The other pairs change their order from seed to
seed."""


def _scaled(told: Mapping) -> str:
    rows = [[r["mix"], f"{r['over_hindsight']:.2f}", f"{r['over_samples_plan']:.2f}"] for r in told["scaled"]]
    if not rows:
        return ""
    return f"""## With learning rates that grow with the batch

The sweep of learning rates above is the same at every batch size, 0.01 to 0.3. If the rates are multiplied by
the root of B / 32, up to 0.85 at 256, large batches need fewer rounds, and the plan by progress gains less over
that by samples:

{_table(["mix", "over hindsight", "over plan by samples"], rows)}"""
