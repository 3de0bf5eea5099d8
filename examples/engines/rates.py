#!/usr/bin/env python3
"""The table of planned and measured rates, with one row per task: rates.py ENGINE PLAN LOG

LOG is the file that train.py writes. A task that trained several times, in rounds and at sites, gets the mean, the
minimum and the maximum.
"""
import json
import statistics
import sys

engine, plan, path = sys.argv[1:]
rates = {}
for line in open(path):
    run = json.loads(line)
    rates.setdefault(run["task"], []).append(run["samples_per_s"])
print("| engine | task | share | planned samples/s | measured | measured / planned |")
print("| --- | --- | ---: | ---: | ---: | ---: |")
for task in json.load(open(plan))["tasks"]:
    planned, measured = task["throughput"]["samples_per_s"], rates[task["id"]]
    mean = statistics.mean(measured)
    spread = f" ({min(measured):.0f} to {max(measured):.0f})" if len(measured) > 1 else ""
    print(f"| {engine} | {task['id']} | {task['share_percent']:g} % | {planned:.0f} | {mean:.0f}{spread} "
          f"| {mean / planned:.2f} |")
