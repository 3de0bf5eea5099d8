#!/usr/bin/env python3
"""Sixty trainings of 0.2, 0.6 and 1.5 GB in a memory control group of 4 GB, under the queue, which is told nothing of
memory, and under fixed numbers of jobs at once.

usage: memory.py [--seed N] [--quick]     (make sweep-memory; QUICK=1: twelve trainings, one run)

Needs root. `mt` must be on PATH; GNU parallel, pueue and task-spooler are used if they are installed. MEMORY.md and
memory.json beside this file hold the results (--quick: in target/sweep).
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import measure

LIMIT = 4_000_000_000
NUMBERS = [1, 2, 3, 4, 6]
MODELS = ["small", "medium", "large"]


class Group:
    """A memory control group below that of this process, of either version."""

    def __init__(self, limit):
        mounts = [line.split() for line in open("/proc/mounts", encoding="utf-8")]
        old = [m[1] for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")]
        new = [m[1] for m in mounts if m[2] == "cgroup2"]
        root, self.files = (old[0], ("memory.limit_in_bytes", "memory.oom_control")) if old else (
            new[0], ("memory.max", "memory.events"))
        self.path = pathlib.Path(root) / "mt-sweep-memory"
        self.path.mkdir(exist_ok=True)
        (self.path / self.files[0]).write_text(str(limit))

    def kills(self):
        """Processes that the kernel has killed here for lack of memory."""
        lines = (line.split() for line in (self.path / self.files[1]).read_text().splitlines())
        return next((int(line[1]) for line in lines if line[0] == "oom_kill"), 0)

    def run(self, work):
        """What a function returns that runs in a process of its own in the group, and the kills there."""
        before, (ours, theirs) = self.kills(), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                (self.path / "cgroup.procs").write_text(str(os.getpid()))
                os.write(theirs, json.dumps(work()).encode())
                os._exit(0)
            except BaseException as error:  # told by the parent
                print(f"  failed: {error}", file=sys.stderr)
                os._exit(1)
        os.close(theirs)
        with open(ours, encoding="utf-8") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return (json.loads(text) if text else None), self.kills() - before

    def remove(self):
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


def jobs_of(number, seed):
    rng = random.Random(seed)
    jobs = [(0.0, ["python3", str(measure.HERE / "hungry.py"), MODELS[at % 3], str(rng.randrange(1000))])
            for at in range(number)]
    rng.shuffle(jobs)
    return jobs


def pool(jobs, most):
    """Makespan of at most so many at once; a job that is killed is not repeated."""
    begin, running = time.time(), []
    for _, argv in jobs:
        while len(running) >= most:
            running = [child for child in running if child.poll() is None]
            time.sleep(0.005)
        running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
    for child in running:
        child.wait()
    return time.time() - begin


def makespan(scheme, jobs, best, folder):
    if scheme.startswith("fixed"):
        return pool(jobs, int(scheme.split()[1]))
    if scheme in measure.TOOLS:
        return max(measure.TOOLS[scheme](jobs, best))
    if scheme == "mt":
        shutil.rmtree(folder, ignore_errors=True)
    return max(measure.mt(jobs, folder)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    number, runs, fixed = (12, 1, [1, 3]) if args.quick else (60, 2, NUMBERS)
    jobs, rng, group = jobs_of(number, args.seed), random.Random(args.seed), Group(LIMIT)
    folder = measure.OUT / "queue" / "memory"
    folder.parent.mkdir(parents=True, exist_ok=True)
    rows = []

    def attempt(schemes, turn, best=None):
        for scheme in schemes:
            seconds, kills = group.run(lambda: makespan(scheme, jobs, best, folder))
            measure.say(f"  {scheme}: {seconds and round(seconds, 1)} s, {kills} killed")
            rows.append({"scheme": scheme, "turn": turn, "makespan_s": seconds and round(seconds, 2), "killed": kills})

    try:
        load = os.getloadavg()[0]
        attempt(rng.sample([f"fixed {n}" for n in fixed], len(fixed)), 0)
        whole = sorted((row for row in rows if row["killed"] == 0), key=lambda row: row["makespan_s"])
        leaders = [row["scheme"] for row in whole[:2]]
        best = leaders[0].split()[1]
        for turn in range(1, runs + 1):
            schemes = measure.shuffled(leaders, rng)
            tools = [tool for tool in measure.TOOLS if shutil.which(measure.PROGRAMS[tool])]
            attempt(schemes + (tools if turn == runs else []), turn, best)
    finally:
        group.remove()
    into = measure.OUT if args.quick else measure.HERE
    summary = {"command": "make sweep-memory", "seed": args.seed, "jobs": number, "runs": runs, "limit_gb": LIMIT / 1e9,
               "processors": measure.CORES, "load_before": round(load, 2), "rows": rows}
    (into / "memory.json").write_text(json.dumps(summary, indent=1) + "\n")
    (into / "MEMORY.md").write_text(page(summary, leaders))


def page(summary, leaders):
    of = {}
    for row in summary["rows"]:
        of.setdefault(row["scheme"], []).append(row)
    middle = {}
    for scheme, all_rows in of.items():
        later = [row for row in all_rows if row["turn"] > 0] or all_rows
        seconds = [row["makespan_s"] for row in later if row["makespan_s"]]
        middle[scheme] = statistics.median(seconds) if seconds else None
    best = min(middle[scheme] for scheme in leaders)
    lines = []
    for scheme, seconds in middle.items():
        times = ", ".join(f"{row['makespan_s']}" for row in of[scheme])
        kills = ", ".join(str(row["killed"]) for row in of[scheme])
        over = f"{seconds / best:.3f}" if seconds else "-"
        lines.append(f"| {scheme} | {times} | {over} | {kills} |")
    s = summary
    return f"""# A sweep in a memory control group of {s['limit_gb']:.0f} GB

Made by `{s['command']}` on {s['processors']} processors, load average before {s['load_before']}. {s['jobs']} trainings,
a third each of 0.2, 0.6 and 1.5 GB, of 2 to 4 s, which compute half of the time and wait for their data otherwise.
Nothing is declared. `fixed N` is a bare pool; a job that the kernel kills there is not repeated. `mt` is a queue that
knows nothing, and `mt, known` one that knows what that one learnt; both repeat a job that was killed. Tools of others
were told the best fixed number without a kill. The third column is the median of the runs after the one that chose that
number, over it; the last counts the processes that the kernel killed for lack of memory in each run.

| scheme | makespan of each run, s | over the best fixed | killed |
|---|---|---:|---|
{chr(10).join(lines)}
"""


if __name__ == "__main__":
    main()
