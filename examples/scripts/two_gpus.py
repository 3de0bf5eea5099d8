"""Asks for two GPUs, and fails where it does not see as many."""
import argparse
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, default=2)
args = parser.parse_args()
visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
if len(visible) < args.gpus:
    raise RuntimeError(f"--gpus {args.gpus}: only {len(visible)} visible (CUDA_VISIBLE_DEVICES)")

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES = max(40, round(1_500 * SCALE)), 512, 256
random.seed(9)
weights = [0.0] * FEATURES
for step in range(1, STEPS + 1):
    for _ in range(BATCH):
        x = [random.random() - 0.5 for _ in range(FEATURES)]
        error = sum((w - 1) * v for w, v in zip(weights, x))
        weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
    if step % 10 == 0:
        print(f"iter {step}: error {error:.5f}")
