#!/usr/bin/env python3
"""Writes RESULTS.md from the measurements in this folder; needs mt-fit and mt-profile on PATH.

    make.py            writes the page, and the README's picture of the stopwatch
    make.py --check    fails if it would change
"""

import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GRID, SURVEY, LAUNCH = (os.path.join(HERE, name + ".ndjson") for name in ["h100-grid", "h200-survey", "h200-launch"])
SOLO = 12  # configurations of one task at the start of the grid


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def samples(path):
    """(task, share) of each configuration, and its rates."""
    return [([(t["id"], t["share_percent"]) for t in d["tasks"]], [t["samples_per_s"] for t in d["tasks"]],
             [t["stderr_samples_per_s"] for t in d["tasks"]]) for d in lines(path) if d.get("record") == "sample"]


def tool(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stderr}")
    return done


def table(head, rows):
    out = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows])


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


PICTURE = os.path.join(HERE, *[os.pardir] * 3, "docs", "sharing.svg")
NAMES = {"apart": "one after another", "together": "all at once, time slices (no MPS)",
         "100/70/50": "100/70/50 %, the plan from 20 co-runs"}


def rounds():
    """Seconds of each round of each scheme, by the stopwatch."""
    ends = {}
    with open(os.path.join(HERE, "h200-stopwatch.csv"), newline="") as file:
        for row in csv.DictReader(file):
            key = row["scheme"], row["round"]
            ends[key] = max(ends.get(key, 0.0), float(row["seconds"]))
    found = {}
    for (scheme, _), seconds in ends.items():
        found.setdefault(scheme, []).append(seconds)
    return found


def stopwatch():
    found = rounds()
    apart = statistics.mean(found["apart"])
    rows = []
    for scheme, each in found.items():
        mean = statistics.mean(each)
        shown = ", ".join(f"{seconds:.2f}" for seconds in each)
        rows.append([NAMES.get(scheme, f"{scheme} %"), shown, f"{mean:.2f}", f"{mean / apart:.3f}"])
    return table(["scheme", "rounds s", "mean s", "over one after another"], rows)


def picture():
    """Bars of the mean seconds of a round."""
    bars = [("apart", "one after another"), ("together", "all at once, time slices (no MPS)"),
            ("33/33/33", "under MPS, a third of the GPU each"), ("100/70/50", "under MPS, shares by mt-solve"),
            ("100/100/100", "under MPS, 100 % each")]
    found = rounds()
    left, scale, step = 262, 24, 34
    out = []
    for at, (scheme, name) in enumerate(bars):
        seconds, y = statistics.mean(found[scheme]), 70 + at * step
        fill = "#0072B2" if "/" in scheme else "#999999"
        out.append(f'<text x="{left - 10}" y="{y + 15}" font-size="13" text-anchor="end" fill="#222222">{name}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{seconds * scale:.1f}" height="22" fill="{fill}"/>')
        out.append(f'<text x="{left + seconds * scale + 8:.1f}" y="{y + 15}" font-size="13" fill="#222222">'
                   f'{seconds:.1f} s</text>')
    body = "\n".join(out)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="830" height="256" viewBox="0 0 830 256" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif">
