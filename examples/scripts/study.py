"""An Optuna study, a line on standard error for each trial: 40 s or so. Needs optuna."""
import os
import random

import optuna

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
TRIALS, SAMPLES, FEATURES = max(5, round(60 * SCALE)), 16_000, 256

truth = [random.Random(3).gauss(0, 1) for _ in range(FEATURES)]


def loss(trial):
    rate, chance = trial.suggest_float("lr", 1e-4, 0.05, log=True), random.Random(trial.number)
    weights, last = [0.0] * FEATURES, 0.0
    for _ in range(SAMPLES):
        x = [chance.random() - 0.5 for _ in range(FEATURES)]
        last = sum((w - t) * v for w, t, v in zip(weights, truth, x))
        weights = [w - rate * last * v for w, v in zip(weights, x)]
    return last * last


optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1)).optimize(loss, n_trials=TRIALS)
