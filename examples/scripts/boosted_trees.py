"""XGBoost on all processors, a line for each tree: 40 s or so on two. Needs xgboost."""
import os

import numpy
import xgboost

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
TREES = max(20, round(700 * SCALE))

chance = numpy.random.default_rng(2)
x = chance.normal(size=(100_000, 40)).astype(numpy.float32)
y = x[:, 0] * x[:, 1] + numpy.sin(3 * x[:, 2]) + chance.normal(size=len(x))
table = xgboost.DMatrix(x, y)
xgboost.train({"max_depth": 7, "eta": 0.05, "tree_method": "hist"}, table, TREES, evals=[(table, "train")])