<rect width="830" height="256" fill="#FFFFFF"/>
<text x="16" y="26" font-size="16" font-weight="bold" fill="#222222">The same three trainings on one NVIDIA H200</text>
<text x="16" y="46" font-size="12" fill="#222222">seconds until the last of ResNet-50, VGG-16 and MobileNet v3 is done, mean of two runs, less is better</text>
{body}
</svg>
"""


def fitted():
    """Errors on the other co-runs of a model of the first ones, by their number."""
    text = open(GRID).read().splitlines(keepends=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        part, rest = os.path.join(folder, "part"), os.path.join(folder, "rest")
        for count in [8, 12, 20, 32]:
            cut = 1 + SOLO + count
            with open(part, "w") as file:
                file.writelines(text[:cut])
            with open(rest, "w") as file:
                file.writelines(text[:1] + [line for line in text[cut:] if '"sample"' in line])
            told = tool("mt-fit", "--test", rest, "-o", os.path.join(folder, f"model{count}"), part).stderr
            found = re.search(r"test: (\d+) throughputs, mean error ([\d.]+) %, median error ([\d.]+) %, ([\d.]+) % of "
                              r"the total; 90 % intervals hold (\d+) %", told)
            rows.append([str(count), *found.groups()])
    head = ["co-runs", "throughputs tested", "mean error %", "median %", "of the total %", "90 % intervals hold %"]
    return table(head, rows)


def best():
    """The best of the grid against everyone at one share."""
    grid = samples(GRID)
    most = {}
    for setting, rate, _ in grid[:SOLO]:
        most[setting[0][0]] = max(most.get(setting[0][0], 0), rate[0])
    coruns = [([share for _, share in setting], [r / most[t] for (t, _), r in zip(setting, rate)])
              for setting, rate, _ in grid[SOLO:]]
    rows = []
    for name, value in [("sum of P/S", sum), ("least P/S", min)]:
        ordered = sorted(coruns, key=lambda c: -value(c[1]))
        equal = [c for c in ordered if len(set(c[0])) == 1]
        full = next(c for c in equal if c[0][0] == 100)
        shown = [f"{value(rates):.3f} ({'/'.join(f'{s:g}' for s in shares)})"
                 for shares, rates in [ordered[0], equal[0], full, ordered[-1]]]
        rows.append([name, *shown])
    return table(["measure", "best (shares)", "best equal", "everyone at 100 %", "worst"], rows)


def sweeps():
    """Makespans of a sweep, and when 2, 4 and 8 of its jobs first ran at once."""
    rows = []
    for row in lines(os.path.join(HERE, "h100-sweep.ndjson")):
        if row["scheme"] != "mt":
            name = f"{row['scheme']} at once"
            since = ["0" if n <= int(row["scheme"]) else "-" for n in [2, 4, 8]]
        else:
            name = f"`mt sweep`, the program {row['program']}"
            runs = list(zip(row["begins_s"], row["ends_s"]))
            beside = [(at, sum(begin <= at < end for begin, end in runs)) for at in sorted(row["begins_s"])]
            since = [next((f"{at:.0f}" for at, number in beside if number >= n), "-") for n in [2, 4, 8]]
        rows.append([name, str(row["machine"]), f"{row['makespan_s']:.1f}", f"{statistics.mean(row['ends_s']):.1f}", *since])
    return table(["scheme", "machine", "makespan s", "mean completion s", "2 at once after s", "4", "8"], rows)


def noise():
    """Rates of whole seconds of the launched round while all trained, and the errors that windows report."""
    events = lines(LAUNCH)
    ready = max(e["time_s"] for e in events if e["event"] == "ready")
    first = min(e["time_s"] for e in events if e.get("samples", 0) > 0.95 * 70000 and e.get("task") != "V16")
    reported = {}
    for setting, rate, error in samples(GRID)[SOLO:]:
        for (task, _), r, e in zip(setting, rate, error):
            reported.setdefault(task, []).append(100 * e / r)
    rows = []
    for task in ["R50", "V16", "M3"]:
        seen = [(e["time_s"], e["samples"]) for e in events
                if e["event"] == "progress" and e["task"] == task and ready + 0.5 < e["time_s"] < first]
        rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(seen, seen[1:])]
        spread = 100 * statistics.stdev(rates) / statistics.mean(rates)
        rows.append([task, str(len(rates)), f"{spread:.1f}", f"{statistics.median(reported[task]):.1f}"])
    head = ["task", "seconds", "standard deviation of a second's rate %", "standard error that windows of 1 to 2 s told %"]
    return table(head, rows)


def simulator():
    """Measured and simulated slow-downs: as built in, and calibrated on the survey."""
    def compared(real, path):
        real, simulated = ({tuple(s): r for s, r, _ in samples(p)} for p in (real, path))
        def alone(of):
            return {s[0][0]: r[0] for s, r in of.items() if len(s) == 1 and s[0][1] == 100}
        solo, solo_simulated = alone(real), alone(simulated)
        both = [(a / solo[t], b / solo_simulated[t]) for s, r in real.items() if len(s) > 1
                for (t, _), a, b in zip(s, r, simulated[s])]
        xs, ys = zip(*both)
        constant = statistics.median(xs)
        return [f"{statistics.correlation(ranks(xs), ranks(ys)):.2f}",
                f"{statistics.mean(abs(y / x - 1) for x, y in both):.3f}",
                f"{statistics.mean(abs(constant / x - 1) for x in xs):.3f}",
                " to ".join(f"{f([solo_simulated[t] / solo[t] for t in solo]):.2f}" for f in (min, max))]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        mine = os.path.join(folder, "mine.json")
        tool("mt-profile", "--calibrate", SURVEY, "--gpu", "h100", "-o", mine)
        for real, name in [(GRID, "grid"), (SURVEY, "survey")]:
            head = lines(real)[0]["workload"]
            head["device"] = {"kind": "sim"}
            workload, configs = os.path.join(folder, "w"), os.path.join(folder, "c.csv")
            with open(workload, "w") as file:
                json.dump(head, file)
            with open(configs, "w") as file:
                file.write("config,task,batch,share_percent\n")
                for number, (setting, _, _) in enumerate(samples(real)):
                    file.writelines(f"{number},{task},128,{share:g}\n" for task, share in setting)
            for gpu, how in [("h100", "as built in"), (mine, "calibrated on the survey")]:
                output = os.path.join(folder, "p")
                tool("mt-profile", "--gpu", gpu, "--configs", configs, "--window", "5", "--max-window", "5", "--force",
                     "-o", output, workload)
                rows.append([f"{name}, {how}", *compared(real, output)])
    head = ["slow-downs of", "rank correlation", "mean error", "of the median as constant", "solo rates, simulated over real"]
    return table(head, rows)


PAGE = """# On a real GPU

