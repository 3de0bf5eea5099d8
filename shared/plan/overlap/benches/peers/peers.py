"""Solves exported rounds with OR-tools CP-SAT.

A round: task i downloads for d_i, computes for c_i whoever else computes, and uploads for u_i; one
download and one upload at a time; minimise the end. Times are rounded to whole microseconds, so
CP-SAT may differ by a few of them. For each group of equal task count: `value` is the mean gap in
percent of this project's answers to the lower bound, `baseline_value` that of CP-SAT.

Rounds with co-run rates are not among them. There the pace of a task changes whenever another
starts or ends to compute, as a function of the whole set: with intervals of variable length and
2^n rates this is no scheduling model of CP-SAT, and on a grid of time steps its optimum would be
that of another problem. They are compared with an iterated local search by `make bench`.
"""

import argparse
import json
import time

from ortools.sat.python import cp_model
from rows import row, show

UNIT = 1e6


def solve(spec, seconds, workers):
    d = [round(v * UNIT) for v in spec["download_s"]]
    c = [round(v * UNIT) for v in spec["compute_s"]]
    u = [round(v * UNIT) for v in spec["upload_s"]]
    horizon = sum(d) + sum(u) + max(c)
    model = cp_model.CpModel()
    end = model.new_int_var(0, horizon, "end")
    downs, ups = [], []
    for i in range(len(d)):
        down = model.new_int_var(0, horizon, f"down{i}")
        up = model.new_int_var(0, horizon, f"up{i}")
        model.add(up >= down + d[i] + c[i])
        model.add(end >= up + u[i])
        downs.append(model.new_fixed_size_interval_var(down, d[i], f"d{i}"))
        ups.append(model.new_fixed_size_interval_var(up, u[i], f"u{i}"))
    model.add_no_overlap(downs)
    model.add_no_overlap(ups)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    start = time.perf_counter()
    status = solver.solve(model)
    ms = (time.perf_counter() - start) * 1e3
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False, ms
    return solver.objective_value / UNIT, status == cp_model.OPTIMAL, ms


def compare(group, args):
    n = group[0]["tasks"]
    ours, theirs, their_ms = [], [], []
    worse = their_proven = 0
    for r in group:
        value, optimal, ms = solve(r, args.seconds, args.workers)
        their_ms.append(ms)
        their_proven += optimal
        if value is None:
            continue
        ours.append(r["makespan_s"] / r["bound_s"] - 1)
        theirs.append(value / r["bound_s"] - 1)
        # Rounding moves each of up to 3 n times by half a microsecond.
        worse += r["makespan_s"] > value + 3 * n * 0.5 / UNIT
    peer = f"CP-SAT, {args.workers} workers, {args.seconds:g} s"
    mean = lambda v: 100 * sum(v) / max(len(v), 1)
    median = lambda v: sorted(v)[len(v) // 2]
    proven = sum(r["proven"] for r in group)
    return [
        row(f"peer_n{n}_fixed_gap", mean(ours), "%", peer, mean(theirs),
            f"mean gap to the bound without search, {len(theirs)} rounds, ours worse in {worse}, "
            f"proven {proven} (CP-SAT {their_proven})"),
        row(f"peer_n{n}_fixed_ms", median([r["ms"] for r in group]), "ms", peer,
            median(their_ms), "median time of the same"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--each", type=int, default=12, help="rounds of each size")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rounds")
    args = parser.parse_args()
    with open(args.rounds, encoding="utf-8") as file:
        rounds = json.load(file)
    rows = []
    for n in sorted({r["tasks"] for r in rounds}):
        group = [r for r in rounds if r["tasks"] == n]
        # Evenly from light to heavy compute.
        picked = group[:: max(len(group) // args.each, 1)][: args.each]
        rows += compare(picked, args)
    show(rows, args.json)


if __name__ == "__main__":
    main()
