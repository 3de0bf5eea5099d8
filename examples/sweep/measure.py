#!/usr/bin/env python3
"""Sixty trainings that share the processors, in ten mixes, under each way to decide how many run at once.

usage: measure.py [--seed N] [--quick] [--kept]     (make sweep; QUICK=1: two mixes of 30; KEPT=1: continues)

`mt` and `mt-worker` must be on PATH; GNU parallel, pueue and task-spooler are used if they are installed. Rows go to
target/sweep/rows.ndjson as they are measured. RESULTS.md and summary.json beside this file are written after every
mix (--quick: in target/sweep).
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[1] / "target" / "sweep"
FIXED = [1, 2, 3, 4, 8]
# Runs of each scheme that the ratios compare, after one that chooses the two best fixed numbers: runs of the same scheme
# differ by up to 15 % on a virtual machine, so the best of a single run each is partly luck.
RUNS = 2
LONGEST = 600  # seconds of one sweep before it is given up: the slowest, one at a time, takes about 60
CORES = len(os.sched_getaffinity(0))
SIZES = [1, 2, 4]
# The rivals' programs.
PROGRAMS = {"parallel": "parallel", "pueue": "pueued", "task-spooler": "tsp"}
# Seconds that the smallest job of a template computes on one processor. Real trials take minutes; these are as long as
# ten mixes in three quarters of an hour allow.
WORK = 0.12
# name, fractions of compute, fetch and threads, whether all arrive at once, whether they arrive template by template
MIXES = [
    ("compute, at once", (1, 0, 0), True, False),
    ("fetch, at once", (0, 1, 0), True, False),
    ("threads, at once", (0, 0, 1), True, False),
    ("compute and fetch, at once", (1, 1, 0), True, False),
    ("all three, at once", (1, 1, 1), True, False),
    ("all three, one template after another", (1, 1, 1), True, True),
    ("fetch, then threads", (0, 1, 1), True, True),
    ("compute, over time", (1, 0, 0), False, False),
    ("compute and fetch, over time", (1, 1, 0), False, False),
    ("all three, over time", (1, 1, 1), False, False),
]


def say(text):
    print(text, flush=True)


def calibrate():
    """Steps that one processor makes in WORK seconds, from the processor time of a training alone."""
    steps = 2000
    command = ["mt-worker", "--threads", "1", "--width", "64", "--depth", "2", "--steps"]
    used = []
    for _ in range(3):
        before = os.times()
        subprocess.run(command + [str(steps)], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        used.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return max(8, round(steps * WORK / min(used)))


def jobs_of(mix, number, steps, seed):
    """Commands with the second at which each arrives."""
    name, parts, at_once, in_order = mix
    rng = random.Random(f"{seed} {name}")
    kinds = [kind for kind in range(3) for _ in range(number * parts[kind] // sum(parts))]
    sizes = [SIZES[i % len(SIZES)] for i in range(len(kinds))]
    rng.shuffle(sizes)
    if not in_order:
        rng.shuffle(kinds)
    jobs, now = [], 0.0
    # Work arrives a little faster than the processors can do it, so that a queue builds up.
    pause = WORK * statistics.mean(SIZES) / CORES / 1.1
    for kind, size in zip(kinds, sizes):
        word = str(rng.randrange(1, 10**6))
        train = ["mt-worker", "--width", "64", "--depth", "2", "--seed", word, "--steps", str(steps * size)]
        if kind == 0:
            argv = train + ["--threads", "1"]
        elif kind == 1:
            argv = ["sh", str(HERE / "fetch.sh"), str(3 * size), str(max(1, steps // 6)), word]
        else:
            # Adds a word to the command: commands that differ only in numbers belong to one template.
            argv = train + ["--device", "cpu", "--threads", str(CORES)]
        jobs.append((0.0 if at_once else now, argv))
        now += rng.expovariate(1 / (pause * (0.5 if kind == 1 else 1.0)))
    return jobs


def pool(jobs, most):
    """At most this many at once, in order of arrival; returns the second at which each ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    running, ends, position, begin = {}, [], 0, time.time()
    while len(ends) < len(jobs):
        now = time.time() - begin
        while position < len(jobs) and jobs[position][0] <= now and len(running) < most:
            argv = jobs[position][1]
            path = shutil.which(argv[0])
            pid = os.posix_spawn(path, argv, os.environ, file_actions=null, setsigmask=[])
            running[pid] = position
            position += 1
        come = jobs[position][0] - now if position < len(jobs) and len(running) < most else 10.0
        signal.sigtimedwait({signal.SIGCHLD}, max(0.0, come))
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if running.pop(pid, None) is not None:
                assert status == 0, f"exit status {status}"
                ends.append(time.time() - begin)
        assert time.time() - begin < LONGEST, "it takes too long"
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return ends


