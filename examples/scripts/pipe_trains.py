"""Trains on the samples that pipe_reads.py writes, and prints how many it has seen."""
import sys

weights = []
for seen, line in enumerate(sys.stdin, 1):
    x = [float(word) for word in line.split()]
    weights = weights or [0.0] * len(x)
    error = sum((w - 1) * v for w, v in zip(weights, x))
    weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
    if seen % 1000 == 0:
        print(f"{seen} samples, error {error:.3f}", flush=True)
