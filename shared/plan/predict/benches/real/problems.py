"""Problems of learning from measurements by others: what is learnt, what is held out.

Every problem is a list of samples to learn and a list to predict; a sample is a list of
(task, batch, share in percent, throughput). A task is named; it runs at most once in a co-run, so
copies of a model are tasks of their own. All draws are seeded by a day and the problem's name, so that
no choice can have been made by the draws of a day to come.

What is assumed of each source:

- gavel: a job is a task (the model) at a batch size, 1 where its name has none; both of a pair have
  the whole device (100 %), since the GPU switched between them. Two jobs of one model and pairs
  that did not fit (rate 0) are left out.
- many: the pairs of 52 jobs, 26 on a V100 and the same on a P100, each job a task of its own, whatever its model:
  6 or 19 pairs of each job are learnt. No pair has jobs of both GPUs. Pairs of one model are among them.
- slices: a MIG slice of g compute slices of 7 and m GB of 40 is worth the share r with
  1/r = (7/g + 40/m)/2: for want of better knowledge, a step is assumed to need as much of the
  processors as of the memory bandwidth. None of this is fitted.
- mixes: only ratios of rates were recorded, with everyone at 50 and at 14 % over everyone at 100 %.
  The absolute rate at 100 % is taken as 1/m of the solo rate of 1 step per second for m jobs, as if
  jobs at 100 % took turns; only the ratios are scored, so this assumption is not. There are 300 mixes
  of two and more jobs with at most three copies of a model; 60 % of them are learnt. In `mixes-solos` the
  runs of single jobs at 50 and 14 % are learnt too, as mt-profile measures some by default.
- parva: copies of a model, all at the whole of one MIG slice; throughput is that of each copy.
- crowd-parva: the same, but all numbers above those learnt are predicted.
- crowd-mixes: pairs of the same mixes (in `-3` and `-4` also mixes of three and four) and single jobs are learnt, all
  larger mixes at 100 and 50 % predicted. Here the rate of a job at 14 % is taken not to depend on the others (seven of
  these fit on the device), so that all rates follow from the ratios: the sum of relative rates at 100 % is 1.50 for
  pairs, 2.03 for four and 2.49 for seven jobs.
- crowd-h200: alone and pairs of eight trainings at 100, 60 and 30 % under MPS are learnt, copies of one predicted.
  `crowd-h200-sum`: totals of four and of all eight relative to alone (`H200_SUMS`), one window each: errors are those
  of totals, each counted once for every task.
- crowd-survey: solos and pairs of six trainings of this project on an H200 are learnt, six triples predicted.
- curves: ParvaGPU's models alone; a slice of g of 7 is worth the share g/7.
"""

import collections
import csv
import json
import os
import random
import re

# Learnt co-runs, or runs of slices.
SIZES = [10, 20, 40, 125]
GPUS = ["v100", "p100", "k80"]
Problem = collections.namedtuple("Problem", "kind name train held")


