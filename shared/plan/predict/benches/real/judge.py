"""Judges the predictor, and what a user would otherwise pick, on measurements by others.

    judge.py DATA OUT BENCH [--no-peers] [--gpus v100,p100] [--only KIND] [--seeds N]
             [--day DAY] [--json FILE] [--page FILE]

DATA holds the measurements (problems.py says what they are), OUT gets the problems, BENCH is the
program `bench-real`. Peers see every throughput of the training samples, runs of one task
included, as one row: the logarithms of the batch size, the share and the solo step, and the model;
and about the other tasks their number, the sum of their shares, the mean logarithm of their solo
steps, and the shares of each model. They learn the logarithm of the throughput over the solo rate.
Two simple laws are judged beside them: `line`, where more tasks run than were learnt, and
`interpolation`, where all run alone.

DAY, which seeds all draws, is today unless it is given.

Errors are those of single throughputs, untrimmed; for `mixes` they are errors of the ratios to
100 %. For mixes the page also gives the error with everyone at 50 and at 14 %, and compares the
ranking of the three settings, by the geometric mean of the rates in each mix of four and more jobs,
to the measured one: whether all three are in order, and whether the best is found. Settings that
differ by less than a measurement repeats to (2 %) may be ranked either way.
"""

import argparse
import collections
import datetime
import json
import math
import os
import platform
import subprocess
import warnings

import problems

HALF_WIDTH = 1.645
warnings.filterwarnings("ignore")


def solo_table(train):
    """Solo rate at the whole device of every task and batch size; the nearest batch otherwise."""
    table = collections.defaultdict(dict)
    for sample in train:
        if len(sample) == 1 and sample[0][2] >= 99:
            task, batch, _, rate = sample[0]
            table[task][batch] = rate
    for sample in train:
        for task, batch, _, rate in sample:
            if task not in table:
                table[task][batch] = rate
    return table


def solo(table, task, batch):
    known = table[task]
    near = min(known, key=lambda b: abs(b - batch))
    return known[near]


def rows_of(samples, table, names):
    import numpy as np

    # Copies of a model count as one.
    models = sorted({problems.model_of(name) for name in names})
    at = {name: models.index(problems.model_of(name)) for name in names}
    n = len(models)
    x, y = [], []
    for sample in samples:
        for k, (task, batch, share, rate) in enumerate(sample):
            own = solo(table, task, batch)
            others = [s for j, s in enumerate(sample) if j != k]
            steps = [np.log(b / solo(table, t, b)) for t, b, _, _ in others]
            which, whom = np.zeros(n), np.zeros(n)
            which[at[task]] = 1
            for t, _, s, _ in others:
                whom[at[t]] += s / 100
            x.append(np.concatenate([[
                np.log(batch), np.log(share / 100), np.log(batch / own), len(others),
                sum(s for _, _, s, _ in others) / 100, np.mean(steps) if steps else 0.0,
            ], which, whom]))
            y.append(np.log(rate / own))
    return np.array(x), np.array(y)


def learners():
    import numpy as np
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def gp(rows):
        # One length for all features where there are many rows: one each would take minutes.
        kernel = ConstantKernel(1.0) * Matern(1.0, (1e-2, 1e3), nu=2.5) + WhiteKernel(1e-3)
        return make_pipeline(StandardScaler(), GaussianProcessRegressor(
            kernel, normalize_y=True, random_state=0))

    return {
        "gp": gp,
        "boosting": lambda _: GradientBoostingRegressor(
            n_estimators=300, learning_rate=0.05, max_depth=3, subsample=0.8, random_state=0),
        "forest": lambda _: RandomForestRegressor(n_estimators=200, random_state=0),
    }


def line(problem, table):
    """Of copies of a model: the slow-down grows with each task as by the last one that was learnt."""
    slow = collections.defaultdict(list)
    for sample in problem.train:
        for task, batch, _, rate in sample:
            slow[len(sample), batch].append(solo(table, task, batch) / rate)
    most = max(k for k, _ in slow)

    def at(k, batch):
        near = min((b for n, b in slow if n == k), key=lambda b: abs(b - batch))
        return mean(slow[k, near])

    def one(tasks, batch):
        last = at(most, batch)
        return last + (tasks - most) * (last - at(most - 1, batch))

    return [solo(table, t, b) / one(len(s), b) for s in problem.held for t, b, _, _ in s]


