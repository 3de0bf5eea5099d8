"""Judges the predictor, and what a user would otherwise pick, on measurements by others.

    judge.py DATA OUT BENCH [--no-peers] [--only KIND] [--seeds N] [--day DAY] [--json FILE] [--page FILE]

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
import multiprocessing
import os
import subprocess
import warnings

import page
import problems
from page import mean

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
    # A copy that never ran alone has the solo rates of the first one.
    known = table[task] or table[problems.model_of(task) + ".0"]
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
    from sklearn.linear_model import RidgeCV
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
        "ridge": lambda _: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
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
    if problem.kind.startswith(("parva", "crowd-parva")):
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
    if problem.kind.endswith("-sum"):
        # Each task has an equal part of the sum, so the mean of these ratios is that of the sums.
        return [100 * abs(mean(v) - 1) for v in of_samples(problem, predicted) for _ in v]
    if not problem.kind.startswith("mixes"):
        return [100 * abs(p / r[3] - 1) for p, r in zip(predicted, rows)]
    out, at = [], 0
    for m in map(len, problem.held[::3]):
        for setting in (1, 2):
            for j in range(m):
                a, b = at + j, at + setting * m + j
                measured = rows[b][3] / rows[a][3]
                out.append(100 * abs(predicted[b] / predicted[a] / measured - 1))
        at += 3 * m
    return out


def of_samples(problem, values):
    """Values over measured rates, by sample."""
    at, out = 0, []
    for sample in problem.held:
        out.append([values[at + j] / row[3] for j, row in enumerate(sample)])
        at += len(sample)
    return out


def held_within(problem, found):
    """Whether each measured rate lies in its 90 % interval; for sums, whether the sum lies in that of fully correlated
    errors."""
    if not problem.kind.endswith("-sum"):
        return [abs(p - m) <= HALF_WIDTH * e for (p, e), m in zip(found, measured_rates(problem))]
    rates, widths = (of_samples(problem, [f[k] for f in found]) for k in (0, 1))
    return [abs(mean(p) - 1) <= HALF_WIDTH * mean(e) for p, e in zip(rates, widths) for _ in p]


def relative(problem, rates, table):
    """Rates over solo rates, by sample."""
    at, out = 0, []
    for sample in problem.held:
        out.append([rates[at + j] / solo(table, t, b) for j, (t, b, _, _) in enumerate(sample)])
        at += len(sample)
    return out


def measured_rates(problem):
    return [row[3] for sample in problem.held for row in sample]


def by_unit(problem, values):
    """The mean of values of single throughputs: of the whole problem, or of each mix, as there are few problems."""
    if not problem.kind.startswith("mixes"):
        return [mean(values)]
    sizes = [len(sample) for sample in problem.held[::3]]
    of_each = len(values) // sum(sizes)
    ends = [of_each * sum(sizes[:k]) for k in range(len(sizes) + 1)]
    return [mean(values[a:b]) for a, b in zip(ends, ends[1:])]


def geometric_mean(values):
    return math.exp(sum(math.log(max(v, 1e-12)) for v in values) / len(values))


def regrets(problem, predicted, table):
    """Percent lost by each pick: of the held-out configuration with the largest predicted sum of throughputs over
    solo rates, against the best; of each mix, of geometric-mean rate by the setting chosen."""
    measured = relative(problem, measured_rates(problem), table)
    said = relative(problem, predicted, table)
    picks, worth_of = [range(len(said))], sum
    if problem.kind.startswith("mixes"):
        picks, worth_of = [range(k, k + 3) for k in range(0, len(said), 3)], geometric_mean
    lost = []
    for among in picks:
        best = max(worth_of(measured[i]) for i in among)
        # Rounding must not choose among equals: the mean of their losses.
        most = (1 - 1e-9) * max(worth_of(said[i]) for i in among)
        equals = [worth_of(measured[i]) for i in among if worth_of(said[i]) >= most]
        lost.append(100 * (1 - mean(equals) / best))
    return lost


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
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--day", default=str(datetime.date.today()))
    parser.add_argument("--json")
    parser.add_argument("--page")
    args = parser.parse_args()
    if args.page and args.no_peers:
        parser.error("--page compares with the peers; leave out --no-peers")
    # Answers of the peers are kept by the problem's name.
    args.out = f"{args.out}/{args.day}"
    os.makedirs(args.out, exist_ok=True)
    for name in os.listdir(args.out):
        if name.endswith((".csv", ".out")):
            os.remove(f"{args.out}/{name}")
    todo = []
    for problem in problems.all_problems(args.data, args.seeds, args.day):
        if problem.kind.startswith(tuple(args.only.split(","))):
            todo.append((problem, problems.write(problem, args.out)))
    subprocess.run([args.bench, args.out], check=True)
    if not args.no_peers:
        with multiprocessing.Pool() as pool:
            pool.starmap(peers, [(*job, args.out) for job in todo], chunksize=1)
    table = collections.defaultdict(lambda: collections.defaultdict(list))
    for problem, names in todo:
        answers = {} if args.no_peers else peers(problem, names, args.out)
        found, seconds = ours(problem, names, args.out)
        answers["ours"] = [rate for rate, _ in found]
        add(table[problem.kind], problem, answers, found)
        table[problem.kind]["seconds"].append(seconds)
    page.report(table, args.json)
    if args.page:
        with open(args.page, "w") as file:
            file.write(page.text(table, args, WORTH))


def add(of, problem, answers, found):
    """Adds one problem to the rows of its kind."""
    solos = solo_table(problem.train)
    for name, predicted in answers.items():
        each = errors(problem, predicted)
        of[name] += each
        of[name, "error"] += by_unit(problem, each)
        of[name, "regret"] += regrets(problem, predicted, solos)
        if problem.kind.startswith(("gavel", "many")):
            right, off, yes = zip(*worth(problem, predicted, solos))
            of[name, "worth"].append(mean(right))
            of[name, "sum"] += off
            if name == "ours":
                of["always", "worth"].append(mean(yes))
        if problem.kind.startswith("crowd"):
            of[name, "sum"] += [off for _, off, _ in worth(problem, predicted, solos)]
        if problem.kind.startswith("mixes"):
            shares = [row[2] for s in problem.held for row in s if row[2] < 100]
            for share in (50, 14):
                of[name, share] += [e for e, of_ in zip(each, shares) if of_ == share]
            of[name, "ranked"] += rankings(problem, predicted, solos)
    inside = held_within(problem, found)
    of["inside"] += inside
    of["ours", "hold"] += [100 * v for v in by_unit(problem, inside)]


if __name__ == "__main__":
    main()
