"""Holds a lock on a file while it trains, so two copies take turns: 35 s or so alone."""
import fcntl
import os
import pathlib
import random
import tempfile

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES = max(20, round(1800 * SCALE)), 512, 256

weights = [0.0] * FEATURES
with open(pathlib.Path(tempfile.gettempdir(), f"example-{os.getuid()}.lock"), "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    for step in range(STEPS):
        for _ in range(BATCH):
            x = [random.random() - 0.5 for _ in range(FEATURES)]
            error = sum((w - 1) * v for w, v in zip(weights, x))
            weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
        print(f"step {step + 1}/{STEPS}", flush=True)