def interpolation(problem, table):
    """Of a task alone: linear between its nearest measured batch sizes and shares, as logarithms; the
    nearest of them outside."""
    import numpy as np
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

    of = collections.defaultdict(list)
    for ((task, batch, share, rate),) in problem.train:
        of[task].append((np.log(batch), np.log(share), np.log(rate)))
    out = []
    for ((task, batch, share, _),) in problem.held:
        x = np.array(of[task])
        at = [[np.log(batch), np.log(share)]]
        own = x[np.abs(x[:, 0] - np.log(batch)) < 1e-9]
        own = own[np.argsort(own[:, 1])]
        if len(own) > 1:
            found = np.interp(np.log(share), own[:, 1], own[:, 2])
        else:
            flat = len(x) < 4 or min(np.ptp(x[:, 0]), np.ptp(x[:, 1])) == 0
            found = np.nan if flat else LinearNDInterpolator(x[:, :2], x[:, 2])(at)[0]
            if np.isnan(found):
                found = NearestNDInterpolator(x[:, :2], x[:, 2])(at)[0]
        out.append(float(np.exp(found)))
    return out


def peers(problem, names, folder):
    """Predicted throughput of every held-out row by each peer; read again where it was written."""
    path = f"{folder}/{problem.name}.peers.json"
    if os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    import numpy as np

    table = solo_table(problem.train)
    x, y = rows_of(problem.train, table, names)
    z, _ = rows_of(problem.held, table, names)
    own = np.array([solo(table, t, b) for s in problem.held for t, b, _, _ in s])
    # Without interference a task keeps its solo rate; with the mean slow-down, a part of it that is
    # the same for all.
    several = np.array([len(s) > 1 for s in problem.train for _ in s])
    slow = np.exp(np.mean(y[several])) if several.any() else 1.0
    together = np.array([len(s) > 1 for s in problem.held for _ in s])
    answers = {
        "no interference": own,
        "mean slow-down": own * np.where(together, slow, 1.0),
    }
    if problem.kind.startswith("parva"):
        answers["line"] = line(problem, table)
    if all(len(s) == 1 for s in problem.train + problem.held):
        answers["interpolation"] = interpolation(problem, table)
    rng = np.random.default_rng(0)
    for name, make in learners().items():
        kept = rng.permutation(len(y))[:600 if name == "gp" else 6000]
        model = make(len(y)).fit(x[kept], y[kept])
        answers[name] = own * np.exp(model.predict(z))
    answers = {name: [float(v) for v in values] for name, values in answers.items()}
    with open(path, "w") as file:
        json.dump(answers, file)
    return answers


def ours(problem, names, folder):
    number = {name: k for k, name in enumerate(names)}
    found = {}
    seconds = 0.0
    with open(f"{folder}/{problem.name}.out") as file:
        for line in file:
            if line.startswith("#"):
                seconds = float(line[1:])
                continue
            config, task, rate, error = line.split(",")
            found[int(config), int(task)] = float(rate), float(error)
    order = [(k, number[row[0]]) for k, sample in enumerate(problem.held) for row in sample]
    return [found[key] for key in order], seconds


def errors(problem, predicted):
    """Relative error of every row, percent; of the ratio to the same mix at 100 % for mixes."""
    rows = [row for sample in problem.held for row in sample]
    if not problem.kind.startswith("mixes"):
        return [100 * abs(p / r[3] - 1) for p, r in zip(predicted, rows)]
    out, at = [], 0
    for k in range(0, len(problem.held), 3):
        m = len(problem.held[k])
        for setting in (1, 2):
            for j in range(m):
                a, b = at + j, at + setting * m + j
                measured = rows[b][3] / rows[a][3]
                out.append(100 * abs(predicted[b] / predicted[a] / measured - 1))
        at += 3 * m
    return out


