"""Flower simulations whose number of clients at once is found instead of typed: no `num_cpus`, no `num_gpus`.

    python3 -m mt_tools.flower run APP --supernodes 40      an app, as `flwr run` takes it
    python3 -m mt_tools.flower together A B C --supernodes 40     several at once, each as soon as it can
    import mt_tools.flower; mt_tools.flower.install()       or one line before `run_simulation(...)` in a script

The first clients that train show how much memory and how many processors a client takes; as many as fit are trained at
once, and the number is adjusted while the simulation runs. Clients, server and strategy are unchanged. Tested with
Flower 1.42 on processors; on GPUs (`flower_gpus`) with a stand-in for NVIDIA's library only.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

try:
    import ray
    from flwr.server.superlink.fleet.vce.backend import raybackend
    from flwr.simulation.ray_transport.ray_actor import VirtualClientEngineActor
    from ray.exceptions import OutOfMemoryError, RayActorError, RayError
except ImportError as error:
    needed = f"this needs Flower's simulation: pip install 'flwr[simulation]' ({error})"
    if __name__ == "__main__":
        print(f"mt: {needed}", file=sys.stderr)
        sys.exit(3)
    raise ImportError(needed) from error

from . import gpus
from .memory import anonymous, free_and_total, kills
from .sizing import Sizer

#: Seconds between two looks at memory and processors.
LOOK_S = 0.1
#: Flower has a thread for each piece of work that it gives out, in a pool of Python's: `min(32, processors + 4)`. More
#: than that are not at work at once.
THREADS = 32
#: Where an app finds the program that runs it beside others: a socket, a key and its own number.
PLACE = "MT_TOGETHER"


class Usage:
    """What the process used between two moments."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.cpu, self.waited = self._now()

    @staticmethod
    def _now() -> Tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        waited = 0.0
        with contextlib.suppress(OSError, IndexError, ValueError):
            # Nanoseconds on a processor, nanoseconds ready to run, times that it ran: of the thread that trains.
            waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9
        return used.ru_utime + used.ru_stime, waited

    def end(self) -> Dict[str, float]:
        seconds = time.monotonic() - self.begin
        cpu, waited = self._now()
        # As if no other process had taken a processor from it meanwhile.
        alone = max(seconds - (waited - self.waited), 0.01 * seconds, 1e-6)
        return {
            "seconds": alone,
            "wanted_s": cpu - self.cpu,
            "before_s": self.cpu,
            "peak": anonymous(os.getpid())[1],
        }


@ray.remote(max_restarts=0)
class Actor(VirtualClientEngineActor):
    """Flower's actor, which also tells what a message took."""

    def load(self, app_fn: Any, env: Dict[str, str]) -> int:
        """Loads the app and its libraries; gives the process. The driver of a GPU reads `env` when it is first used."""
        self.env = env
        os.environ.update(env)
        app_fn()
        return os.getpid()

    def measured(self, app_fn: Any, message: Any, cid: str, context: Any) -> Tuple[Any, Any, Dict[str, float]]:
        # Ray sets the variables of GPUs before each call.
        os.environ.update(self.env)
        usage = Usage()
        _, reply, context = self.run(app_fn, message, cid, context)
        return reply, context, usage.end()


class Worker:
    """An actor and its process, which is known once it has loaded the app."""

    def __init__(self, number: int, options: Dict[str, Any], app_fn: Any, env: Dict[str, str]) -> None:
        self.number, self.env = number, env
        self.actor = Actor.options(**options).remote()
        self.asked = self.actor.load.remote(app_fn, env)
        self._pid: Optional[int] = None

    @property
    def pid(self) -> Optional[int]:
        if self._pid is None and ray.wait([self.asked], timeout=0)[0]:
            # An app that cannot be loaded is told by the client that needs it.
            with contextlib.suppress(RayError):
                self._pid = ray.get(self.asked)
        return self._pid

    def bytes(self) -> int:
        return anonymous(self.pid)[0] if self.pid else 0


