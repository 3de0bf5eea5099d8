"""LightGBM on all processors, a line every ten trees: 40 s or so on two. Needs lightgbm."""
import os

import lightgbm
import numpy

SCALE = float(os.environ.get("EXAMPLE_SCALE", "1"))
TREES = max(20, round(1200 * SCALE))

chance = numpy.random.default_rng(1)
x = chance.normal(size=(100_000, 40))
y = x[:, 0] * x[:, 1] + numpy.sin(3 * x[:, 2]) + chance.normal(size=len(x))
train, held = lightgbm.Dataset(x[20_000:], y[20_000:]), lightgbm.Dataset(x[:20_000], y[:20_000])
lightgbm.train({"verbosity": -1, "learning_rate": 0.05, "num_leaves": 63}, train, TREES, valid_sets=[held],
               callbacks=[lightgbm.log_evaluation(10)])
