"""Prints nothing and ends after 35 s or so."""
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
SAMPLES, FEATURES = max(10_000, round(880_000 * SCALE)), 256

random.seed(5)
truth = [random.gauss(0, 1) for _ in range(FEATURES)]
weights = [0.0] * FEATURES
for _ in range(SAMPLES):
    x = [random.random() - 0.5 for _ in range(FEATURES)]
    error = sum((w - t) * v for w, t, v in zip(weights, truth, x))
    weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
