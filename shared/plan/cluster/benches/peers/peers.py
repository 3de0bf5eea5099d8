"""Solves exported clusters of 19 to 31 tasks with OR-tools CP-SAT.

A task of job n on GPU m trains for T[n,m], during which it occupies the GPU, and then synchronises for S[n,m]; a round
starts when every task of the one before has synchronised. Minimise the sum of weight times completion. Times are whole
seconds, so both solve the same problem. `value` is by how many percent the worst of this project's plans costs more
than that of CP-SAT, and `baseline_value` the reverse.
"""

import argparse
import json

from ortools.sat.python import cp_model
from rows import row, show


def solve(spec, seconds, workers):
    jobs = spec["jobs"]
    model = cp_model.CpModel()
    longest = [[t + s for t, s in zip(j["train_s"], j["sync_s"])] for j in jobs]
    horizon = max(j["arrival_s"] for j in jobs) + sum(
        j["rounds"] * j["tasks"] * max(of) for j, of in zip(jobs, longest))
    on_gpu = [[] for _ in jobs[0]["train_s"]]
    cost = []
    for n, job in enumerate(jobs):
        ready = job["arrival_s"]
        for r in range(job["rounds"]):
            synced = model.new_int_var(0, horizon, f"synced{n}.{r}")
            before = None
            for k in range(job["tasks"]):
                start = model.new_int_var(0, horizon, f"start{n}.{r}.{k}")
                model.add(start >= ready)
                # Tasks of a round are alike.
                if before is not None:
                    model.add(start >= before)
                before = start
                here = []
                for m, (train, sync) in enumerate(zip(job["train_s"], job["sync_s"])):
                    chosen = model.new_bool_var(f"on{n}.{r}.{k}.{m}")
                    here.append(chosen)
                    on_gpu[m].append(model.new_optional_fixed_size_interval_var(
                        start, train, chosen, f"train{n}.{r}.{k}.{m}"))
                    model.add(synced >= start + train + sync).only_enforce_if(chosen)
                model.add_exactly_one(here)
            ready = synced
        cost.append(job["weight"] * ready)
    for intervals in on_gpu:
        model.add_no_overlap(intervals)
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False
    return solver.objective_value, status == cp_model.OPTIMAL


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("clusters")
    args = parser.parse_args()
    with open(args.clusters, encoding="utf-8") as file:
        clusters = json.load(file)
    behind, ahead = [0.0], [0.0]
    proven = their_proven = unproven = wrong = 0
    for spec in clusters:
        theirs, optimal = solve(spec, args.seconds, args.workers)
        proven += spec["proven"]
        their_proven += optimal
        unproven += optimal and not spec["proven"]
        if theirs is None:
            continue
        behind.append(100 * (spec["cost"] / theirs - 1))
        ahead.append(100 * (theirs / spec["cost"] - 1))
        # A proof is false if the other has a better plan.
        wrong += spec["proven"] and behind[-1] > 1e-6 or optimal and ahead[-1] > 1e-6
    worse, better = (sum(v > 1e-6 for v in of) for of in (behind, ahead))
    name = f"CP-SAT, {args.workers} workers, {args.seconds:g} s"
    what = (f"how much more the worst of {len(clusters)} plans of 19 to 31 tasks costs than the other's, ours in "
            f"{spec['limit_s']:g} s; ours worse in {worse}, better in {better}, proven {proven} ({their_proven}), "
            f"{unproven} that only CP-SAT proved, {wrong} false proofs")
    show([row("peer_cluster_mid", max(behind), "%", name, max(ahead), what)], args.json)


if __name__ == "__main__":
    main()
