"""Writes samples for pipe_trains.py, one a line."""
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
SAMPLES, FEATURES = max(2_000, round(400_000 * SCALE)), 64

for _ in range(SAMPLES):
    print(*(round(random.random() - 0.5, 3) for _ in range(FEATURES)))
