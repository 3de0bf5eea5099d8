"""Trains for 10 s or so and then fails, where it first saves."""
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES = max(40, round(500 * SCALE)), 256, 256

random.seed(6)
weights = [0.0] * FEATURES
for step in range(1, STEPS + 1):
    for _ in range(BATCH):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - 1) * v for w, v in zip(weights, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
    if step % 10 == 0:
        print(f"step {step}/{4 * STEPS}")
with open("/nonexistent/checkpoints/epoch-1.bin", "wb") as file:
    file.write(repr(weights).encode())
