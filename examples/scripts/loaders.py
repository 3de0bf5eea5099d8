"""Two processes load the data and one trains, so that one training keeps two cores busy: 40 s or so."""
import multiprocessing
import os
import random

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS, BATCH, FEATURES, LOADERS = max(40, round(2_000 * SCALE)), 512, 256, 2


def load(seed, count, queue):
    source = random.Random(seed)
    for _ in range(count):
        queue.put([[source.random() - 0.5 for _ in range(FEATURES)] for _ in range(BATCH)])


if __name__ == "__main__":
    queue = multiprocessing.Queue(maxsize=8)
    for number in range(LOADERS):
        count = STEPS // LOADERS + (number < STEPS % LOADERS)
        multiprocessing.Process(target=load, args=(number, count, queue), daemon=True).start()
    weights = [0.0] * FEATURES
    for step in range(1, STEPS + 1):
        seen = 0
        for x in queue.get():
            error = sum((w - 1) * v for w, v in zip(weights, x))
            weights = [w - 0.02 * error * v for w, v in zip(weights, x)]
            seen += 1
        if step % 10 == 0:
            print(f"seen {step * BATCH} samples, error {error:.5f}")
