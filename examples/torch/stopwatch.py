"""Times whole rounds of trainings by a stopwatch: every task trains its samples to the end, under several schemes.

    stopwatch.py --workload FILE --output FILE.csv [--rounds N] [--logs DIR] SCHEME...

A scheme is `apart` (one task after another), `together` (all at once), or shares in the order of the tasks, such as
`100/70/50`: then all at once under an MPS daemon that is already running (CUDA_MPS_PIPE_DIRECTORY says where). Without a
daemon, processes share a GPU by time slices, so `apart` and `together` are to be timed without one.

All processes of a scheme have started and are parked before the clock starts, so start-up times are not counted. Schemes
take turns, so that drift does not look like a difference between them. A process serves all schemes that give its task the
same share. Rows: scheme, round, task, samples, and the seconds from the start of the round to the task's last step.
"""

import argparse
import csv
import json
import os
import sys
import time

from slices import PATIENCE_S, Failed, Worker


def train(workers, samples):
    """Trains so many samples of each task at once; returns the seconds until each has finished."""
    for worker in workers:
        worker.order("run")
    begun, counts, ends = time.monotonic(), dict.fromkeys(workers, 0), {}
    heard = dict.fromkeys(workers, begun)
    while len(ends) < len(workers):
        for worker in workers:
            if worker in ends:
                continue
            got = worker.next(0.01 / len(workers))
            while got is not None:
                heard[worker] = got[0]
                if got[1].get("mt") == "step":
                    counts[worker] += got[1].get("samples", 0)
                if counts[worker] >= samples[worker.task]:
                    ends[worker] = got[0] - begun
                    worker.order("park")
                    break
                got = worker.next(0)
            if time.monotonic() - heard[worker] > PATIENCE_S:
                raise Failed(f"{worker.task} reported no step within {PATIENCE_S} s")
    for worker in workers:
        worker.wait_for("parked")
    return {worker.task: ends[worker] for worker in workers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", required=True)
    parser.add_argument("--output", required=True, help="rows are appended")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--logs", default=".")
    parser.add_argument("schemes", nargs="+", metavar="SCHEME")
    args = parser.parse_args()
    try:
        with open(args.workload) as file:
            tasks = json.load(file)["tasks"]
        samples = {task["id"]: task["samples"] for task in tasks}
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"stopwatch.py: {args.workload}: give a workload whose tasks have samples ({error!r})")
    shares = {}
    for scheme in args.schemes:
        plain = scheme in ("apart", "together")
        try:
            shares[scheme] = [None] * len(tasks) if plain else [float(share) for share in scheme.split("/")]
        except ValueError:
            sys.exit(f"stopwatch.py: {scheme}: give apart, together or shares such as 100/70/50")
        if len(shares[scheme]) != len(tasks):
            sys.exit(f"stopwatch.py: {scheme} has {len(shares[scheme])} shares for {len(tasks)} tasks")
    os.makedirs(args.logs, exist_ok=True)
    workers = {}
    try:
        needed = {(task["id"], share) for scheme in args.schemes for task, share in zip(tasks, shares[scheme])}
        starting = []
        for task in tasks:
            for share in sorted({share for name, share in needed if name == task["id"]}, key=str):
                worker = Worker(task["id"], task["job"]["argv"], task["batch_sizes"][0], args.logs, share)
                workers[task["id"], share] = worker
                starting.append(worker)
        for worker in starting:
            worker.wait_for("ready")
        with open(args.output, "a", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            for turn in range(args.rounds):
                for scheme in args.schemes:
                    these = [workers[task["id"], share] for task, share in zip(tasks, shares[scheme])]
                    if scheme == "apart":
                        ends, before = {}, 0.0
                        for worker in these:
                            before += train([worker], samples)[worker.task]
                            ends[worker.task] = before
                    else:
                        ends = train(these, samples)
                    for task, seconds in ends.items():
                        rows.writerow([scheme, turn, task, samples[task], f"{seconds:.3f}"])
                    file.flush()
    except Failed as error:
        sys.exit(f"stopwatch.py: {error}")
    finally:
        for worker in workers.values():
            worker.end()


if __name__ == "__main__":
    main()
