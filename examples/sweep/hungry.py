"""A training that needs memory and waits for its data half of the time: hungry.py MODEL SEED [STEPS]"""
import sys
import time

GB = {"small": 0.2, "medium": 0.6, "large": 1.5}
STEP = 0.05  # seconds of computing, and as many of waiting
EARLY = 0.6  # fraction of the memory that it takes at once; the rest follows with the first steps

model, seed = sys.argv[1], int(sys.argv[2])
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 20 + seed % 3 * 10
pages = int(GB[model] * 1e9) // 4096
held = []


def take(count):
    block = bytearray(count * 4096)
    block[::4096] = b"x" * count  # only a page that is written is in memory
    held.append(block)


take(int(pages * EARLY))
growth = (pages - int(pages * EARLY)) // 5
for step in range(1, steps + 1):
    if step <= 5:
        take(growth)
    time.sleep(STEP)
    until, total = time.process_time() + STEP, 0
    while time.process_time() < until:
        total += sum(range(1000))
    print(f"step {step}/{steps}", flush=True)
