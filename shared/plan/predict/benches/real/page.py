"""The page and the lines that say how the predictor and its peers did.

`table[problem kind][name]` holds errors (percent) of every throughput; with a tuple as the key, lists with one
number for each unit: "error" and "worth" of each draw, part or mix, "regret" of each pick.
"""

import datetime
import json
import math
import platform
import statistics

SIMPLE = ("line", "interpolation")
PEERS = ("gp", "boosting", "forest", "ridge", "mean slow-down", "no interference") + SIMPLE


def mean(v):
    return sum(v) / len(v)


def spread(v):
    """Standard error of the mean of independent numbers."""
    if len(v) < 2:
        return float("nan")
    m = mean(v)
    return math.sqrt(sum((x - m) ** 2 for x in v) / (len(v) - 1) / len(v))


# Fewer differences than this do not tell how much they scatter.
LEAST_TO_TELL = 5


def verdict(ours, others):
    """Whether our numbers are smaller than another's of the same draws: the mean difference lies outside its
    95 % interval."""
    gap = [a - b for a, b in zip(ours, others)]
    if len(gap) < LEAST_TO_TELL:
        return "?"
    # Student's t at 97.5 %, to within 1 % from four degrees of freedom on.
    free = len(gap) - 1
    t = 1.96 + 2.37 / free + 2.8 / free**2
    if abs(mean(gap)) <= t * spread(gap):
        return "?"
    return "better" if mean(gap) < 0 else "worse"


def others_of(of):
    return [name for name in PEERS if name in of]


def best_of_others(of):
    """Name of the peer of least error, and its error; `None` without peers."""
    others = {name: mean(of[name]) for name in others_of(of)}
    return min(others.items(), key=lambda item: item[1]) if others else None


def report(table, path):
    rows = []
    print(f"{'problem':18}{'draws':>6}{'error %':>15}{'hold %':>14}{'regret %':>14}{'fit s':>7}"
          "  best of the others (error %), the others: error, regret (whether ours is less)")
    for kind, of in table.items():
        error, inside = mean(of["ours"]), 100 * mean(of["inside"])
        lost = of["ours", "regret"]
        line = (f"{kind:18}{len(of['seconds']):6}{error:8.2f} ± {spread(of['ours', 'error']):4.2f}"
                f"{inside:7.1f} ± {spread(of['ours', 'hold']):4.1f}"
                f"{mean(lost):7.2f} ± {spread(lost):4.2f}{mean(of['seconds']):7.2f}")
        best = best_of_others(of)
        if best:
            line += f"  {error / best[1]:.2f} of {best[0]}: " + ", ".join(
                f"{k} {mean(of[k]):.2f} ({regret_cell(of, k)})" for k in others_of(of))
            rows.append({
                "name": f"real_{kind}", "value": error, "unit": "percent", "baseline": best[0],
                "baseline_value": best[1], "ratio": error / best[1],
                "what": f"error of a throughput; 90 % intervals hold {inside:.0f} %, regret {mean(lost):.2f} %",
            })
        print(line, flush=True)
        for name in [k[0] for k in of if isinstance(k, tuple) and k[1] == "ranked"]:
            print("    " + of_mixes(of, name))
        if ("ours", "worth") in of:
            print("    " + of_worth(of))
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def regret_cell(of, name):
    return f"{mean(of[name, 'regret']):.2f} {verdict(of['ours', 'regret'], of[name, 'regret'])}"


def right(of, name):
    return 100 * mean(of[name, "worth"])


def trivial(of):
    """How often "always", "never" and one constant are right in each draw, by name."""
    yes = of["always", "worth"]
    of_all = {"always": yes, "never": [1 - v for v in yes]}
    constant = {"mean slow-down": of["mean slow-down", "worth"]} if "mean slow-down" in of else {}
    return of_all | constant


def against_trivial(of):
    best = max(trivial(of).values(), key=mean)
    # `verdict` says whether less is better.
    return verdict([-v for v in of["ours", "worth"]], [-v for v in best])


