"""A site's part of one job; the process got its batch size and its share at the start."""
import json
import os
import sys

import numpy
import nvflare.client as flare

sys.path.append(os.environ["ENGINES"])
import train as training  # noqa: E402

flare.init()
site, task = flare.get_site_name(), os.environ["MT_TASK"]
data = training.Data(training.SIZES[task], site)
worker = training.Worker.from_environment()
worker.ready()
while flare.is_running():
    model = flare.receive()
    weights = model.params["numpy_key"].tolist()
    samples = training.train(weights, data, worker, float(sys.argv[1]))
    accuracy = data.accuracy(weights)
    with open(os.environ["ACCURACY"], "a") as log:
        log.write(json.dumps({"task": task, "site": site, "round": model.current_round, "accuracy": accuracy}) + "\n")
    # A site is weighted by its number of samples.
    flare.send(flare.FLModel(params={"numpy_key": numpy.array(weights)}, params_type=flare.ParamsType.FULL,
                             metrics={"accuracy": accuracy}, meta={"NUM_STEPS_CURRENT_ROUND": samples}))
