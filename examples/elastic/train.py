#!/usr/bin/env python3
"""Elastic data-parallel training with PyTorch: a job for `mt-launch --controller`.

    train.py --model vgg --checkpoint state.pt --steps 2000
    RANK=0 WORLD_SIZE=2 MASTER_PORT=29500 train.py ...     one process for each GPU, as mt-launch
                                                           starts it

The contract, as `mt-worker --help` has it:

- rank 0 prints {"mt":"ready"}, {"mt":"step",...}, {"mt":"parked"} and {"mt":"done"}; others nothing;
- the batch size over all processes is MT_BATCH_SIZE, or the sum of --batches; each process trains on
  its part. Losses are summed and divided by the whole batch, and gradients are summed, so that parts
  of different sizes are not biased (a mean over processes would be);
- SIGTERM sets a flag that rides in the all-reduce of the loss: all processes stop after the same
  step, rank 0 writes the checkpoint, renames it into place and says `parked`;
- with MT_POOL=1 the processes load, meet and warm up, rank 0 says {"mt":"loaded"}, and each waits for
  a line `run` before it reads the checkpoint: the processes before it may still train;
- started anew, with any number of processes, training goes on after that step: a sample is drawn from
  its number, so that no sample is left out or seen twice.

Data are drawn at random around a pattern for each of ten classes: nothing is downloaded.
"""

import argparse
import json
import math
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

CLASSES = 10
PIXELS = 32
# Reports whose mean loss is compared with --target-loss, as in the paper of Wei and Shudo.
WINDOW = 10
# Norms of gradients are reported for one step in this many.
EVERY = 8


