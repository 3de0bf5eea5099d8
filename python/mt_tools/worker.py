"""The worker protocol of mt-tools for a training script. Needs nothing but Python.

A loop that can train with any batch size:

    worker = Worker.from_environment()
    ...build the model, warm up...
    worker.ready()
    for batch in worker.steps():
        worker.step(batch, loss=train_on(batch))

A loop over somebody else's batches:

    worker = Worker.from_environment()
    worker.ready()
    worker.wait()
    for x, y in loader:
        loss = train_on(x, y)
        if not worker.step(len(x), loss):
            break
    worker.done()

A loop on a GPU, where steps are started before those before them are done:

    worker.train(step, drain)

`step(batch)` starts one training step and returns what was finished meanwhile, as pairs (samples,
loss), or (samples, loss, norms) with what mt_tools.norms makes of its gradients; a step may only be reported once it is done. `drain()` waits for everything that was started and
returns it in the same form.

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


def _nothing():
    return []


def _norms(norms=None):
    """As a member of a step: squared norms of the mean gradients over a small and a large number of
    samples; nothing where there are none or they have diverged."""
    if norms is None:
        return {}
    small, small_sq, large, large_sq = norms
    squares = float(small_sq), float(large_sq)
    if not all(map(math.isfinite, squares)):
        return {}
    return {"norms": {"small": int(small), "small_sq": squares[0], "large": int(large), "large_sq": squares[1]}}


class Worker:
    """What a training script is told, and how it tells what it does.

    `batch` is the batch size, `samples` how many to train on (None: until told), `trained` how many have
    been. A script that goes on from a checkpoint sets `trained` before its first step.
    """

    def __init__(self, batch, samples=None, pool=False, stdin=None, stdout=None):
        self.batch = batch
        self.samples = samples
        self.pool = pool
        self.trained = 0
        self.running = not pool
        self.synchronise = None
        self._task = None
        self._within_steps = False
        self._told_to_quit = False
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
        """Prints one line of the protocol."""
        # Not by print(), which some frameworks replace by one that logs. One write, so that nothing of
        # another thread comes between.
        self._out.write(json.dumps(members, separators=(",", ":")) + "\n")
        self._out.flush()

    def ready(self, mps=None, sms=None):
        """Says that the script is warm and what it sees of its share."""
        more = {k: v for k, v in (("mps", mps), ("sms", sms)) if v is not None}
        self.tell(mt="ready", **more)

    def done(self):
        """Says that all is trained. `steps` and `train` do so themselves."""
        self.tell(mt="done", samples=self.trained)

    def step(self, samples, loss=None, norms=None):
        """Tells of a step that has been made. `norms`: what mt_tools.norms makes of its gradients.

        Answers whether to go on: False once MT_SAMPLES are trained, or after `quit`. In pool mode it
        waits here while the script is to be parked. A loop over `steps` need not look at the answer.
        """
        self._report([(samples, loss, norms)])
        if self._within_steps:
            return True
        if self.samples is not None and self.trained >= self.samples:
            if not self._task:
                return False
            self._end_task(_nothing)
        return self.wait()

    def wait(self):
        """In pool mode, takes orders, and waits while the script is to be parked; False after `quit`.
        A loop over somebody else's batches calls it before its first step."""
        return self._obey(_nothing)

    def steps(self, drain=_nothing):
        """Yields the batch size of every step to make, the last one cut so that MT_SAMPLES are met
        exactly; then says `done`. `drain` is that of `train`."""
        started = self.trained
        self._within_steps = True
        while self._obey(drain):
            size = self.batch
            if self.samples is not None:
                size = min(size, self.samples - started)
            if size <= 0 and self._task:
                self._end_task(drain)
                started = 0
            elif size <= 0:
                break
            else:
                started += size
                yield size
        self._within_steps = False
        self._report(drain())
        self.done()

    def train(self, step, drain=_nothing):
        """Trains until the samples are done or the orders end, then says `done`."""
        for size in self.steps(drain):
            self._report(step(size))

    def _report(self, finished):
        for samples, loss, *norms in finished:
            self.trained += samples
            # JSON has no NaN: a loss that has diverged is left out.
            more = {"loss": float(loss)} if loss is not None and math.isfinite(loss) else {}
            more.update(_norms(*norms))
            self.tell(mt="step", samples=samples, **more)

    def _end_task(self, drain):
        self._report(drain())
        self.done()
        if self.synchronise:
            self.synchronise(*self._task)
        self.running = False
        self.tell(mt="parked")

    def _obey(self, drain):
        """Takes the orders that have come, and waits while parked; False after `quit`."""
        while self.pool and not self._told_to_quit:
            try:
                order = self._orders.get(block=not self.running)
            except queue.Empty:
                return True
            if order == ["quit"]:
                self._told_to_quit = True
            else:
                self._take(order or ["(an empty line)"], drain)
        return not self._told_to_quit

    def _take(self, order, drain):
        numbers = [int(word) for word in order[1:] if word.isdigit()]
        if order == ["run"]:
            self.running = True
        elif order == ["park"]:
            self.running = False
            self._report(drain())
            self.tell(mt="parked")
        elif order[0] == "task" and len(order) == 3 and len(numbers) == 2:
            self._task = numbers[0], numbers[1]
            self.trained = 0
        elif order[0] == "batch" and len(order) == 2 and numbers and numbers[0]:
            self.batch = numbers[0]
        else:
            print("unknown order:", " ".join(order), file=sys.stderr)


class Pipeline:
    """Steps under way on a device: started now, reported `depth` steps later.

    `wait(token)` blocks until the step of that token is done and returns its loss, or (loss, norms).
    """

    def __init__(self, wait, depth=2):
        self._wait = wait
        self._depth = depth
        self._under_way = collections.deque()

    def add(self, samples, token):
        """Notes a step that was started; returns those that are done, as pairs (samples, loss)."""
        self._under_way.append((samples, token))
        return self._finish(self._depth)

    def drain(self):
        """Waits for all; returns them likewise."""
        return self._finish(0)

    def _finish(self, left):
        finished = []
        while len(self._under_way) > left:
            samples, token = self._under_way.popleft()
            told = self._wait(token)
            finished.append((samples, *told) if isinstance(told, tuple) else (samples, told))
        return finished
