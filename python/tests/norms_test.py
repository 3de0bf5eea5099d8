"""The estimate of the gradient noise from norms, against gradients whose noise is known. Needs PyTorch."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
try:
    import torch
except ImportError:
    torch = None
from mt_tools.norms import GradientNorms  # noqa: E402


def estimates(norms):
    """|G|^2 and S (McCandlish et al. 2018, appendix A.1)."""
    small, small_sq, large, large_sq = norms
    return (large * large_sq - small * small_sq) / (large - small), (small_sq - large_sq) / (1 / small - 1 / large)


STEPS, RANKS = 1000, 2


def rank_of_two(rank, folder):
    """One rank of DistributedDataParallel; rank 0 writes the norms of each step."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    torch.manual_seed(rank)
    line = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.ones_(line.weight)
    ddp = torch.nn.parallel.DistributedDataParallel(line)
    norms, told = GradientNorms(ddp.parameters(), every=1), []
    norms.watch(ddp)
    for _ in range(STEPS):
        ddp.zero_grad()
        # The gradient of the loss is the mean of the inputs: mean 1, variance 9 in each of four directions.
        ddp(1 + 3 * torch.randn(6, 4)).mean().backward()
        told.append([float(v) for v in norms.whole_of_ranks(6)])
    if rank == 0:
        torch.save(told, f"{folder}/told")
    torch.distributed.destroy_process_group()


@unittest.skipUnless(torch, "no PyTorch")
class Norms(unittest.TestCase):
    def test_micro_batches_show_the_noise_of_samples(self):
        # The gradient of (w - x)^2 / 2 is w - x: mean 1 - 0, variance 9 in each of four directions.
        torch.manual_seed(1)
        weights = torch.nn.Parameter(torch.ones(4))
        norms, signal, noise = GradientNorms([weights], every=1), [], []
        for _ in range(3000):
            weights.grad = None
            x = 3 * torch.randn(24, 4)
            for micro in x.split(6):
                ((weights - micro) ** 2).sum(1).mean().div(2 * 4).backward()
                norms.part(len(micro))
            told = norms.whole()
            self.assertEqual((told[0], told[2]), (6, 24))
            for mean, value in zip((signal, noise), estimates([float(v) for v in told])):
                mean.append(value)
        signal, noise = sum(signal) / len(signal), sum(noise) / len(noise)
        self.assertAlmostEqual(signal, 4, delta=0.2)
        self.assertAlmostEqual(noise, 36, delta=1.5)

    @unittest.skipUnless(torch and torch.distributed.is_available(), "no torch.distributed")
    def test_ranks_show_the_noise_of_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(rank_of_two, (folder,), nprocs=RANKS)
            told = torch.load(f"{folder}/told")
        self.assertEqual({(small, large) for small, _, large, _ in told}, {(6, 12)})
        signal, noise = (sum(values) / STEPS for values in zip(*map(estimates, told)))
        # Standard errors over the steps: 0.2 and 1.1.
        self.assertAlmostEqual(signal, 4, delta=0.8)
        self.assertAlmostEqual(noise, 36, delta=4)

    def test_one_step_in_every_is_looked_at_and_one_part_shows_nothing(self):
        weights = torch.nn.Parameter(torch.ones(2))
        weights.grad = torch.ones(2)
        norms = GradientNorms([weights], every=3)
        seen = []
        for parts in (2, 2, 2, 1, 2, 2, 2):
            for _ in range(parts):
                norms.part(4)
            seen.append(norms.whole() is not None)
        self.assertEqual(seen, [True, False, False, False, False, False, True])


if __name__ == "__main__":
    unittest.main()
