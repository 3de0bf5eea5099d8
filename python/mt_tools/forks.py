"""Imports packages once, and runs training scripts in forks of itself. Needs only Python and Linux.

    python3 -m mt_tools.forks --import torch,transformers -- mt-profile workload.json

It imports the packages, runs the command, and ends when that does. Jobs that say so are forked:

    "job": {"argv": ["python3", "-m", "mt_tools.forked", "train.py", "--net", "big"]}

A measured co-run then waits for a fork instead of the imports. The packages must not use a GPU while they are
imported, as a fork cannot use it then; PyTorch and TensorFlow do not. A fork joins the control group of its job and
takes its environment, folder, processors, priority and umask. Variables that a package reads when it is imported
(OMP_NUM_THREADS) are those of this process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
from typing import Dict, List, Optional, Sequence, Tuple

from .forked import ADDRESS, run

PATIENCE_S = 5.0
"""A client sends its request at once; one that does not must not keep the others waiting."""


def _groups(pid: str) -> Dict[str, str]:
    """Control groups of a process, by their controllers."""
    with open(f"/proc/{pid}/cgroup") as file:
        return {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in file}


def _folder(controllers: str, group: str) -> str:
    """Where a control group is mounted."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for mount in mounts:
        root, at, kind, options = mount[3], mount[4], mount[mount.index("-") + 1], mount[-1].split(",")
        mine = kind == "cgroup2" if not controllers else kind == "cgroup" and set(controllers.split(",")) <= set(options)
        if mine and (group + "/").startswith(root.rstrip("/") + "/"):
            return os.path.join(at, group[len(root.rstrip("/")):].lstrip("/"))
    raise OSError(f"{controllers or 'cgroup2'} is not mounted")


def _join(client: int) -> None:
    """Moves this process into the control groups of another: they hold its share and its limits."""
    own = _groups("self")
    for controllers, group in _groups(str(client)).items():
        if own.get(controllers) == group:
            continue
        try:
            with open(os.path.join(_folder(controllers, group), "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))
        except OSError as error:
            sys.exit(f"mt_tools.forks: cannot join the control group {group} of the job, which holds its share: {error}")


class Forks:
    """Forks one process for each request."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.running: Dict[int, socket.socket] = {}

    def serve(self, command: Sequence[str]) -> Tuple[Optional[List[str]], int]:
        """Runs the command, and the requests meanwhile. Returns in each fork, with what it is to run, and at the end,
        with the status of the command."""
        ended, wakes = os.pipe()
        for end in (ended, wakes):
            os.set_blocking(end, False)
        # The handler exists so that the wake-up descriptor is written to.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        environment = {**os.environ, ADDRESS: self.listener.getsockname()}
        main = os.posix_spawnp(command[0], command, environment)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(main, number))
        while True:
            ready, _, _ = select.select([self.listener, ended], [], [])
            if ended in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(ended, 1024)
                status = self._reap(main)
                if status is not None:
                    return None, status
            if self.listener in ready:
                argv = self._fork((ended, wakes))
                if argv:
                    return argv, 0

    def _reap(self, main: int) -> Optional[int]:
        """Tells clients how their scripts ended; returns the status of the command if that has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                if pid == main:
                    return code
                with self.running.pop(pid) as client, contextlib.suppress(OSError):
                    client.sendall(f"{code}\n".encode())
        return None

    def _fork(self, wake: Tuple[int, int]) -> Optional[List[str]]:
        """Takes a request. Returns what to run in the fork, and nothing here."""
        client, _ = self.listener.accept()
        client.settimeout(PATIENCE_S)
        fds: List[int] = []
        try:
            text, fds, _, _ = socket.recv_fds(client, 1 << 16, 3)
            while text and not text.endswith(b"\n"):
                more = client.recv(1 << 16)
                text = text + more if more else b""
            if not text or len(fds) != 3:
                client.close()
                return None
            pid = os.fork()
            if pid == 0:
                for other in (self.listener, *self.running.values()):
                    other.close()
                for end in wake:
                    os.close(end)
                return _become(json.loads(text), fds, client)
            self.running[pid] = client
            client.sendall(f"{pid}\n".encode())
        except OSError:
            pass  # The client has gone, and with it whatever it asked for.
        finally:
            for fd in fds:
                os.close(fd)
        return None

    def end(self) -> None:
        """Kills what is left: its clients belonged to the command, which has ended."""
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _become(request: dict, fds: Sequence[int], client: socket.socket) -> List[str]:
    """Makes this fork what the client would be; returns what to run."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    client.settimeout(None)
    (pid, _, _) = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    _join(pid)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    os.sched_setaffinity(0, request["processors"])
    os.setpriority(os.PRIO_PROCESS, 0, request["nice"])

    def die_with_it() -> None:
        # A client never sends anything more: this returns when it has ended.
        with contextlib.suppress(OSError):
            client.recv(1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=die_with_it, daemon=True).start()
    return request["argv"]


def main() -> None:
    """The command line."""
    what = "Runs a command whose Python jobs are forks of a process that has imported their packages."
    parser = argparse.ArgumentParser(prog="python3 -m mt_tools.forks", description=what)
    parser.add_argument("--import", dest="packages", default="", metavar="NAME,...",
                        help="packages to import before the command starts")
    parser.add_argument("command", nargs=argparse.REMAINDER,
                        help="the command; its jobs are started by python3 -m mt_tools.forked")
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("give a command")
    # The tools give this to jobs, but a fork gets its variables after OpenMP has read its own.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    for name in filter(None, args.packages.split(",")):
        try:
            importlib.import_module(name)
        except ImportError as error:
            parser.error(f"--import {name}: {error}")
    owner = os.getpid()
    folder = tempfile.mkdtemp(prefix="mt-forks-")
    try:
        argv, status = _serve(os.path.join(folder, "socket"), command)
    except FileNotFoundError:
        parser.error(f"{command[0]}: no such program")
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)
    if argv:
        # The last thing that a fork does, so that its own handlers run at exit.
        return run(argv)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def _serve(address: str, command: Sequence[str]) -> Tuple[Optional[List[str]], int]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    forks = Forks(listener)
    told = forks.serve(command)
    if not told[0]:
        forks.end()
    return told


if __name__ == "__main__":
    main()
