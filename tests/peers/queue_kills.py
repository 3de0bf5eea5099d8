"""Kills everything around a queue at random moments, and judges by what the jobs themselves wrote.

Usage: queue_kills.py [KILLS [SEED [CUTS]]]. The programs come from PATH. Each round adds a sweep, a job and two programs
under `mt exec`, waits, cancels and restarts, and meanwhile kills a server, its guard, both, a client, a job, or all of
these. Afterwards CUTS journals are cut at every record, as a power cut does, and each is opened by a new server.

Faults that are counted, and nothing else decides:

  lost       confirmed, but not known at the end, or neither run nor reported to be given up
  open       still waits or runs after `mt wait`
  false      reported as done, but its end is not in the ledger
  half       a sweep of which only some jobs were added
  number     one number for two jobs
  twice      two starts of one job alive at the same time, or a program of `mt exec` started twice
  again      started again although no kill was within WINDOW of its end
  cancelled  began after its cancellation had been confirmed
  orphan     a process of a job that outlives the last job
  stuck      a command that does not return

Exit code 1 if there was any.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# The server reads what has ended at most every 50 ms, and the children of the job are ended in between; a job whose
# server and guard are both dead runs on until the next server begins. A machine whose processors are all taken delays
# all of these.
WINDOW = 0.5
# A client tries for 30 s to reach a server; a job takes a fraction of a second.
STUCK = 120
# A job whose start was on disk before the cancellation may be a process that has not yet written its first line.
LAG = 0.5
JOB = r"""#!/bin/bash
# Usage: TOKEN SECONDS. One line each in the ledger: begin, end, and twice if another start is alive.
cd "$(dirname "$0")"
for pid in $(sed -n "s/^begin $1 \([0-9]*\) .*/\1/p" "$LEDGER" 2>/dev/null); do
    if [ "$pid" != $$ ] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q " $1 "; then
        echo "twice $1 $$ $EPOCHREALTIME" >>"$LEDGER"
    fi
done
echo "begin $1 $$ $EPOCHREALTIME" >>"$LEDGER"
sleep "$2"
echo "end $1 $$ $EPOCHREALTIME" >>"$LEDGER"
"""


def words_of(pid):
    """The command line of a process; empty if it has gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def processes(*needles):
    """Numbers of the processes whose command line contains all needles."""
    pids = [int(folder.name) for folder in pathlib.Path("/proc").glob("[0-9]*")]
    lines = {pid: " ".join(words_of(pid)) for pid in pids if pid != os.getpid()}
    return [pid for pid, line in lines.items() if all(needle in line for needle in needles)]


