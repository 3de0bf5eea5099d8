"""Federated averaging of several tasks at once: each is aggregated over the nodes that train it, by its own
number of examples."""
import json
import time

import numpy
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    while len(nodes := sorted(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.5)
    task_of, models, accuracy = {}, {}, {}
    for number in range(config["rounds"]):
        messages = []
        for node in nodes:
            content = RecordDict({"config": ConfigRecord({"seconds": config["seconds"]})})
            if node in task_of:
                content["arrays"] = ArrayRecord([models[task_of[node]]])
            messages.append(Message(content=content, message_type="train", dst_node_id=node, group_id=str(number)))
        parts = {}
        for reply in grid.send_and_receive(messages):
            metrics = reply.content["metrics"]
            task = task_of[reply.metadata.src_node_id] = bytes(metrics["task"]).decode()
            weights = reply.content["arrays"].to_numpy_ndarrays()[0]
            parts.setdefault(task, []).append((weights, metrics["num-examples"], metrics["accuracy"]))
        for task, all_of_it in parts.items():
            examples = [examples for _, examples, _ in all_of_it]
            models[task] = numpy.average([weights for weights, _, _ in all_of_it], axis=0, weights=examples)
            accuracy[task] = [round(a, 3) for _, _, a in all_of_it]
    print("accuracy of each task at each site:", json.dumps(accuracy, sort_keys=True), flush=True)
