"""A Ray Tune run whose trials share one device: up to 20 at a time are submitted, and the queue runs the number with
the highest throughput.

Each trial is a program behind `mt exec`, which waits until the queue has room. Ray must not limit the processors as
well, so a trial requests only a tenth of one. A trial that the scheduler stops leaves its place to the next.
"""
import pathlib
import subprocess
import sys

from ray import tune
from ray.tune.schedulers import ASHAScheduler

TRAIN = pathlib.Path(__file__).resolve().parent / "train.py"
STEPS = 20


def trial(config):
    command = ["mt", "exec", "--", sys.executable, str(TRAIN), f"--rate={config['rate']}", f"--steps={STEPS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        for line in training.stdout:  # step 3/20 loss 0.41
            tune.report({"loss": float(line.split()[3])})
    if training.returncode != 0:
        raise RuntimeError(f"exit status {training.returncode}")


if __name__ == "__main__":
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 0.1}),
        param_space={"rate": tune.loguniform(1e-4, 1.0)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=trials, max_concurrent_trials=20,
                                    scheduler=ASHAScheduler(max_t=STEPS, grace_period=4)),
    )
    results = tuner.fit()
    steps = [result.metrics.get("training_iteration", 0) for result in results]
    print(f"{len(results)} trials, {sum(step < STEPS for step in steps)} stopped early, "
          f"{len(results.errors)} failed; best {results.get_best_result().metrics['loss']:.4f}")
