"""Whether APGD, FAB, Square and AutoAttack are as strong as pyautoattack's, at full length, on MNIST.

    python -m benchmarks.strength natural --data-root DIR      most of an hour; without --data-root on the digits
    python -m benchmarks.strength trained --data-root DIR      the same for the other network

500 test images; two MNISTNets of width 64, one trained as usual, one on examples of PGD; Linf. tests/attacks has the
same comparison in short. Every success, ours and theirs, is looked at alone: in the ball, in the box, misclassified.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from tests.attacks.strength import HEADER, Budget, compare, fit, fools, ours, radius, theirs
from torch import Tensor, nn

from ctrobust import data
from ctrobust.attacks import APGD, FAB, PGD, Attack, Square, fuse
from ctrobust.training import keep_freed_memory

TRAINING = {"natural": (0.0, 3), "trained": (0.2, 6)}
"""Network -> radius of the examples it is trained on, epochs."""
NAMES = ("apgd-ce", "apgd-t", "fab-t", "square", "autoattack")
EXPLAINED = """\
# robust: share of all examples that stand. only: how many examples one side alone fools. passes: forward + backward,
# for an example that stands. known: forward passes of theirs on images whose logits are known, which ours leaves out:
# the clean image again (seven times before the first attack, once in each, once for each target), and the image that an
# attack gives back. chance: of so few more fooled by ours, if both were as strong (sign test).
"""


def examples(root: Path | None, count: int, training: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, then those to attack."""
    name = "mnist" if root else "digits"
    train, test = data.load(name, "train", root), data.load(name, "test", root)
    x, y = torch.cat([test.images[:count], train.images]), torch.cat([test.labels[:count], train.labels])
    x = x[: count + training].float() / 255
    return x[count:], y[count : count + training], x[:count], y[:count]


def strength(kind: str, model: nn.Module, x: Tensor, y: Tensor, eps: float, budget: Budget) -> None:
    """One network under all attacks."""
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float().mean().item()
    print(f"\n## {kind}, accuracy {100 * right:.1f}%, eps {eps:.2f}\n{HEADER}   chance", flush=True)
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            found = theirs(model, x, y, {name: len(x)}, eps, budget, Path(folder))
            row = compare(name, ours(eps, budget)[name], model, x, y, found, budget.targets)
            print(f"{row}   {row.chance:.2f}", flush=True)
            if name == "square":
                again = theirs(model, x, y, {name: len(x)}, eps, budget, Path(folder), seed=1)
                broken_by = [fools(model, x, y, images["square x_adv"], eps) for images in (found, again)]
                same = (broken_by[0] == broken_by[1]).float().mean().item()
                active = (~broken_by[1]).float().mean().item()
                print(
                    f"{'':10} theirs with another seed: {100 * active:.1f}% robust, agree {100 * same:.1f}%", flush=True
                )


def independence(model: nn.Module, x: Tensor, y: Tensor, eps: float) -> None:
    """How many float32 outcomes depend on the batch size."""
    fused = fuse(model, x)
    tried: tuple[Attack, ...] = (PGD(eps), APGD(eps, steps=50), FAB(eps, steps=10, targets=2), Square(eps, queries=200))
    print("\n## float32 outcomes that differ from those of batches of 250")
    for attack in tried:
        found = []
        for size in (250, 64, 7, 1):
            keys = torch.arange(len(x)).split(size)
            found.append(torch.cat([attack.run(fused, x[stage], y[stage], stage).success for stage in keys]))
        differ = ", ".join(
            f"{size}: {int((one != found[0]).sum())}" for size, one in zip((64, 7, 1), found[1:], strict=True)
        )
        print(f"{attack!s:40} of {len(x)} at batch size {differ}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=list(TRAINING))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--training", type=int, default=10_000, help="images to train on, at most")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--targets", type=int, default=9)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--share", type=float, default=0.3, help="PGD-20 leaves less than this at the radius chosen")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    budget = Budget(options.width, options.steps, options.targets, options.queries, options.threads)
    x, y, x_test, y_test = examples(options.data_root, options.count, options.training)
    source = "MNIST" if options.data_root else "digits"
    print(f"# ours beside pyautoattack 0.2.0, torch {torch.__version__}; {len(x_test)} images of {source}, {budget}")
    print(EXPLAINED, end="")
    eps, epochs = TRAINING[options.network]
    model = fit(x, y, width=options.width, epochs=epochs, eps=eps)
    chosen = radius(model, x_test, y_test, options.share)
    title = f"{options.network}, {epochs} epochs" + (f" on PGD within {eps}" if eps else "")
    strength(title, model, x_test, y_test, chosen, budget)
    independence(model, x_test[:250], y_test[:250], chosen)


if __name__ == "__main__":
    main()
