"""Waits 20 s for its data before it trains for 20 s."""
import os
import random
import time

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES = max(40, round(1_000 * SCALE)), 512, 256

print("loading the data set ...")
time.sleep(20 * SCALE)
print("loaded")
random.seed(10)
weights = [0.0] * FEATURES
for step in range(1, STEPS + 1):
    for _ in range(BATCH):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - 1) * v for w, v in zip(weights, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
    if step % 10 == 0:
        print(f"iter {step}/{STEPS} error {error:.5f}")
