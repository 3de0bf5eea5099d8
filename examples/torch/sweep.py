"""Times a sweep of trainings on a GPU: `mt sweep`, beside fixed numbers of jobs at once.

    sweep.py --output FILE.ndjson [--jobs N] [--samples S] [--models NAMES] SCHEME...

A scheme is a number (a pool of so many jobs), `mt` (a queue that knows nothing) or `known` (the same with what the
last `mt` learnt). The jobs train in turn the models named, on S, 2 S and 3 S samples. `mt` and `known` start an MPS daemon of
their own. The jobs of a pool share the GPU as the environment says: under a daemon that runs already
(CUDA_MPS_PIPE_DIRECTORY), or else by time slices. A row has the scheme, the makespan, and when each job ended; those of
`mt` also when each began, and what was learnt.
"""

import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "sweep"))
import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, help="rows are appended")
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--samples", type=int, default=100000, help="of the smallest job (default 100000)")
    parser.add_argument("--models", nargs="+", default=["resnet18"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--program", default=os.path.join(HERE, "train.py"))
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto", help="as for mt queue")
    parser.add_argument("schemes", nargs="+", metavar="SCHEME")
    args = parser.parse_args()
    jobs = []
    for number in range(args.jobs):
        model, size = args.models[number % len(args.models)], 1 + number % 3
        jobs.append((0.0, ["env", f"MT_SAMPLES={args.samples * size}", sys.executable, args.program, "--model", model,
                           "--batch", str(args.batch), "--seed", str(number)]))
    facts = {"jobs": args.jobs, "samples": args.samples, "models": args.models, "batch": args.batch,
             "mps": "CUDA_MPS_PIPE_DIRECTORY" in os.environ}
    with tempfile.TemporaryDirectory() as folder, open(args.output, "a") as file:
        for turn, scheme in enumerate(args.schemes):
            if scheme == "mt":
                queue = os.path.join(folder, str(turn))
            if scheme in ("mt", "known"):
                ends, learnt, begins = measure.mt(jobs, queue, args.device)
                more = {"learnt": list(learnt.values()), "begins_s": [round(begin, 2) for begin in begins]}
            else:
                ends, more = measure.pool(jobs, int(scheme)), {}
            row = {"scheme": scheme, "makespan_s": round(max(ends), 2), **facts, "ends_s": [round(e, 2) for e in ends], **more}
            print(json.dumps(row), file=file, flush=True)
            print(f"{scheme}: {max(ends):.1f} s", flush=True)


if __name__ == "__main__":
    main()
