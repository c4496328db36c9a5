"""What the convolution of single-channel images gains by itself: PGD on a fused mnistnet with and without it.

    python -m benchmarks.single_channel | tee benchmarks/output/single-channel.txt

Both forms run in alternation inside one process; the ratio is of the times of one pair.
"""

import statistics
import time

import torch
from torch import nn

from ctrobust import models
from ctrobust.attacks import PGD, fuse
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.single_channel import SingleChannelConvolution

ROUNDS, BATCH, THREADS = 25, 128, 1
WANTED = 1.05
"""The convolution stays only if attacks take at least so much longer without it."""


def without_it(module: nn.Module) -> nn.Module:
    """Put the plain convolutions back."""
    for name, child in module.named_children():
        if isinstance(child, SingleChannelConvolution):
            setattr(module, name, child.convolution)
        else:
            without_it(child)
    return module


def fused(model: nn.Module, x: torch.Tensor) -> FusedModel:
    found = fuse(model, x)
    assert isinstance(found, FusedModel)
    return found


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    x = torch.rand(BATCH, 1, 28, 28)
    first, second = (models.build("mnistnet", num_classes=10, in_channels=1).eval() for _ in range(2))
    second.load_state_dict(first.state_dict())
    y = first(x).argmax(1)
    attack = PGD(eps=1e-4, steps=20, success="last")  # no example is dropped
    special, plain = fused(first, x), fused(second, x)
    without_it(plain.fused)
    kinds = [
        sum(isinstance(one, SingleChannelConvolution) for one in model.fused.modules()) for model in (special, plain)
    ]
    assert kinds == [1, 0], kinds
    ratios, times = [], []
    for turn in range(ROUNDS + 2):
        seconds = []
        for model in (special, plain) if turn % 2 else (plain, special):
            started = time.perf_counter()
            attack(model, x, y)
            seconds.append(time.perf_counter() - started)
        ours, theirs = seconds if turn % 2 else reversed(seconds)
        if turn >= 2:  # the first two warm up
            ratios.append(theirs / ours)
            times.append(ours)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(
        f"# mnistnet, batch {BATCH}, PGD-20, {THREADS} thread, torch {torch.__version__}, "
        f"{ROUNDS} rounds; median [quartiles]"
    )
    print(f"with the single-channel convolution: {1000 * statistics.median(times):.1f} ms for 20 steps")
    print(f"time without it / with it: {middle:.3f} [{low:.3f}, {high:.3f}], wanted >= {WANTED}")


if __name__ == "__main__":
    main()
