#!/usr/bin/env python3
"""Train the tasks of a plan at once on Ray, each actor under its share.

usage: share.py PLAN SECONDS

The resource `percent` limits the sum of the shares (`ray start --resources '{"percent": 300}'`), which may be above
100 in a plan. `mt-launch exec`, given in the place of Python's path, applies the share; Ray's own processes are not
affected.
"""
import os
import pathlib
import sys
import time

import ray
from mt_tools import documents

plan, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
engines = pathlib.Path(__file__).resolve().parents[1] / "engines"


@ray.remote(num_cpus=0)
class Trainer:
    def train(self, begin, seconds):
        sys.path.append(str(engines))
        import train as training
        task = os.environ["MT_TASK"]
        data, weights = training.Data(training.SIZES[task]), [0.0] * training.SIZES[task]
        worker = training.Worker.from_environment()
        # All at once: an actor that is early waits for the others.
        time.sleep(max(0, begin - time.time()))
        training.train(weights, data, worker, seconds)


ray.init(resources={"percent": 300}, include_dashboard=False, log_to_driver=False)
tasks = documents.read(plan)[0]["tasks"]
# Here a node is one processor.
prefix = f"taskset -c 0 mt-launch exec --plan {plan}"
actors = [
    Trainer.options(
        resources={"percent": task["share_percent"]},
        runtime_env={"py_executable": f"{prefix} --task {task['id']} -- {sys.executable}"},
    ).remote()
    for task in tasks
]
ray.get([actor.__ray_ready__.remote() for actor in actors])
begin = time.time() + 1
ray.get([actor.train.remote(begin, seconds) for actor in actors])