def relative(problem, rates, table):
    """Rates over solo rates, by sample."""
    at, out = 0, []
    for sample in problem.held:
        out.append([rates[at + j] / solo(table, t, b) for j, (t, b, _, _) in enumerate(sample)])
        at += len(sample)
    return out


def measured_rates(problem):
    return [row[3] for sample in problem.held for row in sample]


def geometric_mean(values):
    return math.exp(sum(math.log(max(v, 1e-12)) for v in values) / len(values))


def regret(problem, predicted, table):
    """Percent lost by taking the held-out configuration with the largest predicted sum of
    throughputs over solo rates, against the best; of mixes, the mean over mixes of the loss of
    geometric-mean rate by the setting chosen."""
    measured = relative(problem, measured_rates(problem), table)
    said = relative(problem, predicted, table)
    if problem.kind.startswith("mixes"):
        lost = []
        for k in range(0, len(measured), 3):
            best = max(geometric_mean(v) for v in measured[k:k + 3])
            taken = max(range(k, k + 3), key=lambda i: geometric_mean(said[i]))
            lost.append(100 * (1 - geometric_mean(measured[taken]) / best))
        return sum(lost) / len(lost)
    best = max(sum(v) for v in measured)
    return 100 * (1 - sum(measured[max(range(len(said)), key=lambda i: sum(said[i]))]) / best)


# Sum of rates over solo rates from which on sharing is worth it: what switching and a worse
# placement may cost is not measured here, and 5 % is what a user would want for it.
WORTH = 1.05


def worth(problem, predicted, table):
    """Of each held-out co-run: whether its sum of rates over solo rates is said on the right side of
    `WORTH`, and the relative error of the sum, percent; and whether "always" is right."""
    out = []
    both = relative(problem, measured_rates(problem), table), relative(problem, predicted, table)
    for is_, says in zip(*both):
        is_, says = sum(is_), sum(says)
        out.append(((says > WORTH) == (is_ > WORTH), 100 * abs(says / is_ - 1), is_ > WORTH))
    return out


# A measurement of a mix repeats to 2 % (the same jobs, recorded more than once).
REPEATS_TO = 0.02


def rankings(problem, predicted, table):
    """For each mix of four and more jobs: whether all three settings are ranked as measured, and
    whether the best of them is found."""
    measured = relative(problem, measured_rates(problem), table)
    said = relative(problem, predicted, table)
    out = []
    for k in range(0, len(measured), 3):
        if len(measured[k]) < 4:
            continue
        is_, says = ([geometric_mean(v) for v in of[k:k + 3]] for of in (measured, said))
        order = sorted(range(3), key=lambda i: -says[i])
        # Whether no setting is measured to be worse than one that is ranked behind it.
        right = all(is_[order[i]] >= (1 - REPEATS_TO) * is_[order[j]]
                    for i in range(3) for j in range(i + 1, 3))
        out.append((right, is_[order[0]] >= (1 - REPEATS_TO) * max(is_)))
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("bench")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--gpus", default="v100,p100")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--day", default=str(datetime.date.today()))
    parser.add_argument("--json")
    parser.add_argument("--page")
    args = parser.parse_args()
    # Answers of the peers are kept by the problem's name.
    args.out = f"{args.out}/{args.day}"
    os.makedirs(args.out, exist_ok=True)
    for name in os.listdir(args.out):
        if name.endswith((".csv", ".out")):
            os.remove(f"{args.out}/{name}")
    todo = []
    for problem in problems.all_problems(args.data, args.seeds, args.gpus.split(","), args.day):
        if problem.kind.startswith(args.only):
            todo.append((problem, problems.write(problem, args.out)))
    subprocess.run([args.bench, args.out], check=True)
    table = collections.defaultdict(lambda: collections.defaultdict(list))
    for problem, names in todo:
        answers = {} if args.no_peers else peers(problem, names, args.out)
        found, seconds = ours(problem, names, args.out)
        answers["ours"] = [rate for rate, _ in found]
        solos = solo_table(problem.train)
        of = table[problem.kind]
        for name, predicted in answers.items():
            of[name] += errors(problem, predicted)
            of[name, "regret"].append(regret(problem, predicted, solos))
            if problem.kind.startswith("gavel"):
                of[name, "worth"] += worth(problem, predicted, solos)
            if problem.kind.startswith("mixes"):
                each = errors(problem, predicted)
                shares = [row[2] for s in problem.held for row in s if row[2] < 100]
                for share in (50, 14):
                    of[name, share] += [e for e, of_ in zip(each, shares) if of_ == share]
                of[name, "ranked"] += rankings(problem, predicted, solos)
        rows = [row for sample in problem.held for row in sample]
        of["inside"] += [abs(p - r[3]) <= HALF_WIDTH * e for (p, e), r in zip(found, rows)]
        of["seconds"].append(seconds)
    report(table, args.json)
    if args.page:
        with open(args.page, "w") as file:
            file.write(page(table, args))