def of_worth(of):
    """How often each is right about whether a co-run is worth it, and how far its sum is off."""
    names = [name for name in (*PEERS, "ours") if (name, "worth") in of]
    each = [f"{name} {right(of, name):.1f} % (sum off by {mean(of[name, 'sum']):.1f} %)" for name in names]
    return (f"always {right(of, 'always'):.1f} %, " + ", ".join(each)
            + f"; against the best of always, never and the mean slow-down: {against_trivial(of)}")


def of_mixes(of, name):
    ranked = of[name, "ranked"]
    return (f"{name}: {mean(of[name, 50]):.2f} % at 50, {mean(of[name, 14]):.2f} % at 14; all "
            f"settings in the measured order in {100 * mean([r for r, _ in ranked]):.0f} % of {len(ranked)} "
            f"mixes of 4 and more jobs, the best one found in {100 * mean([b for _, b in ranked]):.0f} %")


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def table_of_errors(table):
    lines = [
        "| problem | draws | throughputs | error % | best peer (error %) | ratio | ours is | hold % | fit s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, of in table.items():
        error = mean(of["ours"])
        name, least = best_of_others(of)
        lines.append(
            f"| {kind} | {len(of['seconds'])} | {len(of['ours'])} | {error:.2f} ± {spread(of['ours', 'error']):.2f} | "
            f"{name} ({least:.2f}) | {error / least:.2f} | {verdict(of['ours', 'error'], of[name, 'error'])} | "
            f"{100 * mean(of['inside']):.0f} ± {spread(of['ours', 'hold']):.0f} | {mean(of['seconds']):.2f} |")
    return lines


def table_of_regrets(table):
    lines = [
        "| problem | picks | ours | gp | boosting | forest | mean slow-down | no interference | simple law |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, of in table.items():
        lost = of["ours", "regret"]
        cells = [regret_cell(of, name) for name in PEERS if name not in SIMPLE]
        cells += [f"{name} {regret_cell(of, name)}" for name in SIMPLE if name in of] or [""]
        lines.append(f"| {kind} | {len(lost)} | {mean(lost):.2f} ± {spread(lost):.2f} | " + " | ".join(cells) + " |")
    return lines


def table_of_worth(table):
    names = [*PEERS[:4], "ours"]
    lines = ["| problem | always | " + " | ".join(names) + " | ours is |", "|---" * (len(names) + 3) + "|"]
    for kind, of in table.items():
        if ("ours", "worth") not in of:
            continue
        cells = [f"{right(of, name):.1f} ({mean(of[name, 'sum']):.1f})" for name in names]
        lines.append(f"| {kind} | {right(of, 'always'):.1f} | " + " | ".join(cells) + f" | {against_trivial(of)} |")
    return lines


def of_crowd(of, name):
    """Mean and median error of single throughputs, and the mean error of totals."""
    return f"{mean(of[name]):.1f} | {statistics.median(of[name]):.1f} | {mean(of[name, 'sum']):.1f}"


def table_of_crowds(table):
    lines = ["| problem | throughputs | ours: mean | median | total | ridge: mean | median | total | hold % |",
             "|" + "---|" * 9]
    for kind, of in table.items():
        if kind.startswith("crowd"):
            lines.append(f"| {kind} | {len(of['ours'])} | {of_crowd(of, 'ours')} | {of_crowd(of, 'ridge')} | "
                         f"{100 * mean(of['inside']):.0f} |")
    return lines


def text(table, args, worth):
    lines = [
        "# The predictor on measurements by others",
        "",
        "Written by `make bench-real`. [`problems.py`](problems.py) says what is learnt, what is held out and",
        "what was assumed about each source; [`judge.py`](judge.py) says what the peers see.",
        "",
        "Not all of these data were unseen when the predictor was made. What was chosen by which:",
        "",
        *CHOSEN,
        "",
        f"Run on {datetime.date.today()}, on {processor()}; "
        f"draws seeded by the day {args.day}.",
        "",
        "Error: the mean over single throughputs, untrimmed. Hold: the throughputs that lie within their 90 %",
        "intervals. Fit: elapsed seconds of the whole fit with cross-validation, while other work ran on the",
        "machine. After ± stands the standard error over draws, over the parts that were left out, or over mixes.",
        "Ours is better or worse if the mean difference on the same draws lies outside its 95 % interval; `?`:",
        "the draws do not tell. Of forty pairs that do not differ, one is called worse by chance.",
        "",
        *table_of_errors(table),
        "",
        "Regret, in percent: how much the held-out configuration that is predicted to be the best loses against the",
        "one measured to be the best. Each draw gives one pick, each mix one; beside each peer, whether ours is",
        "better. Among configurations that are predicted to be equally good, the mean of their losses counts: of all",
        "pairs without interference or with one slow-down for all.",
        "",
        *table_of_regrets(table),
        "",
        "Is sharing worth it? How often each is right (in brackets: how far its sum is off), in percent, about whether",
        f"the sum of a pair's rates, each over the rate alone, exceeds {worth}. \"Mean slow-down\" answers by one",
        "constant for all pairs. At the end ours against the best of \"always\", \"never\" and the mean slow-down.",
        "",
        *table_of_worth(table),
        "",
        "Mixes: the error with everyone at 50 and at 14 %, and the ranking of the three settings. A",
        "measurement repeats to 2 %, so settings that differ by less may be ranked either way.",
        "",
    ]
    for kind, of in table.items():
        names = [k[0] for k in of if isinstance(k, tuple) and k[1] == "ranked"]
        lines += [f"- {kind}, {of_mixes(of, name)}" for name in names]
    lines += [
        "",
        "Crowds: more tasks than were learnt together, beside ridge regression. Errors in percent of single",
        "throughputs, and of the sum of the rates of a co-run, each over the rate alone. Hold: the throughputs that lie",
        f"within their 90 % intervals. Draws seeded by the day {args.day}.",
        "",
        *table_of_crowds(table),
    ]
    return "\n".join(lines) + "\n"


CHOSEN = """\
- Pairs of the V100: the kernel and the weights of the Gaussian process for all tasks.
- A look at the slices: the scoring of intervals of solo rates, which was kept as it was.
- The K80 and simulated mixes: the calibration of the intervals of co-runs.
- The K80 and other draws of the same pairs and slices: when a solo step is kept, how far apart two tasks are, how
  tasks at one share scale, and the smoothness of the process for all tasks and the priors of its
  hyper-parameters. On these and on other held-out jobs: how certain a weight must be.
- One draw of `mixes-solos` on this page: a family of models may win by being significantly better. Draws of
  `mixes-solos` of three days, 2026-11-24 among them: the number of co-runs that weights are chosen by.
- Meanwhile the rows of pairs, jobs, mixes and ParvaGPU were watched; those of draws were not.
- ParvaGPU: the line to more tasks has the slope of the last two numbers.
- Crowds (more tasks than were learnt together): the root of the share was chosen on ParvaGPU, a draw of mixes of
  2026-11-27 and the totals of an H200, before other triples and crowds of it were seen; the growth of the queue and the
  intervals on these totals, ParvaGPU and draws of mixes of 2026-07-11 to 13, with a look at `crowd-survey` that decided
  nothing. That slow solo runs are corrected was found on `crowd-h200`. How much the growth by the last task counts was
  chosen on ParvaGPU and draws of mixes of 2026-07-11 and 12.
- A look at the rows that no draw changes: a solo step between two measured shares is linear in one over the share
  (`curves`; this had the least error of five interpolations); intervals learnt from few parts that were held out
  entirely widen by Student's t (they held 83 % of `gavel-p100-jobs` and 77 % of `curves`); the factor on intervals
  for more tasks grows with the fraction of them that is new (they held 96 and 98 % of ParvaGPU).
- Pairs of two models, drawn by the day 2026-12-07 as slices were: intervals of two to five co-runs also widen by
  Student's t.
- Draws of pairs of 2027-01-01: with fewer than six co-runs the process for all tasks has full weight. Draws of `many`
  of 2027-01-02: it distinguishes all tasks.
- A look at slices-10 and slices-20 of this page, whose picks lost 17 and 6 %: a task that did not run at a part of
  the device has at most the usual part of its step on the host. Judged on draws of 2027-01-03 and 2027-01-04.
- The prediction of jobs that never ran with others was chosen on the K80's jobs.
""".splitlines()
