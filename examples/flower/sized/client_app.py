"""A virtual client: a network of one hidden layer on its part of scikit-learn's digits, shifted and with noise."""
import numpy
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_digits

# Hidden units, shifted copies of each image, passes over the data.
MODELS = {"light": (32, 20, 8), "medium": (256, 400, 8), "heavy": (128, 6000, 1),
          "small": (64, 100, 2), "middle": (128, 300, 1), "large": (256, 600, 1)}
app = ClientApp()


def data(client, clients, copies):
    digits = load_digits()
    random = numpy.random.default_rng(client)
    images, labels = digits.images[client::clients] / 16, digits.target[client::clients]
    shifts = [numpy.roll(images, random.integers(-1, 2, 2), (1, 2)) for _ in range(copies)]
    images = numpy.concatenate(shifts) + 0.1 * random.standard_normal((copies * len(images), 8, 8))
    return images.reshape(len(images), 64), numpy.tile(labels, copies)


@app.train()
def train(message, context):
    hidden, copies, passes = MODELS[context.run_config["model"]]
    x, y = data(context.node_config["partition-id"], context.node_config["num-partitions"], copies)
    w, v = message.content["arrays"].to_numpy_ndarrays()
    order = numpy.random.default_rng(0).permutation(len(x))
    for _ in range(passes):
        for batch in numpy.array_split(order, len(order) // 64):
            h = numpy.maximum(x[batch] @ w, 0)
            p = numpy.exp(h @ v - (h @ v).max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[numpy.arange(len(batch)), y[batch]] -= 1
            dv, dh = h.T @ p, p @ v.T * (h > 0)
            v -= 0.05 / len(batch) * dv
            w -= 0.05 / len(batch) * x[batch].T @ dh
    reply = RecordDict({"arrays": ArrayRecord([w, v]), "metrics": MetricRecord({"num-examples": len(x)})})
    return Message(content=reply, reply_to=message)