def starting_ray(start: Callable[[], None]) -> None:
    """Calls `start`, once more if Ray does not start: on a busy machine its own 30 s do not suffice."""
    try:
        start()
    except Exception:
        ray.shutdown()
        start()


def no_ray(error: Exception) -> int:
    """Says why Ray does not start; gives the exit code."""
    print(f"mt: Ray does not start: {error}", file=sys.stderr, flush=True)
    return 3


class SizedBackend(raybackend.RayBackend):
    """Flower's Ray backend with a number of actors that is found."""

    #: Whether this process has nothing else to do.
    alone = False
    #: The one whose watcher runs.
    watched: Optional[SizedBackend] = None

    def __init__(self, backend_config: Dict[str, Any]) -> None:
        begin = super().__init__
        try:
            starting_ray(lambda: begin(backend_config))
        except Exception as error:
            if self.alone:
                # Flower's server would wait for its clients for ever.
                os._exit(no_ray(error))
            raise
        self.changed = threading.Condition()
        self.idle: List[Worker] = []
        self.at_work: Dict[int, Worker] = {}
        self.waiting = 0
        self.at_once = 0
        self.number = 0
        self.ended = False
        self.watcher: Optional[threading.Thread] = None
        self.free, total = free_and_total()
        self.kills = kills()
        self.sizer = Sizer(float(len(os.sched_getaffinity(0))), total)
        # Flower's default is for its own count. What is left of it here only tells Ray to start no threads of numerical
        # libraries beside the first: clients at once use the processors better than the threads of one.
        gpus = self.client_resources.get("num_gpus", 0)
        self.options: Dict[str, Any] = {"num_cpus": 0.001, "num_gpus": gpus}
        self.most = THREADS
        if gpus:
            self.most = max(1, int(ray.cluster_resources().get("GPU", 0) / gpus))

    # What Flower asks of a backend.

    @property
    def num_workers(self) -> int:
        return min(THREADS, self.most)

    def is_worker_idle(self) -> bool:
        return bool(self.idle)

    def build(self, app_fn: Any) -> None:
        self.app_fn = app_fn
        self.idle = self._first()
        self._watch()

    def process_message(self, message: Any, context: Any) -> Tuple[Any, Any]:
        cid = str(context.node_config[raybackend.PARTITION_ID_KEY])
        worker = self._take()
        try:
            return self._train(worker, message, cid, context)
        except BaseException as error:
            if not self._is_lost(error) or not self._lost(worker, error):
                raise
        # Once: it lacked memory that others had, so that is no fault of the client.
        print("mt: a client ran out of memory beside others, and is trained again", file=sys.stderr, flush=True)
        worker = self._take()
        try:
            return self._train(worker, message, cid, context)
        except BaseException as error:
            if self._is_lost(error):
                self._lost(worker, error)
            raise

    def terminate(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        print(self.summary(), file=sys.stderr, flush=True)
        self._leave()

    # Its own parts.

    def _watch(self) -> None:
        self.watcher = threading.Thread(target=self._look, daemon=True)
        self.watcher.start()
        SizedBackend.watched = self

    def _leave(self) -> None:
        """Shuts Ray down. Meanwhile no thread may ask Ray or drop its last reference to a worker, for which Ray would end
        this process: the watcher has one, and the traceback of a client whose process died is a cycle with another."""
        if self.watcher:
            self.watcher.join()
        gc.collect()
        ray.shutdown()

    def _first(self) -> List[Worker]:
        """Those that load their libraries while the first client trains."""
        return [self._new() for _ in range(min(self.most, max(1, int(self.sizer.processors))))]

    def _new(self) -> Worker:
        self.number += 1
        return Worker(self.number, self.options, self.app_fn, {})

    def _take(self) -> Worker:
        """Waits until one more client may be trained."""
        with self.changed:
            self.waiting += 1
            try:
                while True:
                    worker = self._free_worker(time.monotonic())
                    if worker is not None:
                        self.sizer.started(worker.number, time.monotonic())
                        self.at_work[worker.number] = worker
                        self.at_once = max(self.at_once, len(self.at_work))
                        return worker
                    self.changed.wait(1.0)
            finally:
                self.waiting -= 1

    def _free_worker(self, now: float) -> Optional[Worker]:
        # The last one that was at work has its libraries loaded.
        own = self.idle[-1].bytes() if self.idle else 0
        if not self.sizer.may_start(now, self.free, own):
            # Where memory keeps it waiting, what idle workers hold is given back.
            if self.idle and self.at_work and len(self.at_work) < self.sizer.level() and self.sizer.done:
                ray.kill(self.idle.pop(0).actor)
            return None
        if self.idle:
            return self.idle.pop()
        if len(self.at_work) >= self.most or (self.at_work and not self.sizer.may_create()):
            return None
        return self._new()

    def _train(self, worker: Worker, message: Any, cid: str, context: Any) -> Tuple[Any, Any]:
        """Trains a client; an error of its own is passed on, as Flower does."""
        try:
            reply, context, usage = ray.get(worker.actor.measured.remote(self.app_fn, message, cid, context))
        except BaseException as error:
            if not self._is_lost(error):
                self._failed(worker)
            raise
        self._ended(worker, usage)
        return reply, context

    def _is_lost(self, error: BaseException) -> bool:
        """Whether the worker of a client that failed is not used again."""
        return isinstance(error, (OutOfMemoryError, RayActorError))

    def _failed(self, worker: Worker) -> None:
        with self.changed:
            self.sizer.failed(worker.number)
            self._give_back(worker)

    def _ended(self, worker: Worker, usage: Dict[str, float]) -> None:
        with self.changed:
            # What a process used before its first client is its start.
            self.sizer.start_s = self.sizer.start_s or usage["before_s"]
            self.sizer.ended(worker.number, usage["seconds"], usage["wanted_s"], int(usage["peak"]))
            self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        del self.at_work[worker.number]
        self.idle.append(worker)
        self.changed.notify_all()

    def _lost(self, worker: Worker, error: BaseException) -> bool:
        """A worker has died; whether its client is trained again: memory was short, and it was not alone."""
        with self.changed:
            before, self.kills = self.kills, kills()
            short = isinstance(error, OutOfMemoryError) or self.kills > before
            del self.at_work[worker.number]
            again = short and bool(self.at_work)
            if again:
                self.sizer.out_of_memory(worker.number)
            else:
                self.sizer.failed(worker.number)
            self.changed.notify_all()
        return again

    def _look(self) -> None:
        """Observes memory and processors until the end."""
        last, idle = time.monotonic(), idle_s()
        while not self.ended:
            time.sleep(LOOK_S)
            now, idle_now = time.monotonic(), idle_s()
            with self.changed:
                self.free = free_and_total()[0]
                for worker in self.at_work.values():
                    self.sizer.saw(worker.number, now, worker.bytes())
                self.sizer.look(now - last, (idle_now - idle) / (now - last), self.waiting > 0)
                self._see(now - last)
                self.changed.notify_all()
            last, idle = now, idle_now

    def _see(self, seconds: float) -> None:
        """Observes what else there is; so many seconds have passed."""

    def summary(self) -> str:
        """What was found, and how it is said to Flower itself."""
        sizer = self.sizer
        if not sizer.done:
            return "mt: no client was trained"
        level = min(sizer.level(), self.most, max(1, self.at_once))
        return (f"mt: up to {level} clients at once: one keeps {sizer.wants or 0:.2f} of {sizer.processors:.0f} processors busy and "
                f"takes at most {sizer.peak / 1e6:.0f} MB\n"
                f"mt: for Flower alone: options.backend.client-resources.num-cpus = 1, "
                f"options.backend.init-args.num-cpus = {level}")


def idle_s() -> float:
    """Seconds that the processors of this process were idle so far, all together."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in allowed:
            # Idle, and idle while a disk works.
            ticks += int(fields[3]) + int(fields[4])
    return ticks / os.sysconf("SC_CLK_TCK")


def install() -> None:
    """Lets every simulation of this process find its number of clients at once."""
    from . import flower_gpus

    raybackend.RayBackend = flower_gpus.backend


def end(number: int, _frame: Any) -> None:
    """Ends a simulation with everything that it started. Flower's server would wait for its clients for ever."""
    if SizedBackend.watched:
        # The watcher asks Ray only under this lock. Asked while it shuts down, Ray would end this process with 1.
        SizedBackend.watched.changed.acquire(timeout=1.0)
    ray.shutdown()
    os._exit(128 + number)


def run(app: Path, supernodes: int, overrides: List[str], sized: bool = True, backend: Optional[Dict[str, Any]] = None) -> None:
    """Runs a Flower app as a simulation in this process."""
    from flwr.app import Context, RecordDict
    from flwr.common.config import get_project_config, get_fused_config_from_dir, parse_config_args
    from flwr.simulation.run_simulation import _run_simulation
    from flwr.supercore.constant import NOOP_FEDERATION_ID
    from flwr.supercore.run import Run
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supercore.telemetry import EventType

    if PLACE in os.environ:
        from . import together

        together.install(os.environ[PLACE])
    elif sized:
        install()
        if backend is None and gpus.visible():
            # Any number above 0 says that clients use GPUs; how many share one is found.
            backend = {"client_resources": {"num_cpus": 1, "num_gpus": 1}}
    components = get_project_config(app)["tool"]["flwr"]["app"]["components"]
    override = parse_config_args(overrides or None)
    run = Run.create_empty(run_id=1)
    run.primary_task_id, run.federation_id, run.override_config = 1, NOOP_FEDERATION_ID, override
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(),
                      run_config=get_fused_config_from_dir(app, override))
    SizedBackend.alone = True
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    # Actors import the app, too.
    sys.path.insert(0, str(app))
    _run_simulation(
        num_supernodes=supernodes, client_app_attr=components["clientapp"], server_app_attr=components["serverapp"],
        server_app_context=context, app_dir=str(app), is_app=True, run=run, backend_config=backend or {},
        exit_event=EventType.PYTHON_API_RUN_SIMULATION_LEAVE)