Measured on 2026-11-26 in virtual machines with 16 processors (Intel Xeon): an **NVIDIA H100 80GB HBM3** and an **NVIDIA
H200**, each with 132 SMs, driver 580.159.04, CUDA 13.0, PyTorch 2.11 (its default: TF32 in convolutions), SM clock
1,980 MHz throughout. ResNet-50 (R50), VGG-16 (V16), MobileNet v3 (M3) and, in the survey, ResNet-18, ResNet-34 and
DenseNet-121 train on 32 x 32 images in batches of 128, as in the FedMT paper. MPS worked inside the virtual machine.
One machine, one mix and a few minutes: this says what happened there, not what happens everywhere. This page is written
by `make.py` from the files beside it.

| file | what | command |
|---|---|---|
| `h100-grid.ndjson` | every combination of 30, 50, 70 and 100 % for three tasks, and each alone: 76 configurations in 184 s | `WINDOW=1 MAX_WINDOW=2 campaign.sh --grid R50+V16+M3` |
| `h200-survey.ndjson` | six models: alone, pairs, some triples: 53 configurations in 2.5 minutes | `MODELS="R18 R50 M3 V16 D121 R34" CPUS=none WINDOW=1 MAX_WINDOW=2 campaign.sh --survey` |
| `h200-stopwatch.csv` | whole rounds: 56,000 samples of R50 and M3, 224,000 of V16 | `stopwatch.py ... apart together 100/100/100 100/70/50 50/50/50 33/33/33` |
| `h100-sweep.ndjson` | 24 trainings of ResNet-18 on 100,000 to 300,000 samples | `sweep.py --jobs 24 8 4 mt` |
| `h200-launch.ndjson` | a plan launched by `mt-launch`: 70,000, 280,000 and 70,000 samples | `mt-launch plan.json` |

