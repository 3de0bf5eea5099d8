"""Runs a training script as a fork of a process that has imported its packages already.

    python3 -m mt_tools.forked train.py --net big

Under `python3 -m mt_tools.forks` (see there) the script runs in a fork of that process: its imports are done. This
process stands for it: it passes signals on and ends as the script does; if it is killed, so is the script. Elsewhere
it runs the script itself.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
from typing import List

ADDRESS = "PYTHON_FORKS"
"""Variable with the address of the process that forks. The tools pass variables of Python on to jobs."""

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def run(argv: List[str]) -> None:
    """Runs a script as `python3 SCRIPT ...` does."""
    sys.argv = argv
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    runpy.run_path(argv[0], run_name="__main__")


def _elsewhere(address: str, argv: List[str]) -> None:
    """Has the script run by the process at `address`, and ends as it does."""
    with socket.socket(socket.AF_UNIX) as forks:
        try:
            forks.connect(address)
        except OSError as error:
            sys.exit(f"{ADDRESS}={address}: {error}; is python3 -m mt_tools.forks still running?")
        umask = os.umask(0)
        os.umask(umask)
        request = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ), "umask": umask,
                   "nice": os.getpriority(os.PRIO_PROCESS, 0), "processors": list(os.sched_getaffinity(0))}
        text = json.dumps(request).encode() + b"\n"
        # Until its process is known, a signal ends this one, and the script with it.
        sent = socket.send_fds(forks, [text], [0, 1, 2])
        forks.sendall(text[sent:])
        told = forks.makefile()
        pid = told.readline()
        if pid:
            for number in PASSED_ON:
                signal.signal(number, lambda number, _: os.kill(int(pid), number))
        status = told.readline()
    if not status:
        sys.exit("python3 -m mt_tools.forks has gone")
    if int(status) < 0:
        signal.signal(-int(status), signal.SIG_DFL)
        os.kill(os.getpid(), -int(status))
    # The script has flushed its own streams; this process has nothing to flush.
    os._exit(int(status))


def main() -> None:
    """The command line."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("usage: python3 -m mt_tools.forked SCRIPT [ARGUMENT ...]", file=sys.stderr)
        sys.exit(2)
    address = os.environ.get(ADDRESS)
    if address:
        _elsewhere(address, sys.argv[1:])
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
