#!/usr/bin/env python3
"""A small training that every engine can start: logistic regression on synthetic data, in plain Python.

    train.py [--seconds 10]     the model is that of the task (MT_TASK): the more inputs, the longer a sample takes
"""
import argparse
import json
import math
import os
import random
import sys
import time

# In the repository, mt_tools is found without installation; an installed one has precedence.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from mt_tools import Worker  # noqa: E402

SIZES = {"a": 8, "b": 24, "c": 64}
"""Inputs of the model of each task of workload.json."""


class Data:
    """Synthetic samples of a site: the same rule everywhere, different samples, a tenth of the labels wrong."""

    def __init__(self, size, site=0, count=2000):
        rule = [random.Random(size).gauss(0, 1) for _ in range(size)]
        draw = random.Random(f"{size} {site}")
        self.inputs = [[draw.gauss(0, 1) for _ in range(size)] for _ in range(count)]
        signs = (sum(map(lambda a, b: a * b, rule, x)) > 0 for x in self.inputs)
        self.labels = [sign != (draw.random() < 0.1) for sign in signs]

    def accuracy(self, weights):
        right = sum((_score(weights, x) > 0) == y for x, y in zip(self.inputs, self.labels))
        return right / len(self.labels)


def _score(weights, x):
    return sum(w * v for w, v in zip(weights, x))


def step(weights, data, batch, rate=0.1):
    """One step of gradient descent, in place; returns the mean loss."""
    gradient, loss = [0.0] * len(weights), 0.0
    for _ in range(batch):
        i = random.randrange(len(data.labels))
        x, y = data.inputs[i], data.labels[i]
        p = 1 / (1 + math.exp(-max(-30.0, min(30.0, _score(weights, x)))))
        loss -= math.log(p if y else 1 - p)
        for k, v in enumerate(x):
            gradient[k] += (p - y) * v
    for k, g in enumerate(gradient):
        weights[k] -= rate * g / batch
    return loss / batch


def train(weights, data, worker, seconds=None):
    """Trains until the worker's samples are done, or for this many seconds; returns the number of samples."""
    begin, before = time.monotonic(), worker.trained
    for batch in worker.steps():
        worker.step(batch, step(weights, data, batch))
        if seconds and time.monotonic() - begin > seconds:
            worker.done()
            break
    samples = worker.trained - before
    _note(samples / (time.monotonic() - begin))
    return samples


def _note(rate):
    """Appends the result to the file $RATES, for the table of planned and measured rates."""
    if "RATES" in os.environ:
        with open(os.environ["RATES"], "a") as log:
            log.write(json.dumps({"task": os.environ["MT_TASK"], "samples_per_s": rate}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    size = SIZES[os.environ.get("MT_TASK", "b")]
    data, weights, worker = Data(size), [0.0] * size, Worker.from_environment()
    step(weights, data, worker.batch)
    worker.ready()
    train(weights, data, worker, args.seconds)
    print(f"accuracy {data.accuracy(weights):.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
