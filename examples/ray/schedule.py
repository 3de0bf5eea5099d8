#!/usr/bin/env python3
"""Run a schedule of mt-cluster on Ray, with one actor per GPU, which keeps the planned order.

usage: schedule.py SCHEDULE.json > run.ndjson

A task waits for the tasks of the previous round (they are arguments of its call), and an actor makes its calls one
after another, so Ray itself follows the schedule. If an actor dies, Ray restarts it and its task. GPU types are
resources of Ray (`ray start --resources '{"v100": 8}'`); without a cluster they are emulated here.
"""
import json
import os
import subprocess
import sys
import time

import ray


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=3)  # without num_cpus=0 a GPU holds a core
class Gpu:
    def train(self, argv, variables, arrival, *round_before):
        time.sleep(max(0, arrival - time.time()))
        start = time.time()
        subprocess.run(argv, env={**os.environ, **variables}, check=True, stdout=sys.stderr)
        return start, time.time(), os.getpid()


schedule = json.load(open(sys.argv[1]))
cluster = schedule["cluster"]
jobs = {job["id"]: job for job in cluster["jobs"]}
kinds = {}
for gpu in cluster["gpus"]:
    name = gpu.get("id", gpu["type"])
    names = [f"{name}-{i}" for i in range(gpu["count"])] if "count" in gpu else [name]
    kinds.update({n: gpu["type"] for n in names})
if "RAY_ADDRESS" in os.environ:
    ray.init(log_to_driver=False)
else:
    emulated = {kind: list(kinds.values()).count(kind) for kind in kinds.values()}
    ray.init(resources=emulated, include_dashboard=False, log_to_driver=False)
actors = {n: Gpu.options(name=n, resources={kind: 1}).remote() for n, kind in kinds.items()}
ray.get([a.__ray_ready__.remote() for a in actors.values()])
begin = time.time()
calls = {}
for a in sorted(schedule["assignments"], key=lambda a: a["start_s"]):
    job, rnd, gpu = jobs[a["job"]], a["round"], a["gpu"]
    variables = {"MT_TASK": a["job"], "MT_ROUND": str(rnd), "MT_RANK": str(a["task"]), "MT_GPU": gpu}
    before = [call for key, call in calls.items() if key[:2] == (a["job"], rnd - 1)]
    calls[a["job"], rnd, a["task"]] = actors[gpu].train.remote(
        job["job"]["argv"], variables, begin + job.get("arrival_s", 0), *before)
ends = {}
for (job, rnd, task), call in calls.items():
    start, end, pid = ray.get(call)
    ends[job] = max(ends.get(job, 0), end - begin)
    print(json.dumps({"job": job, "round": rnd, "task": task, "pid": pid,
                      "start_s": start - begin, "end_s": end - begin}))
cost = sum(job.get("weight", 1) * ends[name] for name, job in jobs.items())
print(f"{len(calls)} tasks in {max(ends.values()):.2f} s, weighted completion {cost:.2f} measured, "
      f"{schedule['cost']:.2f} planned", file=sys.stderr)
