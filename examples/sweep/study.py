"""An Optuna study whose trials share one device: 20 at a time are submitted, and the queue runs the number with the
highest throughput.

Each trial is a program behind `mt exec`, which waits until the queue has room. Pruned trials are stopped, and leave
their place to the next.
"""
import subprocess
import sys

import optuna

STEPS = 20


def objective(trial):
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    command = ["mt", "exec", "--", sys.executable, "train.py", f"--rate={rate}", f"--steps={STEPS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        for line in training.stdout:  # step 3/20 loss 0.41
            step, loss = int(line.split()[1].split("/")[0]), float(line.split()[3])
            trial.report(loss, step)
            if trial.should_prune():
                training.terminate()
                raise optuna.TrialPruned()
    if training.returncode != 0:
        raise RuntimeError(f"exit status {training.returncode}")
    return loss


if __name__ == "__main__":
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_warmup_steps=3))
    study.optimize(objective, n_trials=trials, n_jobs=20)
    states = [trial.state.name for trial in study.trials]
    print(f"{states.count('COMPLETE')} complete, {states.count('PRUNED')} pruned, "
          f"{len(states) - states.count('COMPLETE') - states.count('PRUNED')} else; best {study.best_value:.4f}")
