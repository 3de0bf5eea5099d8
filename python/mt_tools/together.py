"""Several Flower federations on one machine: `python3 -m mt_tools.flower together APP APP ...`.

Each app is a process of its own, with its own server and clients, on one Ray. Before a client trains, its app asks this
program, which decides by `division`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import ray
from flwr.server.superlink.fleet.vce.backend import raybackend
from flwr.superlink.grid import InMemoryGrid
from ray.exceptions import OutOfMemoryError

from . import flower
from .division import Division
from .memory import free_and_total, kills

#: Seconds that an app has to end its own processes.
GRACE_S = 10.0


class Link(BaseManager):
    """Calls from the apps to the division."""


class Host(Division):
    """A division with a Ray, which starts meanwhile."""

    address = ""

    def ray(self) -> str:
        """Where Ray is, once it has started."""
        with self.changed:
            self.changed.wait_for(lambda: self.address)
            return self.address

    def started(self, address: str) -> None:
        with self.changed:
            self.address = address
            self.changed.notify_all()


# The app's side.


class SharedBackend(flower.SizedBackend):
    """Flower's Ray backend whose clients start when the division says so."""

    division: Any
    #: The app's number.
    own: int

    def __init__(self, backend_config: Dict[str, Any]) -> None:
        # Ray is there already, and its size is not that of one app.
        told = backend_config.get("init_args", {})
        kept = {key: told[key] for key in ("logging_level", "log_to_driver") if key in told}
        super().__init__({**backend_config, "init_args": {**kept, "address": self.division.ray()}})
        self.workers: Dict[int, flower.Worker] = {}
        self.turn = threading.Lock()

    def build(self, app_fn: Any) -> None:
        self.app_fn = app_fn
        self._worker(self.division.join(self.own))
        self._watch()

    def is_worker_idle(self) -> bool:
        return len(self.at_work) < len(self.workers)

    def _worker(self, number: int) -> flower.Worker:
        with self.changed:
            if number not in self.workers:
                self.workers[number] = flower.Worker(number, self.options, self.app_fn, {})
            return self.workers[number]

    def _take(self) -> flower.Worker:
        with self.turn:
            number = None
            while number is None:
                number = self.division.take(self.own)
            worker = self._worker(number)
            self.at_work[number] = worker
            return worker

    def _ended(self, worker: flower.Worker, usage: Dict[str, float]) -> None:
        del self.at_work[worker.number]
        self.division.ended(self.own, worker.number, usage)

    def _failed(self, worker: flower.Worker) -> None:
        del self.at_work[worker.number]
        self.division.failed(self.own, worker.number)

    def _lost(self, worker: flower.Worker, error: BaseException) -> bool:
        before, self.kills = self.kills, kills()
        short = isinstance(error, OutOfMemoryError) or self.kills > before
        del self.at_work[worker.number], self.workers[worker.number]
        return bool(self.division.lost(self.own, worker.number, short))

    def _look(self) -> None:
        while not self.ended:
            time.sleep(flower.LOOK_S)
            with self.changed:
                sizes = {number: worker.bytes() for number, worker in self.workers.items()}
                for number in self.division.saw(self.own, sizes):
                    ray.kill(self.workers.pop(number).actor)

    def terminate(self) -> None:
        self.ended = True
        self._leave()


class TellingGrid(InMemoryGrid):
    """Flower's grid, which also tells how many messages a server sends at once."""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        if messages:
            SharedBackend.division.send(SharedBackend.own, len(messages), messages[0].metadata.group_id)
        return super().push_messages(messages)


def tell_rounds(kind: Any, method: str) -> None:
    """Lets a strategy or a server of Flower tell the number of rounds that it is started with."""
    start = getattr(kind, method)

    @functools.wraps(start)
    def told(*args: Any, **words: Any) -> Any:
        bound = inspect.signature(start).bind(*args, **words)
        bound.apply_defaults()
        SharedBackend.division.tell_rounds(SharedBackend.own, bound.arguments["num_rounds"])
        return start(*args, **words)

    setattr(kind, method, told)


def install(place: str) -> None:
    """Lets the simulation of this process ask before a client trains."""
    from flwr.server import Server
    from flwr.serverapp.strategy import Strategy

    socket, key, number = place.split(",")
    Link.register("division")
    link = Link(f"\0{socket}", bytes.fromhex(key))
    link.connect()
    SharedBackend.division = link.division()  # type: ignore[attr-defined]
    SharedBackend.own = int(number)
    raybackend.RayBackend = SharedBackend
    # A function of that name hides the module.
    sys.modules["flwr.simulation.run_simulation"].InMemoryGrid = TellingGrid  # type: ignore[attr-defined]
    tell_rounds(Strategy, "start")
    tell_rounds(Server, "fit")


# This program's side.


def names(apps: Sequence[Path]) -> List[str]:
    """The names of their folders, numbered where one is there twice."""
    found = [app.name for app in apps]
    return [name if found.count(name) == 1 else f"{name}-{found[:number + 1].count(name)}" for number, name in enumerate(found)]


