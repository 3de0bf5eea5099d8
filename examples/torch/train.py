#!/usr/bin/env python3
"""Trains one of the nine models of the FedMT paper on 32 x 32 images, as a job of mt-tools.

    python3 train.py --model resnet18                       until stopped
    MT_SAMPLES=50000 python3 train.py --model vgg16 --amp   one round
    python3 train.py --model resnet18 --dry-run             what would be trained, without a GPU
    python3 train.py --model small                          a small network, without torchvision

Batch size, number of samples and pool mode come from the environment (see mt_tools.worker).
"""

import argparse
import ctypes
import os
import pickle
import sys

# In the repository, mt_tools is found without installation; an installed one has precedence.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from mt_tools import Pipeline, Worker  # noqa: E402
from mt_tools.norms import GradientNorms  # noqa: E402

MODELS = {
    "alexnet": "alexnet",
    "vgg16": "vgg16",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "mobilenet_v3_large": "mobilenet_v3_large",
    "shufflenet_v2_x1_0": "shufflenet_v2_x1_0",
    "densenet121": "densenet121",
}


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=[*sorted(MODELS), "small"], default="resnet18",
                        help="one of torchvision's; small: three convolutions, for processors (default resnet18)")
    parser.add_argument("--stem", choices=["catalogue", "stock", "cifar"], default="catalogue",
                        help="catalogue: one down-sampling fewer than stock, as mt-tools simulates it (default); "
                             "stock: torchvision's; cifar: full resolution through the stem")
    parser.add_argument("--pixels", type=int, default=32, help="side of the images (default 32)")
    parser.add_argument("--batch", type=int, default=64, help="where MT_BATCH_SIZE is unset (default 64)")
    parser.add_argument("--data", choices=["synthetic", "cifar10"], default="synthetic")
    parser.add_argument("--data-dir", default="data", help="folder with cifar-10-batches-py; nothing is downloaded")
    parser.add_argument("--input", choices=["device", "host"], default="device",
                        help="device: all images live on the GPU; host: every batch is cut, flipped and copied by "
                             "the processor, as usual input pipelines do")
    parser.add_argument("--amp", choices=["off", "fp16", "bf16"], nargs="?", const="bf16", default="off",
                        help="automatic mixed precision (bf16 if no kind is given)")
    parser.add_argument("--channels-last", action="store_true", help="channels-last memory format")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--micro-batches", type=int, default=1, metavar="N",
                        help="accumulate the gradient of a step over N parts; from two on their norms are told, from "
                             "which mt-tools estimates what a larger batch is worth (default 1)")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the script says that it is ready")
    parser.add_argument("--device", default=None, help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", metavar="FILE",
                        help="go on from FILE where it is, and write it every --checkpoint-every steps and at the end")
    parser.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--dry-run", action="store_true", help="print the size of the model and end")
    return parser.parse_args(argv)


def build(name, stem, pixels):
    """The model. Heads have 1000 classes, except for two models whose sizes in the paper imply ten."""
    from torch import nn

    if name == "small":
        widths, layers = (3, 16, 32, 64), []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    from torchvision import models

    small = stem == "catalogue" and pixels < 64
    classes = 10 if small and name in ("alexnet", "mobilenet_v3_large") else 1000
    net = getattr(models, MODELS[name])(weights=None, num_classes=classes)
    if stem == "stock" or (stem == "catalogue" and not small):
        return net
    full = stem == "cifar"
    if name == "alexnet":
        # The stock stem would shrink 32 pixels to nothing; three poolings by two and the wide head remain.
        net.features[0] = nn.Conv2d(3, 64, 3, stride=1 if full else 2, padding=1)
        net.features[3] = nn.Conv2d(64, 192, 3, padding=1)
        for i in (2, 5, 12):
            net.features[i] = nn.MaxPool2d(2)
        side = pixels // (8 if full else 16)
        net.avgpool = nn.Identity()
        net.classifier[1] = nn.Linear(256 * side * side, 4096)
    elif name == "vgg16":
        net.avgpool = nn.AdaptiveAvgPool2d(1)
        net.classifier = nn.Linear(512, classes)
    elif name.startswith("resnet"):
        net.maxpool = nn.Identity()
        if full:
            net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    elif name == "densenet121":
        net.features.pool0 = nn.Identity()
        if full:
            net.features.conv0 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    elif name == "shufflenet_v2_x1_0":
        net.maxpool = nn.Identity()
        if full:
            net.conv1[0] = nn.Conv2d(3, 24, 3, padding=1, bias=False)
    elif name == "mobilenet_v3_large":
        net.features[0][0] = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    return net


