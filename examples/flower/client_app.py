"""A site's part of one task; task, batch size and share come with the process of the SuperNode."""
import os
import sys

import numpy
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

sys.path.append(os.environ["ENGINES"])
import train as training  # noqa: E402

app = ClientApp()


@app.train()
def train(message, context):
    task = os.environ["MT_TASK"]
    data = training.Data(training.SIZES[task], site=context.node_config["site"])
    arrays = message.content["arrays"].to_numpy_ndarrays() if "arrays" in message.content else []
    weights = arrays[0].tolist() if arrays else [0.0] * training.SIZES[task]
    worker = training.Worker.from_environment()
    worker.ready()
    samples = training.train(weights, data, worker, message.content["config"]["seconds"])
    metrics = {"num-examples": samples, "accuracy": data.accuracy(weights), "task": list(task.encode())}
    reply = RecordDict({"arrays": ArrayRecord([numpy.array(weights)]), "metrics": MetricRecord(metrics)})
    return Message(content=reply, reply_to=message)
