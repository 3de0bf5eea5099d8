"""Measures co-runs of trainings that share a GPU by time slices: plain processes, no MPS, no control groups.

Part of campaign.sh --survey, for machines that allow neither. Every task of a workload gets one process, which is
parked while others are measured (the worker protocol: `run`, `park` and `batch N` on standard input, JSON lines on
standard output). The rows have the format of `mt-profile --import`. Configurations that the output already contains
are not measured again; a row that a kill left incomplete is dropped.

    slices.py --workload FILE --configurations FILE.csv --output FILE.csv [--window S] [--longest S] [--logs DIR]
"""

import argparse
import csv
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time

# PyTorch takes some ten seconds to start and warm up; a worker that is silent for this long hangs.
PATIENCE_S = 120
# Relative standard error that ends a window, and the number of stretches that it is computed from: consecutive steps
# are alike.
PRECISION, STRETCHES = 0.02, 5
HEAD = ["config", "task", "batch", "share_percent", "throughput", "stderr"]


class Failed(Exception):
    """A training ended or stayed silent."""


class Worker:
    """The process of one task."""

    def __init__(self, task, argv, batch, logs, share=None):
        names = {"MT_TASK": task, "MT_BATCH_SIZE": str(batch), "MT_SHARE_PERCENT": f"{share or 100:g}", "MT_POOL": "1",
                 "MT_DEVICE": "cuda"}
        if share is not None:
            names["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{share:g}"
        self.task, self.lines = task, queue.Queue()
        self.log = open(os.path.join(logs, f"{task}.log"), "ab")
        # In its own process group, so that everything it starts ends with it. If this program is killed, the end of
        # its input ends it.
        self.process = subprocess.Popen(argv, env={**os.environ, **names}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            now = time.monotonic()
            if line.startswith("{"):
                try:
                    self.lines.put((now, json.loads(line)))
                except ValueError:
                    pass
        self.lines.put((time.monotonic(), None))

    def next(self, seconds):
        """Its next message and the time; None if there is none within this many seconds."""
        try:
            now, told = self.lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if told is None:
            raise Failed(f"{self.task} ended; see {self.log.name}")
        return now, told

    def wait_for(self, word):
        end = time.monotonic() + PATIENCE_S
        while True:
            got = self.next(end - time.monotonic())
            if got is None:
                raise Failed(f"{self.task} did not say {word} within {PATIENCE_S} s")
            if got[1].get("mt") == word:
                return

    def order(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.task} takes no orders: {error}") from error

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()


def rate(steps, begun, ended):
    """Samples per second of whole steps within a window, and the standard error over its stretches; None if there are
    too few."""
    inside = [(at, samples) for at, samples in steps if begun <= at <= ended]
    # Each stretch begins and ends with a step, so that no partial step is counted.
    size = (len(inside) - 1) // STRETCHES
    if size < 1:
        return None
    inside = inside[:size * STRETCHES + 1]
    rates = []
    for k in range(STRETCHES):
        part = inside[k * size:(k + 1) * size + 1]
        rates.append(sum(samples for _, samples in part[1:]) / (part[-1][0] - part[0][0]))
    whole = sum(samples for _, samples in inside[1:]) / (inside[-1][0] - inside[0][0])
    return whole, statistics.stdev(rates) / STRETCHES ** 0.5


def measure(workers, least, longest):
    """Rates of tasks that run together, counted while all of them train."""
    steps = {worker: [] for worker in workers}
    for worker in workers:
        worker.order("run")
    patience, begun = time.monotonic() + PATIENCE_S, None
    while True:
        for worker in workers:
            got = worker.next(0.02 / len(workers))
            while got is not None:
                if got[1].get("mt") == "step":
                    steps[worker].append((got[0], got[1].get("samples", 0)))
                got = worker.next(0)
        now = time.monotonic()
        if begun is None:
            # The first steps after a change of the batch size are slower, because kernels are selected again.
            if all(len(told) >= 3 for told in steps.values()):
                begun = now
        elif now - begun >= least:
            rates = [rate(steps[worker], begun, now) for worker in workers]
            sure = all(r and r[1] <= PRECISION * r[0] for r in rates)
            # Long steps: the window continues until it has enough of them for a rate.
            if sure or (now - begun >= longest and all(rates)):
                break
        if now > patience:
            raise Failed("too few steps within the patience")
    for worker in workers:
        worker.order("park")
    for worker in workers:
        worker.wait_for("parked")
    return rates


def wanted(workload, path):
    """Every task alone at each batch size, then the configurations of the list, as lists of (task, batch)."""
    alone = [[(task["id"], batch)] for task in workload["tasks"] for batch in task["batch_sizes"]]
    listed = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            listed.setdefault(int(row["config"]), []).append((row["task"], int(row["batch"])))
    return alone + [listed[k] for k in sorted(listed)]


def measured(path, configurations):
    """The number of complete configurations in the output; anything after them is cut off."""
    done, kept = 0, 0
    if os.path.exists(path):
        with open(path, newline="") as file:
            lines = file.read().splitlines(keepends=True)[1:]
        for runs in configurations:
            rows = lines[kept:kept + len(runs)]
            if len(rows) < len(runs) or not all(row.endswith("\n") for row in rows):
                break
            done, kept = done + 1, kept + len(runs)
        lines = lines[:kept]
    else:
        lines = []
    with open(path + ".part", "w") as file:
        file.write(",".join(HEAD) + "\n" + "".join(lines))
    os.replace(path + ".part", path)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ["--workload", "--configurations", "--output"]:
        parser.add_argument(name, required=True)
    parser.add_argument("--window", type=float, default=1.5)
    parser.add_argument("--longest", type=float, default=4.0)
    parser.add_argument("--logs", default=".")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open(args.workload) as file:
        workload = json.load(file)
    argv = {task["id"]: task["job"]["argv"] for task in workload["tasks"]}
    configurations = wanted(workload, args.configurations)
    os.makedirs(args.logs, exist_ok=True)
    done = measured(args.output, configurations)
    workers = {}
    try:
        with open(args.output, "a") as output:
            for number, runs in list(enumerate(configurations))[done:]:
                try:
                    for task, batch in runs:
                        if task not in workers:
                            workers[task] = Worker(task, argv[task], batch, args.logs)
                            workers[task].wait_for("ready")
                        workers[task].order(f"batch {batch}")
                    rates = measure([workers[task] for task, _ in runs], args.window, args.longest)
                except Failed as error:
                    print(f"slices.py: configuration {number}: {error}", file=sys.stderr)
                    if len(runs) == 1:
                        # Without a solo run of the task there would be nothing to compare with.
                        return 1
                    # The state of its processes is unknown.
                    for task, _ in runs:
                        if task in workers:
                            workers.pop(task).end()
                    rates = [None] * len(runs)
                rows = [f"{number},{task},{batch},100,{r[0]:.6g},{r[1]:.3g}" if r else f"{number},{task},{batch},100,,"
                        for (task, batch), r in zip(runs, rates)]
                # All rows of a configuration are written at once, and to disk before the next begins.
                output.write("\n".join(rows) + "\n")
                output.flush()
                os.fsync(output.fileno())
    finally:
        for worker in workers.values():
            worker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
