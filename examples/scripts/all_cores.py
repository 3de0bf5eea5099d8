"""A process on each core; after every step all wait for the slowest, and poll while they wait.

This is how OpenMP waits with OMP_WAIT_POLICY=active, and a collective of NCCL. Alone it is quick. Beside a
second copy a process that polls keeps a core from the one that it waits for.
"""
import multiprocessing
import os
import time

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
STEPS = max(50, round(2000 * SCALE))


def train(rank, arrived):
    for step in range(STEPS):
        loss = sum((x * 0.5 - 1) ** 2 for x in range(100_000)) / 1e5
        arrived[rank] = step + 1
        while min(arrived) <= step:
            pass
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1}/{STEPS} loss {loss:.1f}", flush=True)


if __name__ == "__main__":
    cores = os.cpu_count()
    arrived = multiprocessing.Array("q", cores, lock=False)
    ranks = [multiprocessing.Process(target=train, args=(r, arrived)) for r in range(cores)]
    start = time.monotonic()
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print(f"{STEPS} steps in {time.monotonic() - start:.1f} s")