def token_of(job):
    """The token of a job in the status."""
    return job["command"].split()[2]


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Queue:
    def __init__(self, root):
        self.root, self.folder = root, root / "q"
        self.script, self.ledger = root / "job.sh", root / "ledger"
        self.script.write_text(JOB)
        self.env = dict(os.environ, MT_QUEUE=str(self.folder), LEDGER=str(self.ledger))

    def start(self, *words):
        return subprocess.Popen(["mt", *map(str, words)], env=self.env, cwd=self.root, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def mt(self, *words):
        process = self.start(*words)
        out, error = process.communicate(timeout=STUCK)
        return process.returncode, out, error

    def job(self, token, seconds):
        return ["--", "bash", self.script, token, seconds]

    def status(self):
        code, out, error = self.mt("status", "--all", "--json")
        assert code == 0, error
        return json.loads(out)["jobs"]

    def server(self):
        """Of the server and of its guard, which has the run directory in its command line."""
        try:
            run = (self.folder / "run").read_text().strip()
        except OSError:
            run = None
        guards = processes("mt", run) if run else []
        return processes("mt", "serve", str(self.folder)), guards

    def lines(self):
        """(word, token, pid, time) of each line of the ledger."""
        try:
            text = self.ledger.read_text()
        except OSError:
            return []
        return [(w, t, int(p), float(s)) for w, t, p, s in map(str.split, text.splitlines())]


class Kills:
    KINDS = ["server", "server", "guard", "both", "both", "client", "job", "all"]

    def __init__(self, queue, draw):
        self.queue, self.draw = queue, draw
        self.confirmed, self.requests, self.execs = {}, [], []
        self.cancelled, self.hit, self.kills = {}, set(), []
        self.gap = 0.0
        self.faults, self.count = collections.Counter(), collections.Counter()

    def fault(self, kind, what):
        self.faults[kind] += 1
        print(f"{kind}: {what}", flush=True)

    def round(self, n):
        queue, draw = self.queue, self.draw
        names = [f"r{n}{letter}" for letter in "abc"]
        seconds = draw.choice(["0.05", "0.2", "0.4"])
        clients = {"sweep": queue.start("sweep", "--", "bash", queue.script, "{t}", "{d}", ":::",
                                        "t=" + ",".join(names), f"d={seconds}"),
                   "add": queue.start("add", *queue.job(f"r{n}d", "0.3"))}
        self.requests += [names, [f"r{n}d"]]
        for letter in "ef":
            clients[letter] = queue.start("exec", *queue.job(f"r{n}{letter}", "0.2"))
            self.execs.append(f"r{n}{letter}")
        ids = sorted(self.confirmed)[-6:]
        if ids and draw.random() < 0.4:
            clients["wait"] = queue.start("wait", *ids)
        if ids and draw.random() < 0.4:
            clients["cancel"] = queue.start("cancel", *draw.sample(ids, 1), ids[-1])
        if draw.random() < 0.1:
            clients["stop"] = queue.start("queue", "--stop")
        time.sleep(draw.random() * 0.8)
        killed = self.kill(draw.choice(self.KINDS), clients)
        for name, client in clients.items():
            self.reap(n, name, client, names, killed)

    def kill(self, kind, clients):
        servers, guards = self.queue.server()
        killed = draw_one(self.draw, clients) if kind in ("client", "all") else None
        pids = {"server": servers, "guard": guards, "both": servers + guards, "client": [],
                "all": servers + guards, "job": self.jobs()[:1]}[kind]
        if kind == "job":
            self.hit |= {token for pid in pids for token in words_of(pid)[2:3]}
        kill(pids)
        if killed:
            clients[killed].kill()
            # A program that is killed while it waits leaves the queue.
            self.hit |= {clients[killed].args[5]} if clients[killed].args[1] == "exec" else set()
        self.kills.append(time.time())
        self.count[kind if pids or killed else "nothing there"] += 1
        return killed

    def jobs(self):
        """Processes that are jobs: those of clients have the command of their job in their own."""
        script = str(self.queue.script)
        clients = set(processes("mt ", " -- bash", script))
        return [pid for pid in processes("bash", script) if pid not in clients]

    def reap(self, n, name, client, names, killed):
        try:
            out, error = client.communicate(timeout=STUCK)
        except subprocess.TimeoutExpired:
            self.fault("stuck", f"{client.args}")
            return client.kill()
        if name == killed:
            return
        if name == "add" and client.returncode == 0:
            number = int(out)
            if number in self.confirmed:
                self.fault("number", f"{number} for {self.confirmed[number]} and r{n}d")
            self.confirmed[number] = f"r{n}d"
        elif name == "sweep" and client.returncode in (0, 1):
            self.requests.append(("confirmed", names))
        elif name == "cancel" and client.returncode == 0:
            for number in map(int, client.args[2:]):
                self.cancelled.setdefault(self.confirmed[number], time.time())
        elif client.returncode not in (0, 1, 137, -9):
            # Those of a stopped server start another; a killed one of others ends by its signal.
            if name not in ("e", "f", "cancel", "stop"):
                self.fault("stuck", f"{client.args}: {client.returncode}: {error}")

    def judge(self):
        queue = self.queue
        try:
            queue.mt("wait")
        except subprocess.TimeoutExpired:
            self.fault("stuck", "mt wait")
        jobs = queue.status()
        by_id = {job["id"]: job for job in jobs}
        by_token = {token_of(job): job for job in jobs}
        if len(by_id) != len(jobs) or len(by_token) != len(jobs):
            self.fault("number", f"{len(jobs)} jobs, {len(by_id)} numbers, {len(by_token)} commands")
        for number, token in self.confirmed.items():
            if number not in by_id or token_of(by_id[number]) != token:
                self.fault("lost", f"{number}, {token}")
        for request in self.requests:
            sure = request[0] == "confirmed"
            names = request[1] if sure else request
            known = sum(name in by_token for name in names)
            if known < len(names) and (known or sure):
                self.fault("half" if known else "lost", f"{names}")
        lines = queue.lines()
        self.judge_jobs(by_token, lines)
        for pid in processes(str(queue.script)):
            self.fault("orphan", f"{pid}")

    def judge_jobs(self, by_token, lines):
        times = collections.defaultdict(lambda: collections.defaultdict(list))
        for word, token, _, at in lines:
            times[token][word].append(at)
            if word == "twice":
                self.fault("twice", token)
        for token, job in by_token.items():
            state, seen = job["state"], times[token]
            if state in ("waiting", "running"):
                self.fault("open", f"{token} {state}")
            if state == "done" and not seen["end"]:
                self.fault("false", token)
            told = token in self.cancelled or token in self.hit or state in ("skipped", "left")
            if not seen["end"] and not told:
                self.fault("lost", f"{token} {job}")
            if state == "skipped":
                self.count["given up after three deaths"] += 1
        for token, seen in times.items():
            self.judge_again(token, seen)
        for token in self.execs:
            if len(times[token]["begin"]) > 1:
                self.fault("twice", f"exec {token}")
        for token, at in self.cancelled.items():
            if any(begin > at + LAG for begin in times[token]["begin"]):
                self.fault("cancelled", token)

    def judge_again(self, token, seen):
        """A job that had ended and began again: how far from its end was the nearest kill?"""
        if not seen["end"] or max(seen["begin"]) < min(seen["end"]):
            return
        gap = min(abs(at - min(seen["end"])) for at in self.kills)
        self.count["again within the window"] += gap <= WINDOW
        self.gap = max(self.gap, gap)
        if gap > WINDOW:
            self.fault("again", f"{token}: its end was {gap:.2f} s from a kill")


def draw_one(draw, clients):
    alive = [name for name, client in clients.items() if client.poll() is None]
    return draw.choice(alive) if alive else None


def cuts(queue, draw, faults, count):
    """Opens one journal, cut after every record and within the next, in folders of their own."""
    names = [f"c{n}" for n in range(6)]
    queue.mt("pause")
    queue.mt("add", *queue.job("c6", "0.01"))
    queue.mt("add", *queue.job("c7", "0.01"))
    queue.mt("cancel", "2", "1-2" if draw.random() < 0.5 else "2")
    queue.mt("pause", "--off")
    sweep = queue.start("sweep", "--", "bash", queue.script, "{t}", "0.05", ":::", "t=" + ",".join(names))
    time.sleep(draw.random() * 0.5)
    kill(queue.server()[0])
    sweep.communicate(timeout=STUCK)
    kill(queue.server()[0])
    lines = (queue.folder / "journal.ndjson").read_bytes().splitlines(keepends=True)
    for cut in range(len(lines) + 1):
        # Not up to the end of the line: without it the record is whole.
        part = lines[cut][:draw.randrange(len(lines[cut]) - 1)] if cut < len(lines) else b""
        root = queue.root / f"cut{cut}"
        root.mkdir()
        new = Queue(root)
        new.folder.mkdir(mode=0o700)
        text = b"".join(lines[:cut]) + part
        text = text.replace(str(queue.root).encode(), str(root).encode())
        (new.folder / "journal.ndjson").write_bytes(text)
        judge_cut(new, lines[:cut], faults)
        count["cuts of a journal"] += 1
        shutil.rmtree(root)


def judge_cut(queue, records, faults):
    """What stands in the records before the cut must hold, by reading them here and not by the program."""
    known, ended = {}, set()
    for record in map(json.loads, records):
        (word, value), = record.items()
        if word == "added":
            known.update({job["id"]: job["argv"][2] for job in value["jobs"]})
        elif word == "entry":
            known[value["job"]["id"]] = value["job"]["argv"][2]
            ended |= {value["job"]["id"]} if "ended" in value["state"] else set()
        elif word == "ended":
            ended.add(value["id"])
        elif word == "retried":
            ended.discard(value)
    code, _, error = queue.mt("pause", "--off")
    if code:
        return wrong(faults, "stuck", f"a cut journal: {error}")
    queue.mt("wait")
    jobs = {job["id"]: job for job in queue.status()}
    queue.mt("queue", "--stop")
    runs = collections.Counter(token for word, token, _, _ in queue.lines() if word == "end")
    for number, token in known.items():
        state = jobs.get(number, {}).get("state")
        if state is None:
            wrong(faults, "lost", f"{token} after {len(records)} records")
        elif state in ("waiting", "running"):
            wrong(faults, "open", f"{token} after {len(records)} records")
        if runs[token] > (number not in ended):
            wrong(faults, "again", f"{token} after {len(records)} records")
        if state == "done" and number not in ended and not runs[token]:
            wrong(faults, "false", f"{token} after {len(records)} records")


def wrong(faults, kind, what):
    faults[kind] += 1
    print(f"{kind}: {what}", flush=True)


def main():
    numbers = [int(word) for word in sys.argv[1:]]
    kills, seed, journals = numbers + [500, 1, 10][len(numbers):]
    draw, began = random.Random(seed), time.time()
    with tempfile.TemporaryDirectory(prefix="mt-kills-") as root:
        queue = Queue(pathlib.Path(root))
        queue.mt("queue", "--device", "cpu", "--most", "4")
        run = Kills(queue, draw)
        for n in range(kills):
            run.round(n)
        run.judge()
        queue.mt("queue", "--stop")
        for number in range(journals):
            folder = pathlib.Path(root, f"journal{number}")
            folder.mkdir()
            one = Queue(folder)
            one.mt("queue", "--device", "cpu", "--most", "2")
            cuts(one, draw, run.faults, run.count)
            shutil.rmtree(folder)
    jobs = len(run.requests) and sum(len(r) for r in run.requests if r[0] != "confirmed")
    print(f"{kills} kills, seed {seed}: {jobs} jobs and {len(run.execs)} programs in {time.time() - began:.0f} s")
    for what, times in sorted(run.count.items()):
        print(f"  {what}: {times}")
    print(f"  longest time from an end that was forgotten to a kill: {run.gap:.2f} s")
    print("faults:", dict(run.faults) or "none")
    sys.exit(bool(run.faults))


if __name__ == "__main__":
    main()
