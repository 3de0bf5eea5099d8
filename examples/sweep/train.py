"""A small training without a framework: logistic regression by gradient descent."""
import argparse
import math
import random

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--samples", type=int, default=2000)
args = parser.parse_args()

random.seed(1)
features = 8
truth = [random.gauss(0, 1) for _ in range(features)]
data = []
for _ in range(args.samples):
    x = [random.gauss(0, 1) for _ in range(features)]
    data.append((x, 1.0 if sum(a * b for a, b in zip(x, truth)) > 0 else 0.0))

weights = [0.0] * features
for step in range(1, args.steps + 1):
    gradient, loss = [0.0] * features, 0.0
    for x, y in data:
        z = max(-30.0, min(30.0, sum(a * b for a, b in zip(x, weights))))
        p = 1.0 / (1.0 + math.exp(-z))
        loss -= y * math.log(p + 1e-12) + (1 - y) * math.log(1 - p + 1e-12)
        for i, a in enumerate(x):
            gradient[i] += (p - y) * a
    weights = [w - args.rate * g / len(data) * 10 for w, g in zip(weights, gradient)]
    print(f"step {step}/{args.steps} loss {loss / len(data):.5f}", flush=True)
