"""A fixed number of epochs, a line every 50 steps: 40 s or so."""
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
EPOCHS, STEPS, BATCH, FEATURES = 10, max(10, round(200 * SCALE)), 512, 256

random.seed(1)
truth = [random.gauss(0, 1) for _ in range(FEATURES)]
weights = [0.0] * FEATURES
for epoch in range(EPOCHS):
    for step in range(STEPS):
        loss = 0.0
        for _ in range(BATCH):
            x = [random.random() - 0.5 for _ in range(FEATURES)]
            error = sum((w - t) * v for w, t, v in zip(weights, truth, x))
            weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
            loss += error * error / BATCH
        if (step + 1) % 50 == 0 or step + 1 == STEPS:
            print(f"Epoch {epoch + 1}/{EPOCHS}, step {step + 1}/{STEPS}, loss {loss:.4f}")
