#!/usr/bin/env python3
"""Compares the number of clients at once that is found with numbers set by hand, and with Flower's default.

usage: measure.py [--models light,medium,heavy] [--rounds 3] [--repeats 1] [--memory 4] > summary.json

For each model, all schemes run in turn, each in a process of its own under a limit of so many GB. The clock is the server's:
from before the first client has started to the end of the last round.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SCHEMES = ["found", "default", "1", "2", "4", "8"]
GROUPS = pathlib.Path("/sys/fs/cgroup")
# The largest weight that Linux takes: against one process of weight 1,024 it has 99.6 % of a processor.
MOST_SHARES = 262_144
# No run takes as long on a machine that is not used otherwise.
LIMIT_S = 300
ONE = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from mt_tools import flower
scheme, model, rounds = sys.argv[3:]
cpus = len(os.sched_getaffinity(0))
by_hand = {"client_resources": {"num_cpus": cpus / int(scheme), "num_gpus": 0}} if scheme.isdigit() else {}
flower.run(pathlib.Path(sys.argv[2]), 40, [f"model='{model}' rounds={rounds}"], scheme == "found", by_hand)
"""


def groups(gigabytes):
    """Folders of control groups (version 1, as root): a limit of memory, and nearly all of the processors' time whenever
    it is wanted, so that other programs get what is left. Those that cannot be made are left out."""
    made = []
    for kind, file, value in (("memory", "memory.limit_in_bytes", int(gigabytes * 1e9)), ("cpu", "cpu.shares", MOST_SHARES)):
        folder = GROUPS / kind / f"mt-flower-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / file).write_text(str(value))
            made.append(folder)
        except OSError as error:
            print(f"measure.py: no {kind} group: {error}", file=sys.stderr)
    return made


def processes(folder):
    return [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]


def close(folders):
    """Ends what is left, and removes the groups."""
    for folder in folders:
        for _ in range(100):
            for pid in processes(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


def once(scheme, model, rounds, gigabytes):
    folders = groups(gigabytes)

    def enter():
        for folder in folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    before = time.monotonic()
    words = [sys.executable, "-c", ONE, str(HERE.parents[2] / "python"), str(HERE), scheme, model, str(rounds)]
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=enter,
                                 env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LIMIT_S)
        child.kill()
        child.wait()
        left = sum(len(processes(folder)) for folder in folders[:1])
        log.seek(0)
        text = log.read()
    row = {"model": model, "scheme": scheme, "process_s": round(time.monotonic() - before, 1),
           "load": round(os.getloadavg()[0], 1), "left": left}
    if line := re.search(r"^rounds: (.*)$", text, re.M):
        row |= json.loads(line[1])
    if failures := [int(n) for n in re.findall(r"results and (\d+) failures", text)]:
        row["failed_clients"] = sum(failures)
    if found := re.search(r"^mt: (up to .*)$", text, re.M):
        row["said"] = found[1]
    if folders and folders[0].parent.name == "memory":
        row["peak_mb"] = int((folders[0] / "memory.max_usage_in_bytes").read_text()) // 10**6
    close(folders)
    if "ends_s" not in row:
        row["error"] = text[-2000:]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="light,medium,heavy")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--memory", type=float, default=4, metavar="GB")
    args = parser.parse_args()
    rows = []
    for repeat in range(args.repeats):
        for model in args.models.split(","):
            for scheme in args.schemes.split(","):
                rows.append({"repeat": repeat, **once(scheme, model, args.rounds, args.memory)})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    json.dump({"command": " ".join(sys.argv), "processors": len(os.sched_getaffinity(0)), "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