def at_their_time(jobs, begin, add):
    for at, argv in jobs:
        time.sleep(max(0.0, begin + at - time.time()))
        add(argv)


def mt(jobs, folder, device="cpu"):
    """The queue, with its server already running; what it learns stays in the folder. Returns when the jobs ended, what
    was learnt, and when they began."""
    env = {**os.environ, "MT_QUEUE": str(folder)}

    def call(*words, **more):
        return subprocess.run(["mt", *words], env=env, check=True, text=True, capture_output=True,
                              timeout=LONGEST, **more).stdout

    call("queue", "--device", device)
    try:
        begin = time.time()
        if jobs[-1][0] == 0.0:
            call("sweep", "--no-wait", input="\n".join(shlex.join(argv) for _, argv in jobs))
        else:
            at_their_time(jobs, begin, lambda argv: call("add", "--", *argv))
        call("wait")
        status = json.loads(call("status", "--json", "--all"))
    finally:
        call("queue", "--stop")
    mine = status["jobs"][-len(jobs):]
    assert all(job["state"] == "done" for job in mine), [job for job in mine if job["state"] != "done"][:3]
    ends, begins = ([job[when] - begin for job in mine] for when in ("ended_s", "started_s"))
    kinds = status["server"]["learnt"].values()
    return ends, {template: learnt for kind in kinds for template, learnt in kind.items()}, begins


