"""Solves exported rounds with OR-tools CP-SAT.

A round: task i downloads for d_i, computes for c_i whoever else computes, and uploads for u_i; one
download and one upload at a time; minimise the end. Times are rounded to whole microseconds, so
CP-SAT may differ by a few of them. Prints one list of rows for each group of equal task count:
`value` is the mean gap in percent of this project's answers to the lower bound, `baseline_value`
that of CP-SAT.
"""

import argparse
import json
import time

from ortools.sat.python import cp_model

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("rounds")
    args = parser.parse_args()
    with open(args.rounds) as f:
        rounds = json.load(f)
    rows = []
    for n in sorted({r["tasks"] for r in rounds}):
        group = [r for r in rounds if r["tasks"] == n]
        ours, theirs, our_ms, their_ms = [], [], [], []
        worse = proven = their_proven = 0
        for r in group:
            value, optimal, ms = solve(r, args.seconds, args.workers)
            their_ms.append(ms)
            our_ms.append(r["ms"])
            proven += r["proven"]
            their_proven += optimal
            ours.append(r["makespan_s"] / r["bound_s"] - 1)
            if value is None:
                continue
            theirs.append(value / r["bound_s"] - 1)
            # Rounding moves each of up to 3 n times by half a microsecond.
            worse += r["makespan_s"] > value + 3 * n * 0.5 / UNIT
        peer = f"CP-SAT, {args.workers} workers, {args.seconds:g} s"

        def row(name, value, unit, baseline_value, what):
            ratio = value / baseline_value if baseline_value else 1.0
            rows.append(dict(name=name, value=value, unit=unit, baseline=peer,
                             baseline_value=baseline_value, ratio=ratio, what=what))

        median = lambda v: sorted(v)[len(v) // 2]
        row(f"overlap_n{n}_fixed_gap_peer", 100 * sum(ours) / len(ours), "%",
            100 * sum(theirs) / max(len(theirs), 1),
            f"mean gap to the bound without search, {len(group)} rounds, worse than the peer in "
            f"{worse}, proven {proven} (peer {their_proven})")
        row(f"overlap_n{n}_fixed_ms_peer", median(our_ms), "ms", median(their_ms),
            "median time of the same")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