def mean(v):
    return sum(v) / len(v)


def best_of_others(of):
    """Name of the peer of least error, and its error; `None` without peers."""
    others = {k: mean(v) for k, v in of.items()
              if isinstance(k, str) and k not in ("ours", "inside", "seconds")}
    return min(others.items(), key=lambda item: item[1]) if others else None


def report(table, path):
    rows = []
    print(f"{'problem':22}{'rates':>7}{'error %':>9}{'hold %':>8}{'regret %':>9}{'fit s':>7}"
          "  best of the others (error %), regret of the others")
    for kind, of in table.items():
        others = {k: mean(v) for k, v in of.items()
                  if isinstance(k, str) and k not in ("ours", "inside", "seconds")}
        error, inside = mean(of["ours"]), 100 * mean(of["inside"])
        lost = mean(of["ours", "regret"])
        line = f"{kind:22}{len(of['ours']):7}{error:9.2f}{inside:8.0f}{lost:9.2f}{mean(of['seconds']):7.2f}"
        if others:
            best = min(others, key=others.get)
            line += f"  {error / others[best]:.2f} of {best}: " + ", ".join(
                f"{k} {v:.2f} ({mean(of[k, 'regret']):.1f})" for k, v in others.items())
            rows.append({
                "name": f"real_{kind}", "value": error, "unit": "percent", "baseline": best,
                "baseline_value": others[best], "ratio": error / others[best],
                "what": f"error of a throughput; 90 % intervals hold {inside:.0f} %, regret {lost:.2f} %",
            })
        print(line, flush=True)
        for name in [k[0] for k in of if isinstance(k, tuple) and k[1] == "ranked"]:
            print("    " + of_mixes(of, name))
        if ("ours", "worth") in of:
            print("    " + of_worth(of))
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def of_worth(of):
    """How often each is right about whether a co-run is worth it, and how far its sum is off."""
    names = [k[0] for k in of if isinstance(k, tuple) and k[1] == "worth"]
    always = 100 * mean([yes for _, _, yes in of["ours", "worth"]])
    each = [f"{name} {100 * mean([r for r, _, _ in of[name, 'worth']]):.1f} % "
            f"(sum off by {mean([e for _, e, _ in of[name, 'worth']]):.1f} %)" for name in names]
    return f"always {always:.1f} %, never {100 - always:.1f} %, " + ", ".join(each)