def load_images(args, torch):
    """All images as bytes (N, 3, side, side) and their classes, in the memory of the host."""
    if args.data == "synthetic":
        generator = torch.Generator().manual_seed(args.seed)
        images = torch.randint(0, 256, (2048, 3, args.pixels, args.pixels), dtype=torch.uint8, generator=generator)
        labels = torch.arange(2048) % 10
        # A class is a brighter band, so that there is something to learn.
        band = max(1, args.pixels // 10)
        for c in range(10):
            images[labels == c, :, c * band:(c + 1) * band] |= 192
        return images, labels
    folder = os.path.join(args.data_dir, "cifar-10-batches-py")
    parts = []
    for i in range(1, 6):
        path = os.path.join(folder, f"data_batch_{i}")
        if not os.path.exists(path):
            sys.exit(f"{path} is missing: unpack cifar-10-python.tar.gz into {args.data_dir}, or use --data synthetic")
        with open(path, "rb") as file:
            parts.append(pickle.load(file, encoding="bytes"))
    images = torch.cat([torch.as_tensor(p[b"data"]).reshape(-1, 3, 32, 32) for p in parts])
    labels = torch.tensor([label for p in parts for label in p[b"labels"]])
    if args.pixels != 32:
        images = torch.nn.functional.interpolate(images.float(), size=args.pixels, mode="bilinear").to(torch.uint8)
    return images, labels


class Batches:
    """Batches in random order, without end."""

    def __init__(self, images, labels, args, device, torch):
        self.torch, self.device, self.on_host = torch, device, args.input == "host"
        self.layout = torch.channels_last if args.channels_last else torch.contiguous_format
        self.images = images if self.on_host else images.to(device)
        self.labels = labels if self.on_host else labels.to(device)

    def next(self, size):
        torch = self.torch
        index = torch.randint(len(self.labels), (size,), device=self.images.device)
        x, y = self.images[index], self.labels[index]
        if self.on_host:
            flip = torch.rand(size) < 0.5
            x[flip] = x[flip].flip(-1)
            if self.device.type == "cuda":
                x, y = x.pin_memory(), y.pin_memory()
            x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
        return (x.float() / 128 - 1).contiguous(memory_format=self.layout), y


def grad_scaler(torch, device, enabled):
    """Before PyTorch 2.3 only CUDA has one."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled and device.type == "cuda")


class Checkpoint:
    """The state of a training: weights, momentum, scale, and the number of samples trained on.

    It is written beside FILE and then renamed, so a kill at any moment leaves a complete file: the old one or the new
    one.
    """

    def __init__(self, path, every, trainer, worker):
        self.path, self.every, self.steps = path, every, 0
        self.trainer, self.worker = trainer, worker

    def parts(self):
        return {"net": self.trainer.net, "optimiser": self.trainer.optimiser, "scaler": self.trainer.scaler}

    def load(self):
        if self.path and os.path.exists(self.path):
            state = self.trainer.torch.load(self.path, map_location=self.trainer.device)
            for name, part in self.parts().items():
                part.load_state_dict(state[name])
            self.worker.trained = state["samples"]

    def save(self, samples):
        if self.path:
            state = {name: part.state_dict() for name, part in self.parts().items()}
            self.trainer.torch.save({**state, "samples": samples}, self.path + ".new")
            os.replace(self.path + ".new", self.path)

    def step(self, size):
        """A training step, and a checkpoint of the finished steps after every given number of them."""
        finished = self.trainer.step(size)
        self.steps += 1
        if self.path and self.steps % self.every == 0:
            # The weights are those after this step, so it must be counted.
            finished += self.trainer.pipeline.drain()
            self.save(self.worker.trained + sum(samples for samples, *_ in finished))
        return finished


class Trainer:
    def __init__(self, args, torch, device, worker):
        self.torch, self.device, self.worker = torch, device, worker
        torch.manual_seed(args.seed)
        layout = torch.channels_last if args.channels_last else torch.contiguous_format
        self.net = build(args.model, args.stem, args.pixels).to(device, memory_format=layout).train()
        self.batches = Batches(*load_images(args, torch), args, device, torch)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=args.lr, momentum=0.9)
        kinds = {"off": None, "fp16": torch.float16, "bf16": torch.bfloat16}
        self.kind = kinds[args.amp]
        self.scaler = grad_scaler(torch, device, args.amp == "fp16")
        self.pipeline = Pipeline(self.wait)
        self.micro_batches = max(1, args.micro_batches)
        self.norms = GradientNorms(self.net.parameters())

    def step(self, size):
        torch = self.torch
        # With `benchmark`, cuDNN tries all kernels at every size that it has not seen. That takes seconds, which a batch
        # size is worth, but not the smaller last batch of a round.
        torch.backends.cudnn.benchmark = size == self.worker.batch
        x, y = self.batches.next(size)
        self.optimiser.zero_grad(set_to_none=True)
        whole = torch.zeros((), device=self.device)
        parts = min(self.micro_batches, size)
        for some_x, some_y in zip(x.tensor_split(parts), y.tensor_split(parts)):
            with torch.autocast(self.device.type, dtype=self.kind, enabled=self.kind is not None):
                loss = torch.nn.functional.cross_entropy(self.net(some_x), some_y) * (len(some_y) / size)
            self.scaler.scale(loss).backward()
            whole += loss.detach()
            if parts > 1:
                self.norms.part(len(some_y))
        norms = self.norms.whole()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return self.pipeline.add(size, self.token(whole, norms))

    def token(self, loss, norms):
        """Starts copies of the loss and the squared norms to the host; returns them, their sizes, and the event after
        the copy. Waiting for this event does not wait for later steps."""
        sizes = norms and (norms[0], norms[2])
        told = self.torch.stack([loss, *(norms[1::2] if norms else ())])
        if self.device.type != "cuda":
            return told, sizes, None
        host = self.torch.empty(told.shape, pin_memory=True)
        host.copy_(told, non_blocking=True)
        event = self.torch.cuda.Event()
        event.record()
        return host, sizes, event

    def wait(self, token):
        told, sizes, event = token
        if event is not None:
            event.synchronize()
        loss, *squares = told.tolist()
        return loss, sizes and (sizes[0], squares[0], sizes[1], squares[1])


def mps_enabled():
    """Whether this process is an MPS client (CUDA device attribute 133); None if CUDA does not say."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        device, value = ctypes.c_int(), ctypes.c_int()
        if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
            return None
        return None if cuda.cuDeviceGetAttribute(ctypes.byref(value), 133, device) else bool(value.value)
    except (OSError, AttributeError):
        return None


def main():
    args = arguments()
    try:
        import torch
        if args.model != "small":
            import torchvision  # noqa: F401, to fail here rather than later
    except ImportError as error:
        sys.exit(f"{error}: install PyTorch, for example with: pip install torch torchvision "
                 "(--model small needs no torchvision)")
    if args.stem == "stock" and args.model == "alexnet" and args.pixels < 64:
        sys.exit("the stock AlexNet needs --pixels 64 or more: its stem shrinks 32 pixels to nothing")
    if args.dry_run:
        net = build(args.model, args.stem, args.pixels)
        count = sum(p.numel() for p in net.parameters())
        print(f"{args.model} with the {args.stem} stem: {count} parameters, {count * 4 / 2**20:.1f} MiB")
        return
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if args.amp == "fp16" and device.type == "cpu" and not hasattr(torch.amp, "GradScaler"):
        sys.exit(f"--amp fp16 on processors needs PyTorch 2.3, and this is {torch.__version__}: use --amp bf16")
    worker = Worker.from_environment(args.batch)
    trainer = Trainer(args, torch, device, worker)
    checkpoint = Checkpoint(args.checkpoint, args.checkpoint_every, trainer, worker)
    for _ in range(args.warm_up):
        trainer.step(worker.batch)
    trainer.pipeline.drain()
    # After the warm-up, whose steps are neither reported nor counted.
    checkpoint.load()
    sms = mps = None
    if device.type == "cuda":
        sms, mps = torch.cuda.get_device_properties(device).multi_processor_count, mps_enabled()
    worker.ready(mps=mps, sms=sms)
    worker.train(checkpoint.step, trainer.pipeline.drain)
    checkpoint.save(worker.trained)


if __name__ == "__main__":
    main()
