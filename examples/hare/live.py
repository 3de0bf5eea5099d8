#!/usr/bin/env python3
"""Drive a live system through a pipe: mt-cluster decides, this script starts tasks and reports their events.

usage: live.py CLUSTER.json [SPEED]

Every job of the cluster arrives at its arrival_s, and every task sleeps as long as the cluster says, both sped up by
SPEED (default 1). In your own system, start processes where this script sleeps.
"""
import json
import os
import subprocess
import sys
import threading
import time

cluster = json.load(open(sys.argv[1]))
speed = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
types = {}
for gpu in cluster["gpus"]:
    name = gpu.get("id", gpu["type"])
    names = [name] if "count" not in gpu else [f"{name}-{i}" for i in range(gpu["count"])]
    types.update({n: gpu["type"] for n in names})
jobs = {job["id"]: job for job in cluster["jobs"]}

tool = os.environ.get("MT_CLUSTER", "mt-cluster")
scheduler = subprocess.Popen([tool, "online", "--events", "-", sys.argv[1]],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
begin = time.monotonic()
lock = threading.Lock()
left = sum(job["rounds"] * job["tasks_per_round"] for job in jobs.values())


def tell(event, **fields):
    with lock:
        now = (time.monotonic() - begin) * speed
        scheduler.stdin.write(json.dumps({"event": event, "time_s": now, **fields}) + "\n")
        scheduler.stdin.flush()
    return now


def run(start):
    """One task, from its start to the end of its synchronisation."""
    global left
    task = {k: start[k] for k in ("job", "round", "task")}
    job, kind = jobs[task["job"]], types[start["gpu"]]
    tell("started", **task, gpu=start["gpu"])
    time.sleep(job["train_s"][kind] / speed)
    tell("trained", **task)
    time.sleep(job.get("sync_s", {}).get(kind, 0) / speed)
    now = tell("finished", **task)
    with lock:
        left -= 1
        if task["round"] == job["rounds"] - 1:
            ends[task["job"]] = max(ends.get(task["job"], 0), now)
        if left == 0:
            scheduler.stdin.close()


def arrivals():
    for job in sorted(jobs.values(), key=lambda j: j.get("arrival_s", 0)):
        wait = job.get("arrival_s", 0) / speed - (time.monotonic() - begin)
        time.sleep(max(0, wait))
        tell("arrival", job=job["id"])


ends = {}
threading.Thread(target=arrivals, daemon=True).start()
for line in scheduler.stdout:
    threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
cost = sum(job.get("weight", 1) * ends[name] for name, job in jobs.items())
print(f"{len(ends)} jobs, weighted completion {cost:.2f}")
sys.exit(scheduler.wait())
