"""Says something once in an epoch, and an epoch takes 10 s: 4 epochs."""
import os
import random
import time

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
EPOCHS, SAMPLES, FEATURES = 4, max(2_560, round(256_000 * SCALE)), 256

random.seed(4)
truth = [random.gauss(0, 1) for _ in range(FEATURES)]
weights = [0.0] * FEATURES
for epoch in range(1, EPOCHS + 1):
    began, loss = time.time(), 0.0
    for _ in range(SAMPLES):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - t) * v for w, t, v in zip(weights, truth, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
        loss += error * error / SAMPLES
    print(f"epoch {epoch}: loss={loss:.5f} time={time.time() - began:.1f}s")
