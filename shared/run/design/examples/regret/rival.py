"""Optuna as a rival of the chain: tries what a sampler suggests, and is told what it is worth.

usage: rival.py tpe|gp     (started by the example `regret`, with --python)

Each line of standard input begins a study: the batch sizes of each task, the step of shares in hundredths of a
percent, what is tried first, the seed, and the number of trials. For each trial a line with batch sizes and shares is
printed, and a line with the value is read: larger is better, null where nothing runs.
"""
import json
import sys
import warnings

import optuna

warnings.simplefilter("ignore")  # multivariate TPE is called experimental
optuna.logging.set_verbosity(optuna.logging.ERROR)

# The schemes of equal shares, which are tried first, take the place of random trials.
STARTUP = 5
SAMPLERS = {
    "tpe": lambda seed: optuna.samplers.TPESampler(n_startup_trials=STARTUP, multivariate=True, seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(n_startup_trials=STARTUP, seed=seed),
}


def play(sampler, asked):
    study = optuna.create_study(direction="maximize", sampler=SAMPLERS[sampler](asked["seed"]))
    tasks, step = asked["batches"], asked["step"]
    for shares in asked["first"]:
        first = {f"share{i}": share for i, share in enumerate(shares)}
        study.enqueue_trial(first | {f"batch{i}": sizes[-1] for i, sizes in enumerate(tasks)})
    for _ in range(asked["trials"]):
        trial = study.ask()
        batches = [trial.suggest_categorical(f"batch{i}", sizes) for i, sizes in enumerate(tasks)]
        shares = [trial.suggest_int(f"share{i}", step, 10000, step=step) for i in range(len(tasks))]
        print(json.dumps({"batches": batches, "shares": shares}), flush=True)
        value = json.loads(sys.stdin.readline())
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)


if __name__ == "__main__":
    for line in sys.stdin:
        play(sys.argv[1], json.loads(line))