def gnu_parallel(jobs, most):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        begin = time.time()
        command = ["parallel", "--will-cite", f"-j{most}", "--joblog", str(log)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
            def add(argv):
                child.stdin.write(shlex.join(argv) + "\n")
                child.stdin.flush()
            at_their_time(jobs, begin, add)
            child.stdin.close()
            assert child.wait(LONGEST) == 0
        rows = [line.split("\t") for line in log.read_text().splitlines()[1:]]
        return [float(row[2]) + float(row[3]) - begin for row in rows]


def pueue(jobs, most):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, "XDG_RUNTIME_DIR": folder}

        def call(*words):
            return subprocess.run(words, env=env, check=True, text=True, capture_output=True, timeout=LONGEST).stdout

        daemon = subprocess.Popen(["pueued"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                if subprocess.run(["pueue", "status"], env=env, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            call("pueue", "parallel", str(most))
            begin = time.time()
            at_their_time(jobs, begin, lambda argv: call("pueue", "add", "--", shlex.join(argv)))
            call("pueue", "wait", "--quiet")
            tasks = json.loads(call("pueue", "status", "--json"))["tasks"].values()
        finally:
            daemon.terminate()
            daemon.wait()
        ends = [task["status"]["Done"]["end"] for task in tasks]
        # Python does not parse nine decimals of a second.
        read = lambda text: datetime.datetime.fromisoformat(text[:26] + text[29:].replace("Z", "+00:00"))
        return [read(end).timestamp() - begin for end in ends]


def task_spooler(jobs, most):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TS_SOCKET": f"{folder}/socket", "TMPDIR": folder}

        def call(*words):
            return subprocess.run(["tsp", *words], env=env, check=True, text=True, capture_output=True,
                                  timeout=LONGEST).stdout.strip()

        call("-S", str(most))
        begin, ends = time.time(), []
        at_their_time(jobs, begin, lambda argv: call("-n", *argv))
        for job in range(len(jobs)):
            subprocess.run(["tsp", "-w", str(job)], env=env, stdout=subprocess.DEVNULL, timeout=LONGEST)
            # It tells ends to the second only; this is when the job and all before it have ended.
            ends.append(time.time() - begin)
        call("-K")
        return ends


TOOLS = {"parallel": gnu_parallel, "pueue": pueue, "task-spooler": task_spooler}


def row_of(mix, scheme, turn, ends, number):
    assert len(ends) == number, f"{len(ends)} of {number} ended"
    return {"mix": mix, "scheme": scheme, "turn": turn, "makespan_s": round(max(ends), 3),
            "mean_completion_s": round(statistics.mean(ends), 3), "load": os.getloadavg()[0]}


def measure(mix, jobs, rng, rows, keep, fixed):
    """Every fixed number of a mix once, then `mt` and the two best of them RUNS times. Each turn is in random order, and
    skips what has a row."""
    name = mix[0]
    others = [tool for tool, program in PROGRAMS.items() if shutil.which(program)]
    schemes = ["all at once", *(f"fixed {n}" for n in fixed)]
    rng.shuffle(schemes)
    attempt(mix, jobs, schemes, 0, rows, keep)
    for turn in range(1, RUNS + 1):
        schemes = shuffled(leaders(rows, name), rng)
        # These are told the best fixed number.
        attempt(mix, jobs, schemes + (others if turn == RUNS else []), turn, rows, keep)


def shuffled(best, rng):
    """The best fixed numbers and both schemes of `mt` in random order. `mt, known` starts with what the queue learnt under
    `mt`, so it comes later."""
    schemes = [*best, "mt", "mt, known"]
    rng.shuffle(schemes)
    places = sorted(schemes.index(scheme) for scheme in ("mt", "mt, known"))
    for place, scheme in zip(places, ("mt", "mt, known")):
        schemes[place] = scheme
    return schemes


def attempt(mix, jobs, schemes, turn, rows, keep):
    """Runs schemes of a mix that have no row of this turn; one that fails is told and left out."""
    name, number = mix[0], len(jobs)
    folder = OUT / "queue" / name.replace(" ", "-").replace(",", "")
    for scheme in schemes:
        if any((row["mix"], row["scheme"], row["turn"]) == (name, scheme, turn) for row in rows):
            continue
        learnt = None
        try:
            if scheme == "all at once":
                ends = pool(jobs, number)
            elif scheme.startswith("fixed"):
                ends = pool(jobs, int(scheme.split()[1]))
            elif scheme in TOOLS:
                # With the best fixed number: the difference is the overhead of these tools.
                best = leaders(rows, name)[0].split()[1]
                ends = TOOLS[scheme](jobs, best)
            else:
                if scheme == "mt":
                    shutil.rmtree(folder, ignore_errors=True)
                folder.parent.mkdir(parents=True, exist_ok=True)
                ends, learnt, _ = mt(jobs, folder)
            row = row_of(name, scheme, turn, ends, number)
        except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            # The other rows are useful without it; KEPT=1 tries it again.
            say(f"  {scheme}: failed: {error}")
            continue
        if learnt:
            row["learnt"] = [[learnt[t]["level"], learnt[t].get("wants")] for t in sorted(learnt)]
        say(f"  {scheme}: {row['makespan_s']:.1f} s, mean completion {row['mean_completion_s']:.1f} s")
        rows.append(row)
        keep(row)


def medians(rows, mix):
    """For each scheme of a mix, medians over its runs, without the one that chose the best if there are others."""
    of = {}
    for row in rows:
        if row["mix"] == mix:
            of.setdefault(row["scheme"], []).append(row)
    whole = {}
    for scheme, runs in of.items():
        runs = [row for row in runs if row["turn"] > 0] or runs
        spans, means = ([row[what] for row in runs] for what in ("makespan_s", "mean_completion_s"))
        middle = statistics.median(spans)
        whole[scheme] = {
            "makespan_s": round(middle, 3),
            "mean_completion_s": round(statistics.median(means), 3),
            "spread_percent": round(100 * (max(spans) - min(spans)) / middle, 1),
            "load": max(row["load"] for row in runs),
            "learnt": runs[0].get("learnt"),
        }
    return whole


def leaders(rows, mix):
    """The two fixed numbers with the least makespans when each ran once, the best first."""
    first = {row["scheme"]: row["makespan_s"] for row in rows if row["mix"] == mix and row["turn"] == 0}
    return sorted((scheme for scheme in first if scheme.startswith("fixed")), key=first.get)[:2]


def summarise(rows, facts):
    mixes = []
    for name, *_ in MIXES:
        of = medians(rows, name)
        if not {"mt", "mt, known", "fixed 1"} <= of.keys():
            continue
        first, second = sorted(leaders(rows, name), key=lambda scheme: of[scheme]["makespan_s"])
        best = of[first]
        mean = min((best, of[second]), key=lambda row: row["mean_completion_s"])
        mine, known = of["mt"], of["mt, known"]
        over = lambda row, other, what="makespan_s": round(row[what] / other[what], 4)
        mixes.append({
            "mix": name,
            "best_fixed": int(first.split()[1]),
            "makespan_s": {scheme: row["makespan_s"] for scheme, row in of.items()},
            "mean_completion_s": {scheme: row["mean_completion_s"] for scheme, row in of.items()},
            "over_best_fixed": over(mine, best),
            "known_over_best_fixed": over(known, best),
            "over_serial": over(mine, of["fixed 1"]),
            "over_all_at_once": over(mine, of["all at once"]),
            "mean_completion_over_best_fixed": over(mine, mean, "mean_completion_s"),
            "exploration_percent": round(100 * (over(mine, known) - 1), 2),
            "spread_percent": max(best["spread_percent"], mine["spread_percent"], known["spread_percent"]),
            "load": max(row["load"] for row in of.values()),
            "learnt": mine.get("learnt"),
            # Beside tools with a process of their own for each job, as it has; they were given the best number.
            **{f"over_{tool}": over(mine, of[tool]) for tool in TOOLS if tool in of},
        })
    column = lambda name: [mix[name] for mix in mixes if name in mix]
    totals = {}
    names = ["over_best_fixed", "known_over_best_fixed", "over_serial", "over_all_at_once",
             "mean_completion_over_best_fixed", "exploration_percent", "spread_percent",
             *(f"over_{tool}" for tool in TOOLS)]
    for name in filter(column, names):
        totals[f"{name}_median"] = round(statistics.median(column(name)), 4)
        totals[f"{name}_worst"] = max(column(name))
    totals["below_best_fixed"] = sum(over < 1 for over in column("over_best_fixed"))
    return {**facts, **totals, "mixes": mixes}


def page(summary):
    s = summary
    schemes = ["fixed 1", "fixed 2", "fixed 3", "fixed 4", "fixed 8", "all at once", "mt", "mt, known",
               *TOOLS]
    shown = [scheme for scheme in schemes if any(scheme in mix["makespan_s"] for mix in s["mixes"])]

    def table(what):
        lines = ["| mix | " + " | ".join(shown) + " |", "|---|" + "---:|" * len(shown)]
        for mix in s["mixes"]:
            cells = [f"{mix[what][scheme]:.1f}" if scheme in mix[what] else "-" for scheme in shown]
            lines.append(f"| {mix['mix']} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    ratios = ["| mix | best fixed | mt over it | known, over it | over one at a time | over all at once | mean "
              "completion over the best fixed | exploration |", "|---|" + "---:|" * 7]
    for m in s["mixes"]:
        ratios.append(f"| {m['mix']} | {m['best_fixed']} | {m['over_best_fixed']:.3f} | "
                      f"{m['known_over_best_fixed']:.3f} | {m['over_serial']:.3f} | {m['over_all_at_once']:.3f} | "
                      f"{m['mean_completion_over_best_fixed']:.3f} | {m['exploration_percent']:+.1f} % |")
    absent = [tool for tool in TOOLS if tool not in shown]
    absent = f" Not installed, so not measured: {', '.join(absent)}." if absent else ""
    beside = "; ".join(f"`{tool}` median {s[f'over_{tool}_median']:.3f}, worst {s[f'over_{tool}_worst']:.3f}"
                       for tool in TOOLS if tool in shown)
    beside = f"""
Over tools that start a process or two for each job, as `mt` does, and were given the number that was best:
{beside}.
""" if beside else ""
    runs = f"""Figures of `mt`,
`mt, known` and the two best fixed numbers are medians of {s['runs']} runs that come after the one that chose these two;
others are of a single run. Largest and least makespan of one scheme differ by {s['spread_percent_median']:.0f} % in the
median of the mixes, at most {s['spread_percent_worst']:.0f} %."""
    return f"""# Sweeps on the processors, by each way to decide how many run at once

Made by `{s['command']}` on {s['processors']} processors; load average before {s['load_before']:.2f}, largest on
the way {max(m['load'] for m in s['mixes']):.2f} (of the sweeps themselves and of whatever else ran). {runs}
The order of the schemes is drawn anew for each turn. {s['jobs']} trainings a mix, of three sizes
(1, 2, 4): `compute` trains on one thread, `threads` on all processors, `fetch` waits for its data a tenth of a second
before each piece. They come at once or over time, a little faster than the machine can do them.

`fixed N` is a bare pool of N, with less to do for each job than any tool; `mt` a queue that knows nothing, `mt, known`
the same with what that one learnt. `parallel`, `pueue` and `task-spooler` run the number that was the best fixed one, after the
others.{absent}

Makespan over the best fixed number, known in hindsight only (the better of the two best of {s['fixed']}): median
{s['over_best_fixed_median']:.3f}, worst {s['over_best_fixed_worst']:.3f}, below 1 in {s['below_best_fixed']} of
{len(s['mixes'])} mixes; with what the store remembers {s['known_over_best_fixed_median']:.3f} and
{s['known_over_best_fixed_worst']:.3f}. Over one at a time: median {s['over_serial_median']:.3f}. Over all at once:
median {s['over_all_at_once_median']:.3f}. Exploration (a queue that knows nothing over one that knows): median
{s['exploration_percent_median']:+.1f} %, worst {s['exploration_percent_worst']:+.1f} %.
{beside}
{chr(10).join(ratios)}

## Makespan, s

{table('makespan_s')}

## Mean completion, s

{table('mean_completion_s')}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kept", action="store_true")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / ("quick.ndjson" if args.quick else "rows.ndjson")
    facts = {"command": "QUICK=1 make sweep" if args.quick else "make sweep", "seed": args.seed, "processors": CORES}
    rows = []
    if args.kept and kept.exists():
        first, *rest = [json.loads(line) for line in kept.read_text().splitlines()]
        if first["seed"] == args.seed:
            facts, rows = first, rest
    number, mixes, fixed = (30, [MIXES[4], MIXES[8]], [1, 2, 4, 8]) if args.quick else (60, MIXES, FIXED)
    if not rows:
        facts |= {"jobs": number, "fixed": len(fixed), "runs": RUNS, "steps": calibrate()}
        facts["load_before"] = os.getloadavg()[0]
        kept.write_text(json.dumps(facts) + "\n")

    def keep(row):
        with kept.open("a") as file:
            file.write(json.dumps(row) + "\n")

    into = OUT if args.quick else HERE
    begin = time.time()
    for index, mix in enumerate(mixes):
        jobs = jobs_of(mix, number, facts["steps"], args.seed)
        say(f"mix {index + 1} of {len(mixes)}, {mix[0]}: {len(jobs)} jobs, after {time.time() - begin:.0f} s")
        measure(mix, jobs, random.Random(f"{args.seed} {mix[0]} schemes"), rows, keep, fixed)
        summary = summarise(rows, facts)
        (into / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        (into / "RESULTS.md").write_text(page(summary))
    say(f"{into}/RESULTS.md, after {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