## Does sharing pay? By the stopwatch

{stopwatch}

Yes: one task leaves more than half of this GPU idle (it waits for the host), and three together need about half the
time. MPS is what does it: time slices gain 0.6 as much. **The choice of shares gains nothing here**: everyone at 100 %,
which needs no tool, is as fast as the plan. mt-solve said so before: its verdict read "sharing (100 % each) is better
than the plan". Parts that add up to 100 % cost a third.

## Does the queue find how many to run at once?

Trainings of 5 to 30 s, with 6 to 13 s of start-up before each. The program before measured only while nobody started
or ended, and such moments are rare here. The present one keeps a rate for each number of jobs that report progress.

{sweeps}

In part: what it does not know costs a quarter of the makespan of the best number tried. Each step up takes as long as
a job takes to start, some 15 s, and these jobs are hardly longer. One run each, on two machines of one kind; 16 at once
was not measured, so the best number may be larger than 8.

## What could shares gain?

P/S is the throughput relative to the best that the task reached alone.

{best}

The best of 64 single windows is partly luck, since a window is off by some 10 % (below). Shares that are too small for
V16 are what costs.

## Are predictions right?

A model of the first co-runs of the grid (and all runs of one task), on all the others, which it has not seen:

{fitted}

More co-runs do not help: what remains is noise. The plan from 20 of them, for 70,000, 280,000 and 70,000 samples,
predicted 14.16 s together and 35.5 s one after another. On the other GPU, and scaled to the samples of the stopwatch,
that is 11.3 s (measured: 10.55) and 28.4 s (measured: 20.4): **the gain of sharing was overstated**, because alone V16,
R50 and M3 ran 11, 27 and 42 % slower in their short windows than in the rounds of the stopwatch.

## How noisy is it?

{noise}

A window of one or two seconds does not see what changes over several seconds, so its standard error is far too small
for the tasks that wait for the host. Repeats that are minutes apart see it: `mt-profile` repeats the runs of each task
alone when it chooses the co-runs by itself, and a list should name its configurations with `--repeats`.

## Is the simulator right?

{simulator}

No, not as it is: its H100 computes in plain FP32, without what cuDNN gains by TF32 and by better kernels, so VGG-16 is
eight times too slow and everything competes for what is not scarce. Calibrated on the survey (`mt-profile
--calibrate`), it ranks slow-downs of the other machine's co-runs, but by figures that no GPU has (a bandwidth of 290
TB/s): a fit, not physics.

## What else the hour taught

- **A smaller last batch cost 2 to 5 s**: with `cudnn.benchmark`, cuDNN tries all its kernels for each new size.
  `train.py` now switches it off for the rest of a round; your own scripts should too, or drop the last batch. The
  launched round had trained 99 % of its samples after 19.0 s (6.2 s of them start-up) and ended after 23.9.
- **Starting is slow**: importing PyTorch takes 10 s without its compiled files and 3.5 s with them (`PYTHONPYCACHEPREFIX`
  names a folder that can be written). Three workers that start together are ready after 5 to 6 s, 12 or 16 after 8 to
  25 s. `mt-profile` now starts those of listed configurations side by side: 12 in 25 s, where two one after another had
  taken 48 s (without compiled files).
- Multiprocessors that workers saw at 30, 50, 70 and 100 %: 38, 66, 92 and 132.
"""


def main():
    page = PAGE.format(stopwatch=stopwatch(), sweeps=sweeps(), best=best(), fitted=fitted(), noise=noise(), simulator=simulator())
    path = os.path.join(HERE, "RESULTS.md")
    for path, text in [(path, page), (os.path.normpath(PICTURE), picture())]:
        if sys.argv[1:] == ["--check"]:
            if open(path).read() != text:
                sys.exit(f"{path} is not what make.py writes: run {os.path.join(HERE, 'make.py')}")
            continue
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