def of_mixes(of, name):
    ranked = of[name, "ranked"]
    return (f"{name}: {mean(of[name, 50]):.2f} % at 50, {mean(of[name, 14]):.2f} % at 14; all "
            f"settings in the measured order in {100 * mean([r for r, _ in ranked]):.0f} % of {len(ranked)} "
            f"mixes of 4 and more jobs, the best one found in {100 * mean([b for _, b in ranked]):.0f} %")


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def page(table, args):
    lines = [
        "# The predictor on measurements by others",
        "",
        "Written by `make bench-real`. [`problems.py`](problems.py) says what is learnt, what is held out and",
        "what was assumed about each source; [`judge.py`](judge.py) says what the peers see.",
        "",
        "Not all of these data were unseen when the predictor was made. What was chosen by which:",
        "",
        "- Pairs of the V100: the kernel and the weights of the Gaussian process for all tasks.",
        "- A look at the slices: the scoring of intervals of solo rates, which was kept as it was.",
        "- The K80 and simulated mixes: the calibration of the intervals of co-runs.",
        "- The K80 and other draws of the same pairs and slices: when a solo step is kept, how far apart two tasks are, how",
        "  tasks at one share scale, and the smoothness of the process for all tasks and the priors of its",
        "  hyper-parameters. On these and on other held-out jobs: how certain a weight must be.",
        "- One draw of `mixes-solos` on this page: a family of models may win by being significantly better. Draws of",
        "  `mixes-solos` of three days, 2026-11-24 among them: the number of co-runs that weights are chosen by.",
        "- Meanwhile the rows of pairs, jobs, mixes and ParvaGPU were watched; those of draws were not.",
        "- ParvaGPU: the line to more tasks has the slope of the last two numbers.",
        "- A look at the rows that no draw changes: a solo step between two measured shares is linear in one over the share",
        "  (`curves`; this had the least error of five interpolations); intervals learnt from few parts that were held out",
        "  entirely widen by Student's t (they held 83 % of `gavel-p100-jobs` and 77 % of `curves`); the factor on intervals",
        "  for more tasks grows with the fraction of them that is new (they held 96 and 98 % of ParvaGPU).",
        "- Pairs of two models, drawn by the day 2026-12-07 as slices were: intervals of two to five co-runs also widen by",
        "  Student's t. They held 71 to 76 % before and 85 to 96 % after; with two to five pairs of all jobs 61 to 86 %",
        "  before and 75 to 99 % after.",
        "",
        f"Run on {datetime.date.today()}, on {processor()}; "
        f"{args.seeds} draws of each size (2 of mixes), seeded by the day {args.day}.",
        "",
        "Error: the mean over single throughputs, untrimmed. Hold: the throughputs that lie within their 90 %",
        "intervals. Regret: how much the held-out configuration that is predicted to be the best loses against",
        "the one measured to be the best. Fit: elapsed seconds of the whole fit with cross-validation, while",
        "other work ran on the machine.",
        "",
        "| problem | throughputs | error % | best peer (error %) | ratio | hold % | regret % | of that peer | fit s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, of in table.items():
        best = best_of_others(of)
        error = mean(of["ours"])
        peer, ratio, its = "", "", ""
        if best:
            name, least = best
            peer, ratio = f"{name} ({least:.2f})", f"{error / least:.2f}"
            its = f"{mean(of[name, 'regret']):.2f}"
        lines.append(f"| {kind} | {len(of['ours'])} | {error:.2f} | {peer} | {ratio} | "
                     f"{100 * mean(of['inside']):.0f} | {mean(of['ours', 'regret']):.2f} | {its} | "
                     f"{mean(of['seconds']):.2f} |")
    pairs = [(kind, of) for kind, of in table.items() if ("ours", "worth") in of]
    if pairs:
        lines += ["", "Is sharing worth it? How often each is right about whether the sum of a pair's rates, each over the",
                  f"rate alone, exceeds {WORTH}. \"Mean slow-down\" answers by one constant for all pairs.", ""]
    lines += [f"- {kind}: {of_worth(of)}" for kind, of in pairs]
    mixes = [(kind, of) for kind, of in table.items() if ("ours", "ranked") in of]
    if mixes:
        lines += ["", "Mixes: the error with everyone at 50 and at 14 %, and the ranking of the three settings. A",
                  "measurement repeats to 2 %, so settings that differ by less may be ranked either way.", ""]
    for kind, of in mixes:
        names = [k[0] for k in of if isinstance(k, tuple) and k[1] == "ranked"]
        lines += [f"- {kind}, {of_mixes(of, name)}" for name in names]
    return "\n".join(lines) + "\n"


main()
