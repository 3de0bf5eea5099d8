"""Progress bars as tqdm draws them, written over on standard error: 5 epochs, 35 s or so."""
import os
import random
import sys
import time

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
EPOCHS, STEPS, BATCH, FEATURES = 5, max(20, round(350 * SCALE)), 512, 256


def bar(epoch, done, total, began):
    spent = time.monotonic() - began
    full = "█" * (10 * done // total)
    rate = done / max(spent, 1e-9)
    sys.stderr.write(
        f"\rEpoch {epoch}: {100 * done // total:3d}%|{full:<10}| {done}/{total} "
        f"[00:{int(spent):02d}<00:{int((total - done) / rate) if rate else 0:02d}, {rate:.2f}it/s]"
    )
    sys.stderr.flush()


random.seed(3)
truth = [random.gauss(0, 1) for _ in range(FEATURES)]
weights = [0.0] * FEATURES
for epoch in range(EPOCHS):
    began = shown = time.monotonic()
    for step in range(STEPS):
        for _ in range(BATCH):
            x = [random.random() - 0.5 for _ in range(FEATURES)]
            error = sum((w - t) * v for w, t, v in zip(weights, truth, x))
            weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
        if time.monotonic() - shown > 0.1 or step + 1 == STEPS:
            shown = time.monotonic()
            bar(epoch, step + 1, STEPS, began)
    sys.stderr.write("\n")
