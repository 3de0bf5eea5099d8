"""How often is `mt try` wrong? Trials of two copies of a short script whose true gain is set.

The script asks a broker before each step. The broker answers one that is alone after 20 ms, and each of two after
40 ms / (1 + gain), with a spread of 5 % and a slow drift. So the truth does not depend on how busy the machine is, and
the errors of measuring do: of waking up late, of reading late, of stopping and going on. (Two copies bound to one
processor are no A/A pair: beside a neighbour they get two of three parts of it, and one alone gets half.)

Each truth is tried quiet, beside a program that takes a processor, and beside one at low priority (nice 19), which
come and go at random every few seconds. With two or more trials at once, these are neighbours of each other, too.

Usage: errors.py TRIALS [SEED [AT_ONCE [NEIGHBOURS]]]   with `mt` on PATH; 20 s for each. Prints a table.
NEIGHBOURS: some of quiet,loaded,niced.
"""
import collections
import concurrent.futures
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

STEP = 0.02
# A step that was asked for late is made up for, unless it is later than this: then the copy was held.
LATE = 0.25
# A copy that has asked for nothing for so long is held.
IDLE = 0.015
SCRIPT = """
import socket, sys
broker = socket.socket(socket.AF_UNIX)
broker.connect(sys.argv[1])
for step in range(int(sys.argv[2])):
    broker.sendall(b"?")
    broker.recv(1)
    print(f"step {step + 1}" + sys.argv[3], flush=True)
"""
# A neighbour that works and rests for some seconds each, as long as who started it lives; argument: seed.
NEIGHBOUR = """
import os, random, sys, time
chance, parent = random.Random(int(sys.argv[1])), os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + chance.uniform(1, 6)
    while time.monotonic() < end:
        sum(range(10000))
    time.sleep(chance.uniform(1, 6))
"""
GAINS = [0.0, 0.2, 0.8, -0.2]
NEIGHBOURS = {"quiet": None, "loaded": 0, "niced": 19}


class Broker:
    """Answers the copies of one trial."""

    def __init__(self, path, gain, seed):
        self.gain, self.chance, self.answered = gain, random.Random(seed), {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                copy, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(copy,), daemon=True).start()

    def serve(self, copy):
        due = time.monotonic()
        while True:
            try:
                if not copy.recv(1):
                    break
                now = time.monotonic()
                if now - due > LATE:
                    due = now
                self.answered[copy] = math.inf
                active = sum(now - answered < IDLE for answered in list(self.answered.values()))
                pause = STEP if active < 2 else STEP * active / (1 + self.gain)
                drift = 1 + 0.05 * math.sin(now / 7)
                due += pause * drift * self.chance.gauss(1, 0.05)
                time.sleep(max(0, due - time.monotonic()))
                self.answered[copy] = time.monotonic()
                copy.sendall(b"!")
            except OSError:
                break
        self.answered.pop(copy, None)


def trial(folder, gain, beside, seed):
    chance = random.Random(seed)
    path = os.path.join(folder, f"{seed}.sock")
    broker = Broker(path, gain, seed)
    steps = chance.choice([500, 1000, 100000])
    of = f"/{steps}" if chance.random() < 0.5 else ""
    other = None
    if NEIGHBOURS[beside] is not None:
        command = ["nice", "-n", str(NEIGHBOURS[beside]), sys.executable, "-c", NEIGHBOUR, str(seed)]
        # In a session of its own, as another user's would be.
        other = subprocess.Popen(command, start_new_session=True)
    began = time.monotonic()
    # Start-ups overlap, which is a gain: so they are short.
    line = f"{sys.executable} -I -S {folder}/script.py {path} {steps} {of or 'x'}"
    try:
        command = ["mt", "try", line, "--seconds", "8", "-o", os.path.join(folder, f"out-{seed}")]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder)
    finally:
        broker.listener.close()
        if other:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
    answer = re.search(r"^(Worth it|Not worth it|Cannot tell): (.*)", ran.stdout, re.M)
    busy = re.search(r"took up to (\d+) %", ran.stdout)
    said = answer.group(0) if answer else "no answer: " + ran.stderr[-200:]
    print(f"{gain:+} {beside} {steps}{of}: {said} busy {busy.group(1) if busy else 0} %", file=sys.stderr, flush=True)
    return (answer.group(1) if answer else "no answer"), time.monotonic() - began


def main():
    words = sys.argv[1:] + ["108", "1", "1", ",".join(NEIGHBOURS)][len(sys.argv) - 1:]
    trials, seed, at_once = (int(word) for word in words[:3])
    cells = [(gain, beside) for gain in GAINS for beside in words[3].split(",")]
    found = collections.defaultdict(list)
    loads = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        with open(os.path.join(folder, "script.py"), "w") as file:
            file.write(SCRIPT)

        def one(number):
            loads.append(os.getloadavg()[0])
            # In turns, so that a change of the machine falls on all cells alike.
            cell = cells[number % len(cells)]
            found[cell].append(trial(folder, *cell, seed * 100_000 + number))

        list(pool.map(one, range(trials)))
    loads.sort()
    print(f"`errors.py {' '.join(words)}` on {os.cpu_count()} processors, {at_once} at once; load average")
    print(f"{loads[0]:.1f} to {loads[-1]:.1f}, median {loads[len(loads) // 2]:.1f}, these trials included.")
    print()
    print("| true gain | neighbour | trials | worth it | not worth it | cannot tell | no answer | false | median |")
    print("|---|---|---|---|---|---|---|---|---|")
    for gain, beside in cells:
        answers = collections.Counter(answer for answer, _ in found[gain, beside])
        times = sorted(took for _, took in found[gain, beside])
        if not times:
            continue
        false = (answers["Worth it"] if gain <= 0 else 0) + (answers["Not worth it"] if gain >= 0 else 0)
        counts = [answers[name] for name in ("Worth it", "Not worth it", "Cannot tell", "no answer")]
        row = [f"{100 * gain:+.0f} %", beside, len(times), *counts, false, f"{times[len(times) // 2]:.0f} s"]
        print("| " + " | ".join(map(str, row)) + " |")


main()
