"""What a user would otherwise pick, on the same files as the predictor.

    peers.py FOLDER OURS.json [SEEDS]

FOLDER holds the profiles that `cargo run --release -p mt-predict --example bench-predict -- --data FOLDER
accuracy speed` wrote, OURS.json the rows it printed with `--json`. Every method gets the solo runs as
the predictor does: it learns ln(P_i / S_i(B_i)) of every task from the logarithms of the batch
sizes, the shares, and the logarithms of the solo step times of all tasks; one model for each task.
"""

import collections
import csv
import json
import sys
import time
import warnings

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from xgboost import XGBRegressor

warnings.filterwarnings("ignore")
MIXES = ["light", "middle", "heavy", "five"]
SIZES = [20, 40, 125]


def gaussian_process(width):
    kernel = ConstantKernel(1.0) * Matern(np.ones(width), (1e-2, 1e3), nu=2.5) + WhiteKernel(1e-3)
    return make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    )


METHODS = {
    "sklearn_gp": gaussian_process,
    "sklearn_boosting": lambda _: GradientBoostingRegressor(
        n_estimators=300, learning_rate=0.05, max_depth=3, subsample=0.8, random_state=0
    ),
    "sklearn_mlp": lambda _: make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(64, 64), solver="lbfgs", alpha=1e-2, max_iter=500, random_state=0),
    ),
    "sklearn_poly_ridge": lambda _: make_pipeline(
        StandardScaler(), PolynomialFeatures(2), StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))
    ),
    "xgboost": lambda _: XGBRegressor(
        n_estimators=300, learning_rate=0.05, max_depth=3, subsample=0.8, n_jobs=1, random_state=0
    ),
}


def read(path):
    sets = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as file:
        for row in csv.DictReader(file):
            sets[row["set"]][int(row["config"])].append(
                (int(row["task"]), int(row["batch"]), float(row["share_percent"]) / 100,
                 float(row["measured"]), float(row["truth"]))
            )
    return {name: [rows for _, rows in sorted(configs.items())] for name, configs in sets.items()}


def features(configurations, solo):
    return np.array([
        [v for t, b, r, _, _ in rows for v in (np.log(b), r, np.log(b / solo[t, b]))]
        for rows in configurations
    ])


def evaluate(sets, seed, size, make):
    solo = {(t, b): m for [(t, b, _, m, _)] in sets[f"solo{seed}"]}
    train, held = sets[f"train{seed}"][:size], sets["held"]
    x, z = features(train, solo), features(held, solo)
    predicted, seconds = 0.0, 0.0
    for i in range(len(held[0])):
        y = np.array([np.log(rows[i][3] / solo[rows[i][:2]]) for rows in train])
        start = time.perf_counter()
        model = make(x.shape[1]).fit(x, y)
        seconds += time.perf_counter() - start
        anchor = np.array([solo[rows[i][:2]] for rows in held])
        predicted = predicted + anchor * np.exp(model.predict(z))
    truth = np.array([sum(r[4] for r in rows) for rows in held])
    mape = 100 * np.mean(np.abs(predicted / truth - 1))
    return mape, truth[np.argmax(predicted)] / truth.max(), seconds


def main():
    folder, ours = sys.argv[1], json.load(open(sys.argv[2]))
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    ours = {row["name"]: row["value"] for row in ours}
    data = [read(f"{folder}/{name}.csv") for name in MIXES]
    rows = []
    print(f"{'method':22}" + "".join(f"{n:>9} MAPE  completion  fit s" for n in SIZES))
    best = {n: (np.inf, "") for n in SIZES}
    for name, make in METHODS.items():
        line = f"{name:22}"
        for n in SIZES:
            all_runs = [evaluate(s, seed, n, make) for s in data for seed in range(seeds)]
            mape, completion, seconds = np.mean(all_runs, axis=0)
            best[n] = min(best[n], (mape, name))
            line += f"{mape:12.2f} %{completion:12.4f}{seconds:7.2f}"
        print(line, flush=True)
    for n in SIZES:
        value, (baseline, name) = ours[f"predict_mape_{n}"], best[n]
        rows.append({
            "name": f"predict_peers_mape_{n}", "value": value, "unit": "percent",
            "baseline": name, "baseline_value": baseline, "ratio": value / baseline,
            "what": f"error of the total with {n} samples against the best of {len(METHODS)} others",
        })
        print(f"{n:4} samples: ours {value:.2f} % (completion {ours[f'predict_completion_{n}']:.4f}), "
              f"best other {baseline:.2f} % ({name}), ratio {value / baseline:.2f}")
    seconds = sorted(evaluate(data[0], 0, 125, gaussian_process)[2] for _ in range(3))[1]
    ours_s = ours["predict_fit_gp"]
    rows.append({
        "name": "predict_peers_fit_gp", "value": ours_s, "unit": "s", "baseline": "sklearn_gp",
        "baseline_value": seconds, "ratio": ours_s / seconds,
        "what": "fit of a Gaussian process with one length per feature, 125 samples x 3 tasks, one core",
    })
    print(f"fit of a Gaussian process: ours {ours_s:.3f} s, scikit-learn {seconds:.2f} s, "
          f"{seconds / ours_s:.0f} times as fast")
    print(json.dumps(rows), file=sys.stderr)


main()