def count(text: str) -> int:
    """Parses a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of clients, 1 or more")
    return int(text)


def main(words: Optional[List[str]] = None) -> None:
    from . import together

    from flwr.common.config import get_project_config

    parser = argparse.ArgumentParser(prog="python3 -m mt_tools.flower", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command", metavar="run|together")
    command = commands.add_parser("run", help="run an app as a simulation")
    command.add_argument("app", type=Path, help="folder with the app's pyproject.toml")
    command.add_argument("--supernodes", type=count, required=True, metavar="N", help="number of virtual clients")
    command.add_argument("--run-config", action="append", default=[], metavar="'K=V ...'", help="as flwr run has it")
    several = commands.add_parser("together", help="run several apps at once")
    together.options(several)
    arguments = parser.parse_args(words)
    for app in arguments.apps if arguments.command == "together" else [arguments.app]:
        if not (app / "pyproject.toml").is_file():
            parser.error(f"{app} has no pyproject.toml; name the folder of a Flower app")
        try:
            get_project_config(app)
        except Exception as error:
            parser.error(f"{app / 'pyproject.toml'}: {error}")
    if arguments.command == "together":
        together.command(several, arguments)
    run(arguments.app.resolve(), arguments.supernodes, arguments.run_config)


if __name__ == "__main__":
    # Actors find their class in the module, not in the program that was started.
    from mt_tools import flower

    flower.main()