def vgg(width):
    """Like VGG: convolutions in pairs between poolings, `width` channels in the first (VGG: 64)."""
    layers, channels = [], 3
    for factor in (1, 2, 4, 8):
        for _ in range(2):
            layers += [nn.Conv2d(channels, factor * width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = factor * width
        layers.append(nn.MaxPool2d(2))
    last = 8 * width
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(4 * last, last), nn.ReLU(), nn.Linear(last, CLASSES)
    )


class Block(nn.Module):
    """Two convolutions and a shortcut around them. Group normalisation, unlike batch normalisation, does not depend
    on how a batch is split over processes."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, 1, bias=False),
            nn.GroupNorm(4, width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.GroupNorm(4, width),
        )
        self.around = nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))


def resnet(width):
    """Like ResNet-18 with half of its blocks, `width` channels in the first (ResNet-18: 64)."""
    blocks, channels = [], width
    for factor, stride in ((1, 1), (2, 2), (4, 2), (8, 2)):
        blocks.append(Block(channels, factor * width, stride))
        channels = factor * width
    stem = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.GroupNorm(4, width), nn.ReLU(inplace=True)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, CLASSES)]
    return nn.Sequential(*stem, *blocks, *end)


MODELS = {"vgg": vgg, "resnet": resnet}


class Data:
    """Samples by index."""

    def __init__(self, seed, device):
        generator = torch.Generator().manual_seed(seed)
        self.patterns = torch.randn(CLASSES, 3, PIXELS, PIXELS, generator=generator)
        self.seed, self.device = seed, device

    def draw(self, first, rows):
        images = torch.empty(rows, 3, PIXELS, PIXELS)
        labels = torch.empty(rows, dtype=torch.long)
        for row in range(rows):
            generator = torch.Generator().manual_seed((self.seed << 40) ^ (first + row))
            labels[row] = torch.randint(CLASSES, (), generator=generator)
            noise = torch.randn(3, PIXELS, PIXELS, generator=generator)
            images[row] = 0.3 * self.patterns[labels[row]] + noise
        return images.to(self.device), labels.to(self.device)


def split(total, processes):
    """512 over 3 is 171, 171, 170."""
    return [total // processes + (rank < total % processes) for rank in range(processes)]


def write(path, state):
    """Writes to disk under another name and then renames, so a reader finds a complete file, the old one or the new
    one."""
    new = path + ".new"
    with open(new, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Training:
    def __init__(self, options, rank, sizes, device):
        torch.manual_seed(options.seed)
        self.options, self.rank, self.sizes, self.device = options, rank, sizes, device
        self.model = MODELS[options.model](options.width).to(device)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=options.learning_rate, momentum=0.9)
        self.data = Data(options.seed, device)
        self.step, self.samples, self.losses, self.stop = 0, 0, [], False

    def asked(self, *_):
        self.stop = True

    def tell(self, **members):
        if self.rank == 0:
            print(json.dumps(members, separators=(",", ":")), flush=True)

    def stand_by(self):
        """Does everything that does not depend on the checkpoint, and waits for `run`."""

        def leave(*_):
            # Nothing has been trained since the checkpoint. os.write, because this signal may have interrupted a
            # `print`.
            if self.rank == 0:
                os.write(1, b'{"mt":"parked"}\n')
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
        images = torch.zeros(2, 3, PIXELS, PIXELS, device=self.device)
        F.cross_entropy(self.model(images), torch.zeros(2, dtype=torch.long, device=self.device)).backward()
        if len(self.sizes) > 1:
            dist.barrier()
        self.tell(mt="loaded")
        if sys.stdin.readline().strip() != "run":
            leave()  # The process that sends orders has gone.

    def load(self):
        """Every process reads the file; none writes it before all have trained a step."""
        path = self.options.checkpoint
        if path and os.path.exists(path):
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            for parameter, momentum in zip(self.model.parameters(), state["momentum"]):
                self.optimiser.state[parameter]["momentum_buffer"] = momentum
            step, samples, *self.losses = state["progress"].tolist()
            self.step, self.samples = int(step), int(samples)

    def save(self):
        """Only tensors, because with `weights_only` PyTorch 1.13 does not read Python floats."""
        if self.rank == 0 and self.options.checkpoint:
            buffers = [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]
            progress = torch.tensor([self.step, self.samples, *self.losses], dtype=torch.float64)
            state = {"model": self.model.state_dict(), "momentum": buffers, "progress": progress}
            write(self.options.checkpoint, state)

    def one(self):
        """A step of all processes; returns whether any of them was asked to stop."""
        total = sum(self.sizes)
        first = self.samples + sum(self.sizes[: self.rank])
        images, labels = self.data.draw(first, self.sizes[self.rank])
        self.optimiser.zero_grad(set_to_none=True)
        outputs = self.model(images)
        loss = F.cross_entropy(outputs, labels, reduction="sum") / total
        loss.backward()
        hits = (outputs.argmax(1) == labels).sum().item()
        # Ranks are parts of the batch: norms of their gradients and of the sum give the gradient noise (as in
        # mt_tools.norms). Only parts of the same size as the first one are compared.
        looked_at = len(self.sizes) > 1 and self.step % EVERY == 0
        square = 0.0
        if looked_at and self.sizes[self.rank] == self.sizes[0]:
            square = self.square() * (total / self.sizes[0]) ** 2 / self.sizes.count(self.sizes[0])
        told = torch.tensor([loss.item(), hits / total, float(self.stop), square], device=self.device)
        if len(self.sizes) > 1:
            flat = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()] + [told])
            dist.all_reduce(flat)
            at = 0
            for parameter in self.model.parameters():
                n = parameter.numel()
                parameter.grad.copy_(flat[at : at + n].view_as(parameter))
                at += n
            told = flat[at:]
        whole = self.square() if looked_at else 0.0
        self.optimiser.step()
        self.step += 1
        self.samples += total
        loss, accuracy, stop, square = told.tolist()
        self.losses = (self.losses + [loss])[-WINDOW:]
        norms = {}
        if looked_at and math.isfinite(square + whole):
            norms["norms"] = {"small": self.sizes[0], "small_sq": square, "large": total, "large_sq": whole}
        self.tell(mt="step", step=self.step, samples=total, loss=loss, accuracy=accuracy, **norms)
        return stop > 0

    def square(self):
        """Squared norm of the gradient."""
        return float(sum(p.grad.float().pow(2).sum() for p in self.model.parameters()))

    def is_done(self):
        if self.options.steps and self.step >= self.options.steps:
            return True
        samples = os.environ.get("MT_SAMPLES")
        if samples and self.samples >= int(samples):
            return True
        target = self.options.target_loss
        return target is not None and len(self.losses) == WINDOW and sum(self.losses) / WINDOW <= target

    def run(self):
        if os.environ.get("MT_POOL") == "1":
            self.stand_by()
        signal.signal(signal.SIGTERM, self.asked)
        self.load()
        if len(self.sizes) > 1:
            dist.barrier()
        self.tell(mt="ready", processes=len(self.sizes), batches=self.sizes, step=self.step)
        while not self.is_done():
            if self.one() and not self.is_done():
                self.save()
                return self.tell(mt="parked", step=self.step)
        self.save()
        self.tell(mt="done", samples=self.samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="vgg")
    parser.add_argument("--width", type=int, default=16, help="channels of the first convolution: 4, 8, ...")
    parser.add_argument("--checkpoint", help="go on from this file; written on SIGTERM and at the end")
    parser.add_argument("--batch", type=int, default=int(os.environ.get("MT_BATCH_SIZE") or 64))
    parser.add_argument("--batches", help="samples of each process, rank 0 first: 171,171,170")
    parser.add_argument("--steps", type=int, help="stop after so many, those before a checkpoint included")
    parser.add_argument("--target-loss", type=float)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    sizes = [int(n) for n in options.batches.split(",")] if options.batches else split(options.batch, world)
    if len(sizes) != world or min(sizes) < 1:
        sys.exit(f"train.py: {sizes} are not the samples of {world} processes: give each one or more")
    cuda = torch.cuda.is_available()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    if world > 1:
        # mt-launch shows each process only its own GPU.
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world)
    try:
        Training(options, rank, sizes, torch.device("cuda", 0) if cuda else torch.device("cpu")).run()
    finally:
        if world > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
