"""Trains until somebody stops it, a line every 20 steps."""
import random

BATCH, FEATURES = 64, 128

random.seed(2)
truth = [random.gauss(0, 1) for _ in range(FEATURES)]
weights = [0.0] * FEATURES
step = 0
while True:
    loss = 0.0
    for _ in range(BATCH):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - t) * v for w, t, v in zip(weights, truth, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
        loss += error * error / BATCH
    step += 1
    if step % 20 == 0:
        print(f"step {step} loss {loss:.4f}")
