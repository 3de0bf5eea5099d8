"""The worker protocol of mt-tools for a training script. Needs nothing but Python.

    from worker_protocol import Worker

    worker = Worker.from_environment()
    ...build the model, warm up...
    worker.ready(mps=True, sms=52)
    worker.train(step, drain)

`step(batch)` starts one training step and returns what was finished meanwhile, as pairs (samples,
loss): a GPU works on steps that were started a while ago, and a step may only be reported once it
is done. `drain()` waits for everything that was started and returns it in the same form.

Alone (MT_POOL unset) the script trains until MT_SAMPLES is reached, or until it is stopped. With
MT_POOL=1 it obeys lines on standard input: run, park, batch N, quit; the end of input is quit. After
`task ROUND RANK`, which mt-cluster says before every task of a schedule, MT_SAMPLES are those of this
task: the worker says `done`, calls `synchronise(ROUND, RANK)` if the script has given one, says `parked`,
and waits for the next.
"""

import collections
import json
import math
import os
import queue
import sys
import threading


def _read_lines(stream, lines):
    for line in stream:
        lines.put(line.split())
    lines.put(["quit"])


class Worker:
    def __init__(self, batch, samples=None, pool=False, stdin=None, stdout=None):
        self.batch = batch
        self.samples = samples
        self.pool = pool
        self.trained = 0
        self.running = not pool
        self.synchronise = None
        self._task = None
        self._out = stdout or sys.stdout
        self._orders = queue.Queue()
        if pool:
            source = stdin or sys.stdin
            threading.Thread(target=_read_lines, args=(source, self._orders), daemon=True).start()

    @classmethod
    def from_environment(cls, batch=None):
        """Reads MT_BATCH_SIZE, MT_SAMPLES and MT_POOL; `batch` holds where the first is unset."""
        env = os.environ
        size = int(env.get("MT_BATCH_SIZE") or batch or 64)
        samples = int(env["MT_SAMPLES"]) if env.get("MT_SAMPLES") else None
        return cls(size, samples, env.get("MT_POOL", "") not in ("", "0"))

    def tell(self, **members):
        print(json.dumps(members, separators=(",", ":")), file=self._out, flush=True)

    def ready(self, mps=None, sms=None):
        """Says that the script is warm and what it sees of its share."""
        more = {k: v for k, v in (("mps", mps), ("sms", sms)) if v is not None}
        self.tell(mt="ready", **more)

    def _report(self, finished):
        for samples, loss in finished:
            self.trained += samples
            # JSON has no NaN: a loss that has diverged is left out.
            more = {"loss": loss} if loss is not None and math.isfinite(loss) else {}
            self.tell(mt="step", samples=samples, **more)

    def train(self, step, drain):
        """Trains until the samples are done or the orders end, then says `done`."""
        started = 0
        while True:
            order = self._next_order()
            if order is None:
                size = self.batch
                if self.samples is not None:
                    # The last step is short if need be, so that the count is met exactly.
                    size = min(size, self.samples - started)
                    if size <= 0 and self._task:
                        started = 0
                        self._end_task(drain)
                        continue
                    if size <= 0:
                        break
                started += size
                self._report(step(size))
            elif order[0] == "run":
                self.running = True
            elif order[0] == "park":
                self.running = False
                self._report(drain())
                self.tell(mt="parked")
            elif order[0] == "task" and len(order) == 3 and all(w.isdigit() for w in order[1:]):
                self._task = int(order[1]), int(order[2])
                self.trained = 0
            elif order[0] == "batch" and len(order) == 2 and order[1].isdigit() and int(order[1]):
                self.batch = int(order[1])
            elif order[0] == "quit":
                break
            else:
                print("unknown order:", " ".join(order), file=sys.stderr)
        self._report(drain())
        self.tell(mt="done", samples=self.trained)

    def _end_task(self, drain):
        self._report(drain())
        self.tell(mt="done", samples=self.trained)
        if self.synchronise:
            self.synchronise(*self._task)
        self.running = False
        self.tell(mt="parked")

    def _next_order(self):
        """The next order; None to train on. A parked worker waits here."""
        if not self.pool:
            return None
        try:
            order = self._orders.get(block=not self.running)
        except queue.Empty:
            return None
        return order or ["(an empty line)"]


class Pipeline:
    """Steps under way on a device: started now, reported `depth` steps later.

    `wait(token)` blocks until the step of that token is done and returns its loss.
    """

    def __init__(self, wait, depth=2):
        self._wait = wait
        self._depth = depth
        self._under_way = collections.deque()

    def add(self, samples, token):
        self._under_way.append((samples, token))
        return self._finish(self._depth)

    def drain(self):
        return self._finish(0)

    def _finish(self, left):
        finished = []
        while len(self._under_way) > left:
            samples, token = self._under_way.popleft()
            finished.append((samples, self._wait(token)))
        return finished
