#!/usr/bin/env python3
"""Three federations to a target accuracy each: together, one after another, all at once without us, and in fixed parts.

usage: measure.py [--seeds 5] [--schemes 'together;fixed parts'] > summary.json

For each seed all schemes run in turn. The clock begins before the first program starts; an app ends when its server says
that the target is reached. A seed draws the first weights, and the order in which the apps are given.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
APP = HERE.parent / "sized"
PYTHON = str(HERE.parents[2] / "python")
#: Most rounds of each model; the target is reached before.
ROUNDS = {"small": 24, "middle": 13, "large": 8}
TARGET, CLIENTS = 0.95, 12
SCHEMES = ["together", "after another", "at once, 1 processor a client", "at once, default", "fixed parts"]
GROUP = pathlib.Path("/sys/fs/cgroup/cpu")
LIMIT_S = 400
# The largest weight that Linux takes: against one process of weight 1,024 it has 99.6 % of a processor.
MOST_SHARES = 262_144
ALONE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from mt_tools import flower
flower.run(pathlib.Path(sys.argv[2]), int(sys.argv[3]), [sys.argv[4]], False, {"client_resources": {"num_cpus": int(sys.argv[5]), "num_gpus": 0}})
"""


def group(name, file=None, value=None):
    """A control group (version 1, as root): ours together have nearly all of the processors' time whenever they want it,
    so that other programs get what is left, and in fixed parts each app has a quota."""
    folder = GROUP / name
    folder.mkdir()
    if file:
        (folder / file).write_text(str(value))
    return folder


def close(folder):
    for inner in [path for path in folder.iterdir() if path.is_dir()]:
        close(inner)
    for _ in range(200):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            return folder.rmdir()
        time.sleep(0.1)


def config(model, seed):
    return f"model='{model}' rounds={ROUNDS[model]} target={TARGET} seed={seed}"


class Program:
    """A program, and when its lines of results came."""

    def __init__(self, words, folder):
        self.lines, self.text = [], []
        env = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": PYTHON}
        self.child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                                      preexec_fn=lambda: (folder / "cgroup.procs").write_text(str(os.getpid())))
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.child.stdout:
            self.text.append(line)
            if "rounds: {" in line:
                self.lines.append((time.monotonic(), line))

    def wait(self, until):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(max(1, until - time.monotonic()))
        self.child.kill()
        self.child.wait()
        self.thread.join(5)
        return self.lines


def once(scheme, models, seed):
    parent = group(f"mt-together-{os.getpid()}", "cpu.shares", MOST_SHARES)
    begin, ends, rounds, text = time.monotonic(), {}, {}, ""
    until = begin + LIMIT_S
    try:
        if scheme == "together":
            words = [sys.executable, "-m", "mt_tools.flower", "together", *[str(APP)] * len(models), "--supernodes", str(CLIENTS)]
            program = Program(words + [word for model in models for word in ("--run-config", config(model, seed))], parent)
            found = program.wait(until)
            text = "".join(program.text)
            for when, line in found:
                model = models[int(re.match(r"\[sized-(\d)]", line)[1]) - 1]
                ends[model], rounds[model] = when - begin, json.loads(line[line.index("{"):])
        else:
            processors = len(os.sched_getaffinity(0))
            programs = []
            for model in models:
                folder = parent
                if scheme == "fixed parts":
                    folder = group(f"{parent.name}/{model}", "cpu.cfs_quota_us", int(1e5 * processors / len(models)))
                a_client = processors if scheme == "at once, default" else 1
                words = [sys.executable, "-c", ALONE, PYTHON, str(APP), str(CLIENTS), config(model, seed), str(a_client)]
                programs.append((model, Program(words, folder)))
                if scheme == "after another":
                    programs[-1][1].wait(until)
            for model, program in programs:
                for when, line in program.wait(until):
                    ends[model], rounds[model] = when - begin, json.loads(line[line.index("{"):])
                text += "" if model in ends else "".join(program.text)[-1500:]
    finally:
        close(parent)
    row = {"seed": seed, "scheme": scheme, "order": models, "load": round(os.getloadavg()[0], 1),
           "ends_s": {model: round(end, 1) for model, end in ends.items()},
           "rounds": {model: [len(r["ends_s"]), r["accuracy"]] for model, r in rounds.items()}}
    if len(ends) == len(models):
        row |= {"last_s": round(max(ends.values()), 1), "mean_s": round(sum(ends.values()) / len(ends), 1)}
    else:
        row["error"] = text[-3000:]
    if said := re.findall(r"^mt: sized-\d: .*$", text, re.M):
        row["said"] = said
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--schemes", default=";".join(SCHEMES), help="separated by semicolons")
    args = parser.parse_args()
    rows = []
    for seed in range(1, args.seeds + 1):
        draw = random.Random(seed)
        models, schemes = list(ROUNDS), args.schemes.split(";")
        draw.shuffle(models)
        draw.shuffle(schemes)
        for scheme in schemes:
            rows.append(once(scheme, models, seed))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    json.dump({"command": " ".join(sys.argv), "processors": len(os.sched_getaffinity(0)), "target": TARGET, "rows": rows},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
