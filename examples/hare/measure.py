#!/usr/bin/env python3
"""Run schedules for real on emulated GPUs of the cpu device, and measure them.

usage: measure.py [PYTHON] > MEASURED.md    (the tools are on PATH; a PYTHON without torch skips that row)
       measure.py work MODULES              the job: imports the modules, then trains one task or many

First it compares three jobs on four GPUs (jobs.json) with their plan. Then it measures the switch between two jobs on
a GPU, with a process per task and with parked processes. The jobs take turns, since each trains while the other
synchronises. A task trains for a known time; the rest of its compute phase is the switch.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

TRAIN, SYNC, ROUNDS = 0.2, 0.25, 15
REPETITIONS = 5
HERE = pathlib.Path(__file__).resolve()


def work(modules):
    sys.path.append(str(HERE.parents[2] / "python"))
    from mt_tools import Worker
    for module in filter(None, modules.split(",")):
        __import__(module)
    worker = Worker.from_environment(batch=1)
    worker.samples = 1
    worker.synchronise = lambda round, rank: time.sleep(SYNC)
    worker.ready()
    worker.train(lambda size: time.sleep(TRAIN) or [(size, None)], lambda: [])
    if not worker.pool:
        time.sleep(SYNC)


def run(cluster, policy):
    """Plans and runs a cluster; returns its events, and the final message of the tool."""
    plan = subprocess.run(["mt-cluster", "plan", "--policy", policy], input=json.dumps(cluster), text=True,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "schedule.json")
        path.write_text(plan)
        done = subprocess.run(["mt-cluster", "run", "--device", "cpu", str(path)], cwd=HERE.parent,
                              text=True, check=True, capture_output=True)
        subprocess.run(["mt-check"], input=done.stdout, text=True, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def completions(policy):
    """Weighted completion of the three jobs: planned, and measured in every repetition."""
    cluster = json.loads(HERE.with_name("jobs.json").read_text())
    said = [run(cluster, policy)[1] for _ in range(REPETITIONS)]
    pairs = [re.search(r"completion ([0-9.]+) measured, ([0-9.]+) planned", text) for text in said]
    return float(pairs[0][2]), sorted(float(pair[1]) for pair in pairs)


def switches(python, modules, pool):
    """Milliseconds of every switch, except the first of each job, which starts its process in both cases."""
    argv = [python, str(HERE), "work", modules]
    jobs = [{"id": name, "rounds": ROUNDS, "tasks_per_round": 1, "train_s": {"t": TRAIN},
             "sync_s": {"t": SYNC}, "job": {"argv": argv, "pool": pool}} for name in ("a", "b")]
    events, _ = run({"schema": "mt.cluster/1", "gpus": [{"type": "t"}], "jobs": jobs}, "hare")
    return sorted(1e3 * (e["end_s"] - e["start_s"] - TRAIN) for e in events
                  if e["event"] == "phase" and e["phase"] == "compute" and e["round"] > 0)


def main():
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    rows = [("Python", sys.executable, ""), ("Python with asyncio, http and sqlite3", sys.executable,
                                              "asyncio,http.client,sqlite3")]
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        rows.append(("PyTorch", python, "torch"))
    cpu = next((line.split(": ", 1)[1] for line in open("/proc/cpuinfo")
                if line.startswith("model name")), "unknown\n").strip()
    load = os.getloadavg()[0]
    print(f"""# Schedules run for real on the cpu device

Written by `make -C examples/hare measured` on {os.cpu_count()} cores of {cpu}, at a load of {load:.0f} when it began.

## Three jobs on four emulated GPUs

Jobs of sleeping tasks (`jobs.json`), planned by two policies and run {REPETITIONS} times each; *weighted completion* is
the sum over jobs of weight times completion time.

| policy | planned, s | measured, median s | least | most | median over planned |
| --- | --- | --- | --- | --- | --- |""")
    for policy in ("hare", "fifo"):
        planned, measured = completions(policy)
        middle = statistics.median(measured)
        print(f"| {policy} | {planned:.2f} | {middle:.2f} | {measured[0]:.2f} | {measured[-1]:.2f} "
              f"| {100 * (middle / planned - 1):+.1f} % |", flush=True)
    print(f"""
Where tasks deviate from the plan, what has not started is planned anew: that is why FIFO's order ends before
its plan, and still after ours.

## The switch between jobs

Two jobs take turns on one emulated GPU, {2 * ROUNDS} tasks of {TRAIN:g} s. What a task takes beyond its training: where every task is a process
of its own, and where the jobs have `"pool": true`, so that their processes stay, parked.

| program | restart, median ms | p95 | wake-up, median ms | p95 | ratio |
| --- | --- | --- | --- | --- | --- |""")
    for name, interpreter, modules in rows:
        cells, medians = [name], []
        for pool in (False, True):
            times = switches(interpreter, modules, pool)
            medians.append(statistics.median(times))
            cells += [f"{medians[-1]:.1f}", f"{times[int(0.95 * len(times))]:.1f}"]
        print("| " + " | ".join([*cells, f"{medians[0] / medians[1]:.0f}"]) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        main()
