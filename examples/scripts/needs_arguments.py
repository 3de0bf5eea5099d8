"""Wants to know where its data are: python3 needs_arguments.py --data FOLDER; 30 s or so."""
import argparse
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True, help="folder of the data set")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
if not os.path.isdir(args.data):
    parser.error(f"--data: there is no folder {args.data}")
STEPS, BATCH, FEATURES = max(20, round(500 * SCALE)), 512, 256

random.seed(8)
weights = [0.0] * FEATURES
for epoch in range(args.epochs):
    for step in range(STEPS):
        for _ in range(BATCH):
            x = [random.random() - 0.5 for _ in range(FEATURES)]
            error = sum((w - 1) * v for w, v in zip(weights, x))
            weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
        if step % 10 == 0:
            print(f"Train Epoch: {epoch} [{step * BATCH}/{STEPS * BATCH}] error: {error:.6f}")
