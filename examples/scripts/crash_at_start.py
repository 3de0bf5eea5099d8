"""A key is missing in its configuration."""
config = {"epochs": 10, "batch_size": 64}

print("starting")
learning_rate = config["lr"]
for epoch in range(config["epochs"]):
    print(f"epoch {epoch + 1}/{config['epochs']} lr {learning_rate}")
