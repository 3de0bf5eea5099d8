#!/usr/bin/env python3
"""Measure the switch between two jobs on a GPU: a process for each task against parked ones.

usage: pool.py [PYTHON] > POOL.md    (the tools are on PATH; PYTHON has torch, else it is left out)
       pool.py work MODULES          the job: what it imports, then one task or many

Two jobs take turns on one emulated GPU, since each trains while the other synchronises. A task trains for
a known time; what its compute phase takes beyond that is the switch.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TRAIN, SYNC, ROUNDS = 0.2, 0.25, 15
HERE = pathlib.Path(__file__).resolve()


def work(modules):
    sys.path.insert(0, str(HERE.parents[1] / "torch"))
    from worker_protocol import Worker
    for module in filter(None, modules.split(",")):
        __import__(module)
    worker = Worker.from_environment(batch=1)
    worker.samples = 1
    worker.synchronise = lambda round, rank: time.sleep(SYNC)
    worker.ready()
    worker.train(lambda size: time.sleep(TRAIN) or [(size, None)], lambda: [])
    if not worker.pool:
        time.sleep(SYNC)


def measure(python, modules, pool):
    """Milliseconds of every switch but the first of each job, which starts its process either way."""
    argv = [python, str(HERE), "work", modules]
    jobs = [{"id": name, "rounds": ROUNDS, "tasks_per_round": 1, "train_s": {"t": TRAIN},
             "sync_s": {"t": SYNC}, "job": {"argv": argv, "pool": pool}} for name in ("a", "b")]
    cluster = {"schema": "mt.cluster/1", "gpus": [{"type": "t"}], "jobs": jobs}
    with tempfile.TemporaryDirectory() as folder:
        plan = subprocess.run(["mt-cluster", "plan"], input=json.dumps(cluster), text=True, check=True,
                              stdout=subprocess.PIPE).stdout
        path = pathlib.Path(folder, "schedule.json")
        path.write_text(plan)
        run = subprocess.run(["mt-cluster", "run", "--device", "cpu", str(path)], text=True, check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        subprocess.run(["mt-check"], input=run, text=True, check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in run.splitlines()]
    return [1e3 * (e["end_s"] - e["start_s"] - TRAIN) for e in events
            if e["event"] == "phase" and e["phase"] == "compute" and e["round"] > 0]


def main():
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    rows = [("Python", sys.executable, ""), ("Python with asyncio, http and sqlite3", sys.executable,
                                              "asyncio,http.client,sqlite3")]
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        rows.append(("PyTorch", python, "torch"))
    cpu = next((line.split(": ", 1)[1] for line in open("/proc/cpuinfo")
                if line.startswith("model name")), "unknown\n").strip()
    load = os.getloadavg()[0]
    print(f"""# The switch between jobs on the cpu device

Written by `make -C examples/hare pool`; measured on {os.cpu_count()} cores of {cpu}, at a load of {load:.0f}.
Two jobs take turns on one emulated GPU, {2 * ROUNDS} tasks of {TRAIN:g} s. What a task takes beyond its training: where every task is a process
of its own, and where the jobs have `"pool": true`, so that their processes stay, parked.

| program | restart, median ms | p95 | wake-up, median ms | p95 | ratio |
| --- | --- | --- | --- | --- | --- |""")
    for name, interpreter, modules in rows:
        cells, medians = [name], []
        for pool in (False, True):
            switches = sorted(measure(interpreter, modules, pool))
            medians.append(statistics.median(switches))
            cells += [f"{medians[-1]:.1f}", f"{switches[int(0.95 * len(switches))]:.1f}"]
        print("| " + " | ".join([*cells, f"{medians[0] / medians[1]:.0f}"]) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        main()
