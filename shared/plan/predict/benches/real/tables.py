"""Turns measurements of others into tables and workloads that the tools read.

    tables.py DATA OUT

DATA holds `gavel/simulation_throughputs.json` (github.com/stanford-futuredata/gavel) and
`miso/mig_step_seconds.csv` (step seconds on slices of an A100, from
github.com/boringlee24/socc22-miso); what is absent is left out. OUT gets one folder for each part
that is left out in turn: DATASET.QUESTION.PART/{workload.json,train.csv,held.csv}.

Assumed of Gavel: a job is a task (the model) at a batch size, which is 1 where its name has none; its
steps per second times the batch size are its throughput; both jobs of a pair have the whole device
(share 100 %), since the GPU switched between them. Left out: pairs of two jobs of one model, as a
task runs at most once in a co-run, and pairs that did not fit (rate 0).

The prediction of jobs and tasks that never ran beside others was chosen on the K80's jobs. Its constants
are learnt within the part that is learnt from; none was set by the V100's or the P100's jobs.

Assumed of MISO: mean step seconds; a slice of g compute slices of 7 and m GB of 40 has the fraction
c = g/7 of the processors and m/40 of the memory bandwidth, which goes with the memory. The tools
know one share of the device. A step takes a/c + b/m for its arithmetic and its memory traffic, one
after another. A model's a and b are unknown, so a = b is assumed, which makes the slice worth the
share r with 1/r = (1/c + 1/m)/2, the harmonic mean. None of this is fitted. The questions `compute`
and `memory` measure the alternatives that only processors (r = c) or only memory (r = m) count.
"""

import collections
import csv
import json
import os
import re
import sys


def write(folder, tasks, kept, held):
    os.makedirs(folder, exist_ok=True)
    workload = {
        "schema": "mt.workload/1",
        "id": os.path.basename(folder),
        "device": {"kind": "replay"},
        "tasks": [
            {"id": name, "batch_sizes": sorted(sizes), "job": {"argv": ["train", name]}}
            for name, sizes in tasks.items()
        ],
    }
    with open(f"{folder}/workload.json", "w") as out:
        json.dump(workload, out)
    for name, samples in (("train", kept), ("held", held)):
        with open(f"{folder}/{name}.csv", "w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["config", "task", "batch", "share_percent", "throughput"])
            for k, sample in enumerate(samples):
                for task, batch, share, rate in sample:
                    table.writerow([k, task, batch, f"{share:.2f}", repr(rate)])


def job_of(name):
    name = re.match(r"\('(.*)', 1\)$", name)[1]
    model, _, batch = name.partition(" (batch size ")
    return re.sub(r"[^a-z0-9]+", "-", model.lower()), int(batch.rstrip(")") or 1)


def gavel(rates, gpu, out):
    jobs = [name for name in rates if name.endswith(", 1)")]
    tasks = collections.defaultdict(set)
    for name in jobs:
        model, batch = job_of(name)
        tasks[model].add(batch)

    def row(name, rate):
        model, batch = job_of(name)
        return (model, batch, 100.0, rate * batch)

    solos = [[row(name, rates[name]["null"])] for name in jobs]
    pairs = []
    for k, a in enumerate(jobs):
        for b in jobs[k + 1:]:
            both = rates[a].get(b)
            if both and min(both) > 0 and job_of(a)[0] != job_of(b)[0]:
                pairs.append((a, b, [row(a, both[0]), row(b, both[1])]))

    def part(name, out_of):
        held = [s for k, (a, b, s) in enumerate(pairs) if out_of(k, a, b)]
        kept = solos + [s for k, (a, b, s) in enumerate(pairs) if not out_of(k, a, b)]
        if held:
            write(f"{out}/gavel-{gpu}.{name}", tasks, kept, held)

    for fold in range(10):
        part(f"pairs.{fold}", lambda k, a, b: k * 7 % 10 == fold)
    for at, job in enumerate(jobs):
        part(f"jobs.{at}", lambda k, a, b: job in (a, b))


def miso(rows, question, out):
    tasks = collections.defaultdict(set)
    samples = []
    for row in rows:
        g, batch = int(row["mig_g"]), int(row["batch"])
        compute, memory = g / 7, int(row["mig_gb"]) / 40
        share = {"compute": compute, "memory": memory}.get(question, 2 / (1 / compute + 1 / memory))
        tasks[row["model"]].add(batch)
        samples.append((g, [(row["model"], batch, 100 * share, batch / float(row["mean_s"]))]))
    for left in (2, 3, 4):
        held = [s for g, s in samples if g == left]
        write(f"{out}/miso.{question}.{left}", tasks, [s for g, s in samples if g != left], held)


def main():
    data, out = sys.argv[1:]
    path = f"{data}/gavel/simulation_throughputs.json"
    if os.path.exists(path):
        with open(path) as file:
            rates = json.load(file)
        for gpu in ("v100", "p100", "k80"):
            gavel(rates[gpu], gpu, out)
    path = f"{data}/miso/mig_step_seconds.csv"
    if os.path.exists(path):
        with open(path) as file:
            rows = list(csv.DictReader(file))
        for question in ("both", "compute", "memory"):
            miso(rows, question, out)


main()