def draws(seeds, n):
    """Draws of `n` co-runs: fewer of more, which scatter less and take peers minutes."""
    return min(seeds, max(5, 20 * seeds // n))


def gavel_job(name):
    name = re.match(r"\('(.*)', 1\)$", name)[1]
    model, _, batch = name.partition(" (batch size ")
    return re.sub(r"[^a-z0-9]+", "-", model.lower()), int(batch.rstrip(")") or 1)


def gavel(path, gpu, seeds, day):
    with open(path) as file:
        rates = json.load(file)[gpu]
    jobs = [name for name in rates if name.endswith(", 1)")]

    def row(name, rate):
        model, batch = gavel_job(name)
        return (model, batch, 100.0, rate * batch)

    solos = [[row(name, rates[name]["null"])] for name in jobs]
    pairs = []
    for k, a in enumerate(jobs):
        for b in jobs[k + 1:]:
            both = rates[a].get(b)
            if both and min(both) > 0 and gavel_job(a)[0] != gavel_job(b)[0]:
                pairs.append((a, b, [row(a, both[0]), row(b, both[1])]))
    for n in [5, *SIZES]:
        for seed in range(draws(seeds, n)):
            name = f"gavel-{gpu}-{n}.{seed}"
            drawn = random.Random(f"{day} {name}").sample(pairs, len(pairs))
            train = solos + [s for _, _, s in drawn[:n]]
            yield Problem(f"gavel-{gpu}-{n}", name, train, [s for _, _, s in drawn[n:]])
    for fold in range(10):
        held = [s for k, (_, _, s) in enumerate(pairs) if k * 7 % 10 == fold]
        train = solos + [s for k, (_, _, s) in enumerate(pairs) if k * 7 % 10 != fold]
        yield Problem(f"gavel-{gpu}-pairs", f"gavel-{gpu}-pairs.{fold}", train, held)
    for at in range(1, len(jobs), 2):
        job = jobs[at]
        held = [s for a, b, s in pairs if job in (a, b)]
        train = solos + [s for a, b, s in pairs if job not in (a, b)]
        if held:
            yield Problem(f"gavel-{gpu}-jobs", f"gavel-{gpu}-jobs.{at}", train, held)


def many(path, seeds, day):
    """Every job of two GPUs is a task of its own."""
    with open(path) as file:
        rates = json.load(file)
    solos, pairs = [], []
    for gpu in GPUS[:2]:
        of = rates[gpu]
        jobs = [name for name in of if name.endswith(", 1)")]

        def row(name, rate):
            model, batch = gavel_job(name)
            return (f"{gpu}-{model}-{batch}", batch, 100.0, rate * batch)

        solos += [[row(name, of[name]["null"])] for name in jobs]
        for k, a in enumerate(jobs):
            both = [(b, of[a].get(b)) for b in jobs[k + 1:]]
            pairs += [[row(a, r[0]), row(b, r[1])] for b, r in both if r and min(r) > 0]
    for n in (150, 500):
        for seed in range(draws(seeds, 100)):
            name = f"many-{n}.{seed}"
            drawn = random.Random(f"{day} {name}").sample(pairs, len(pairs))
            yield Problem(f"many-{n}", name, solos + drawn[:n], drawn[n:])


def slices(path, seeds, day):
    samples = []
    with open(path) as file:
        for row in csv.DictReader(file):
            g, batch = int(row["mig_g"]), int(row["batch"])
            share = 2 / (7 / g + 40 / int(row["mig_gb"]))
            rate = batch / float(row["mean_s"])
            samples.append((g, [(row["model"], batch, round(100 * share, 2), rate)]))
    for g in (2, 3, 4):
        train = [s for other, s in samples if other != g]
        held = [s for other, s in samples if other == g]
        yield Problem("slices-level", f"slices-level.{g}", train, held)
    full = [s for g, s in samples if g == 7]
    part = [s for g, s in samples if g != 7]
    for n in SIZES[:3]:
        for seed in range(seeds):
            name = f"slices-{n}.{seed}"
            drawn = random.Random(f"{day} {name}").sample(part, len(part))
            yield Problem(f"slices-{n}", name, full + drawn[:n], drawn[n:])


def mixes(path, seeds, day):
    jobs = collections.defaultdict(list)
    with open(path) as file:
        for row in csv.DictReader(file):
            jobs[int(row["mix"])].append(row)

    def samples(mix):
        m = len(mix)
        copies = collections.Counter()
        runs = {100.0: [], 50.0: [], 14.0: []}
        for row in mix:
            task = f"{row['model']}.{copies[row['model']]}"
            copies[row["model"]] += 1
            batch = int(row["batch"])
            for share, ratio in ((100.0, 1.0), (50.0, float(row["rate50_over_rate100"])),
                                 (14.0, float(row["rate14_over_rate100"]))):
                runs[share].append((task, batch, share, batch * ratio / m))
        return list(runs.values())

    few = [v for v in jobs.values()
           if max(collections.Counter(r["model"] for r in v).values()) <= 3]
    tasks = {(f"{r['model']}.{k}", int(r["batch"])) for v in few for r in v for k in range(3)}
    solos = [[(task, batch, 100.0, float(batch))] for task, batch in sorted(tasks)]
    for seed in range(min(seeds, 2)):
        name = f"mixes.{seed}"
        several = [v for v in few if len(v) > 1]
        drawn = random.Random(f"{day} {name}").sample(several, 300)
        train = solos + [s for v in drawn[:180] for s in samples(v)]
        held = [s for v in drawn[180:] for s in samples(v)]
        yield Problem("mixes", name, train, held)
        yield Problem("mixes-solos", f"mixes-solos.{seed}", train + alone(few, f"{day} {name}"), held)


def alone(mixes_of, name):
    """Runs of one job at 50 and 14 %, of 60 % of the mixes of one: of every copy, as they are alike."""
    single = [v[0] for v in mixes_of if len(v) == 1]
    runs = {}
    for row in random.Random(name + "-solos").sample(single, 6 * len(single) // 10):
        for share, ratio in ((50.0, "rate50_over_rate100"), (14.0, "rate14_over_rate100")):
            rate = int(row["batch"]) * float(row[ratio])
            for copy in range(3):
                key = f"{row['model']}.{copy}", int(row["batch"]), share
                runs.setdefault(key, [(*key, rate)])
    return list(runs.values())


def parva(folder, _seeds, _day, above=False):
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".csv"):
            continue
        model = file[:-4]
        rates = collections.defaultdict(dict)
        with open(f"{folder}/{file}") as table:
            for row in csv.DictReader(table):
                rate = float(row["Throughput"] or 0)
                if rate > 0:
                    key = int(row["Batch size"]), int(row["Workload Number"])
                    rates[int(row["Mig instance"])][key] = rate
        for g, of in rates.items():
            for most in (2, 3):
                train, held = [], []
                for (batch, k), rate in of.items():
                    copies = range(max(k for _, k in of))
                    if k == 1:
                        train += [[(f"{model}.{c}", batch, 100.0, rate)] for c in copies]
                    elif k <= most:
                        train.append([(f"{model}.{c}", batch, 100.0, rate) for c in range(k)])
                    else:
                        held.append([(f"{model}.{c}", batch, 100.0, rate) for c in range(k)])
                solo = {(t, b) for s in train if len(s) == 1 for t, b, _, _ in s}
                held = [s for s in held if all((t, b) in solo for t, b, _, _ in s)]
                known = {t for s in train if len(s) > 1 for t, _, _, _ in s}
                if held and len(known) >= 2:
                    yield Problem(f"parva-{most}-to-{most + 1}", f"parva-{most}.{model}.{g}",
                                  train, [s for s in held if above or len(s) == most + 1])


def crowd_parva(folder, seeds, day):
    """Two or three processes are learnt, all larger numbers predicted."""
    for problem in parva(folder, seeds, day, above=True):
        yield problem._replace(kind="crowd-" + problem.kind[:7], name="crowd-" + problem.name)


def crowd_mixes(path, seeds, day):
    jobs = collections.defaultdict(list)
    with open(path) as file:
        for row in csv.DictReader(file):
            jobs[int(row["mix"])].append(row)
    alone_at = {50.0: collections.defaultdict(list), 14.0: collections.defaultdict(list)}
    for mix in jobs.values():
        if len(mix) == 1:
            for share, of in alone_at.items():
                key = mix[0]["model"], int(mix[0]["batch"])
                of[key].append(float(mix[0][f"rate{share:.0f}_over_rate100"]))
    part = {share: {k: sum(v) / len(v) for k, v in of.items()} for share, of in alone_at.items()}

    def samples(mix):
        copies, runs = collections.Counter(), ([], [], [])
        for row in mix:
            task, batch = f"{row['model']}.{copies[row['model']]}", int(row["batch"])
            copies[row["model"]] += 1
            r50, r14 = (float(row[f"rate{s}_over_rate100"]) for s in (50, 14))
            whole = part[14.0][row["model"], batch] / r14
            for run, share, ratio in zip(runs, (100.0, 50.0, 14.0), (1.0, r50, r14)):
                run.append((task, batch, share, batch * whole * ratio))
        return list(runs)

    known = [v for v in jobs.values()
             if max(collections.Counter(r["model"] for r in v).values()) <= 3
             and all((r["model"], int(r["batch"])) in part[14.0] for r in v)]
    solos = [[(f"{model}.{copy}", batch, share, batch * ratio)]
             for (model, batch), r14 in sorted(part[14.0].items()) for copy in range(3)
             for share, ratio in ((100.0, 1.0), (50.0, part[50.0][model, batch]), (14.0, r14))]
    for most in (2, 3, 4):
        for seed in range(min(seeds, 2)):
            name = f"crowd-mixes-{most}.{seed}"
            rng = random.Random(f"{day} {name}")
            few = rng.sample([v for v in known if 1 < len(v) <= most], 120)
            more = rng.sample([v for v in known if len(v) > most], 80)
            yield Problem(f"crowd-mixes-{most}", name, solos + [s for v in few for s in samples(v)],
                          [s for v in more for s in samples(v)[:2]])


# Sum of rates over those alone, by tasks and share of each: one window each.
H200 = ("rn50", "vitb", "gpt2", "bert", "mbv3", "lstm", "dlrm", "mlp")
FOUR = ("rn50", "gpt2", "bert", "mbv3")
H200_SUMS = {(FOUR, 100): 2.40, (FOUR, 60): 2.71, (FOUR, 30): 2.69,
             (H200, 100): 3.08, (H200, 60): 3.56, (H200, 30): 4.46}


def crowd_h200(path, _seeds, _day):
    windows, kinds = collections.defaultdict(list), {}
    with open(path) as file:
        for row in csv.DictReader(file):
            window = windows[row["window"]]
            copy = sum(task.startswith(row["task"] + ".") for task, *_ in window)
            window.append((f"{row['task']}.{copy}", int(row["batch"]), float(row["share"]),
                           float(row["samples_per_s"])))
            kinds[row["window"]] = row["kind"]
    train = [s for k, s in windows.items() if kinds[k] != "copies"]
    yield Problem("crowd-h200", "crowd-h200", train,
                  [s for k, s in windows.items() if kinds[k] == "copies"])
    batch = {task: b for s in train for task, b, _, _ in s}
    # Rates are not known, only their sum: each task has an equal part of it.
    solo = {t: mean_of([s[0][3] for s in train if len(s) == 1 and s[0][0] == t and s[0][2] == 100])
            for t in batch}
    held = [[(f"{t}.0", batch[f"{t}.0"], float(share), solo[f"{t}.0"] * total / len(tasks))
             for t in tasks] for (tasks, share), total in H200_SUMS.items()]
    yield Problem("crowd-h200-sum", "crowd-h200-sum", train, held)


def crowd_survey(path, _seeds, _day):
    train, held = [], []
    with open(path) as file:
        for record in map(json.loads, file):
            if record["record"] == "sample":
                sample = [(t["id"], t["batch"], t["share_percent"], t["samples_per_s"])
                          for t in record["tasks"]]
                (held if len(sample) > 2 else train).append(sample)
    yield Problem("crowd-survey", "crowd-survey", train, held)


def mean_of(v):
    return sum(v) / len(v)


def curves(folder, _seeds, _day):
    """A model alone at every batch size and slice; all of one inner slice left out."""
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".csv"):
            continue
        model = file[:-4]
        rates = {}
        with open(f"{folder}/{file}") as table:
            for row in csv.DictReader(table):
                rate = float(row["Throughput"] or 0)
                if rate > 0 and row["Workload Number"] == "1":
                    rates[int(row["Mig instance"]), int(row["Batch size"])] = rate
        for left in (2, 3, 4):
            sets = {True: [], False: []}
            for (g, batch), rate in rates.items():
                sets[g == left].append([(model, batch, round(100 * g / 7, 2), rate)])
            if sets[True] and sets[False]:
                yield Problem("curves", f"curves.{model}.{left}", sets[False], sets[True])


def all_problems(data, seeds, day):
    path = f"{data}/gavel/simulation_throughputs.json"
    if os.path.exists(path):
        for gpu in GPUS:
            yield from gavel(path, gpu, seeds, day)
        yield from many(path, seeds, day)
    for name, make in (("miso/mig_step_seconds.csv", slices), ("miso/mps_mixes.csv", mixes),
                       ("parvagpu", parva), ("parvagpu", crowd_parva),
                       ("miso/mps_mixes.csv", crowd_mixes), ("h200/windows.csv", crowd_h200),
                       ("parvagpu", curves)):
        if os.path.exists(f"{data}/{name}"):
            yield from make(f"{data}/{name}", seeds, day)
    yield from crowd_survey("examples/torch/measured/h200-survey.ndjson", seeds, day)


def model_of(task):
    """The model that a task trains: copies are told apart by what follows the dot."""
    return task.partition(".")[0]


def write(problem, folder):
    """The problem for `bench-real`; returns the names of its tasks by number."""
    names = sorted({row[0] for s in problem.train + problem.held for row in s})
    models = sorted({model_of(name) for name in names})
    number = {name: k for k, name in enumerate(names)}
    with open(f"{folder}/{problem.name}.csv", "w") as out:
        out.write("set,config,task,model,batch,share_percent,throughput\n")
        for kind, samples in (("train", problem.train), ("held", problem.held)):
            for k, sample in enumerate(samples):
                for task, batch, share, rate in sample:
                    model = models.index(model_of(task))
                    out.write(f"{kind},{k},{number[task]},{model},{batch},{share:.2f},{rate!r}\n")
    return names
