"""Needs more than half of the device's memory: alone it trains for 30 s, beside another it fails.

Here a lock on a file stands for most of the memory, so that only one process can have it.
"""
import fcntl
import os
import random
import tempfile

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES = max(40, round(1_500 * SCALE)), 512, 256

memory = open(os.path.join(tempfile.gettempdir(), "example-device-memory"), "w")
try:
    fcntl.flock(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    raise RuntimeError("CUDA out of memory. Tried to allocate 9.00 GiB") from None

random.seed(7)
weights = [0.0] * FEATURES
for step in range(1, STEPS + 1):
    for _ in range(BATCH):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - 1) * v for w, v in zip(weights, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
    if step % 10 == 0:
        print(f"[{step}/{STEPS}] error {error:.5f}")