def follow(name: str, app: Any, number: int, division: Division, last: Dict[int, Tuple[float, str]]) -> None:
    """Passes on what an app prints, with its name, until it has ended."""
    for line in app.stdout:
        print(f"[{name}] {line}", end="", flush=True)
    app.wait()
    sizer = division.federations[number].sizer
    last[number] = time.monotonic() - division.begin, (
        f"one client keeps {sizer.wants or 0:.2f} processors busy and takes at most {sizer.peak / 1e6:.0f} MB")
    division.leave(number)


def run(apps: Sequence[Path], supernodes: Sequence[int], weights: Sequence[float], overrides: Sequence[str]) -> int:
    """Runs apps at once; 0 if all of them end well, else 1."""
    processors = float(len(os.sched_getaffinity(0)))
    division = Host(processors, free_and_total()[1], weights)
    started: List[Any] = []
    threads: List[threading.Thread] = []
    last: Dict[int, Tuple[float, str]] = {}
    # A socket without a file: there is nothing to remove.
    socket, key = f"mt-together-{os.getpid()}", secrets.token_bytes(16)
    Link.register("division", callable=lambda: division)
    server = Link(f"\0{socket}", key).get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for number, (app, name) in enumerate(zip(apps, names(apps))):
            # Their starts compute: the first ones can train while others start.
            while len(threads) - sum(number in division.begun or number in last for number in range(len(apps))) >= processors:
                rest(division)
            words = [sys.executable, "-m", "mt_tools.flower", "run", str(app), "--supernodes", str(supernodes[number])]
            words += ["--run-config", overrides[number]] if overrides[number] else []
            env = {**os.environ, flower.PLACE: f"{socket},{key.hex()},{number}"}
            started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                            start_new_session=True, env=env))
            threads.append(threading.Thread(target=follow, args=(name, started[-1], number, division, last), daemon=True))
            threads[-1].start()
            if not ray.is_initialized():
                # Workers that Ray starts ahead have the environment of no app.
                os.environ["RAY_prestart_worker_first_driver"] = "0"
                try:
                    flower.starting_ray(lambda: ray.init(include_dashboard=False, logging_level="error", log_to_driver=False))
                except Exception as error:
                    sys.exit(flower.no_ray(error))
                division.started(ray.get_runtime_context().gcs_address)
        while any(thread.is_alive() for thread in threads):
            rest(division)
    finally:
        end(started)
        ray.shutdown()
    for number, name in enumerate(names(apps)):
        seconds, found = last[number]
        predicted = (division.predicted or {}).get(number)
        print(f"mt: {name}: {seconds:.1f} s" + (f" (predicted {predicted:.1f} s)" if predicted else "") + f"; {found}",
              file=sys.stderr, flush=True)
    return int(any(app.returncode for app in started))


def rest(division: Division) -> None:
    time.sleep(flower.LOOK_S)
    division.look(free_and_total()[0])


def end(apps: Sequence[Any]) -> None:
    """Ends what still runs."""
    for app in apps:
        if app.poll() is None:
            app.terminate()
    until = time.monotonic() + GRACE_S
    for app in apps:
        with contextlib.suppress(subprocess.TimeoutExpired):
            app.wait(max(0.1, until - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(app.pid, signal.SIGKILL)
        app.wait()


def each(parser: argparse.ArgumentParser, option: str, values: Sequence[Any], count: int) -> List[Any]:
    """One value for each app, where one for all may be given."""
    if len(values) not in (1, count):
        parser.error(f"{option} has {len(values)} values for {count} apps: give one for all, or one for each")
    return list(values) * (count // len(values))


def numbers(kind: Any) -> Any:
    """Parses a list of positive numbers."""
    def parse(text: str) -> List[Any]:
        try:
            values = [kind(word) for word in text.split(",")]
        except ValueError:
            values = []
        if not values or not all(0 < value < float("inf") for value in values):
            raise argparse.ArgumentTypeError(f"'{text}' is not a list of positive numbers such as 40 or 3,1,1")
        return values
    return parse


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("apps", type=Path, nargs="+", metavar="APP", help="folders with a pyproject.toml")
    parser.add_argument("--supernodes", type=numbers(int), required=True, metavar="N[,N...]",
                        help="number of virtual clients, for all or for each app")
    parser.add_argument("--weights", type=numbers(float), default=[1.0], metavar="W[,W...]",
                        help="how much an earlier end is worth, for each app (1)")
    parser.add_argument("--run-config", action="append", metavar="'K=V ...'",
                        help="as flwr run has it, for all; or once for each app, in their order")


def command(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    count = len(arguments.apps)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    sys.exit(run([app.resolve() for app in arguments.apps], each(parser, "--supernodes", arguments.supernodes, count),
                 each(parser, "--weights", arguments.weights, count),
                 each(parser, "--run-config", arguments.run_config or [""], count)))

