"""Our attacks beside pyautoattack's on the same MNISTNets: for the test, and at full length for the benchmark."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust import models
from ctrobust.attacks import APGD, FAB, PGD, Attack, Square
from ctrobust.attacks.autoattack import AutoAttack

PEERS = Path(__file__).parents[2] / ".peers"


@dataclass(frozen=True)
class Budget:
    """What both sides get; AutoAttack has 100 steps and 9 targets on either."""

    width: int = 64
    steps: int = 100
    targets: int = 9
    queries: int = 5000
    threads: int = 1


def fit(x: Tensor, y: Tensor, *, width: int, epochs: int, eps: float = 0.0) -> nn.Module:
    """An MNISTNet trained by Adam, with `eps` on examples of PGD."""
    torch.manual_seed(0)
    mean, std = (x.mean().item(),), (x.std().item(),)
    model = models.build("mnistnet", num_classes=10, in_channels=1, width=width, noise="none", mean=mean, std=std)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.032 / width)
    attack = PGD(eps, steps=3, step_size=eps / 2, success="last")
    for epoch in range(epochs):
        for i, batch in enumerate(torch.randperm(len(x)).split(64)):
            seen = dataclasses.replace(attack, seed=1000 * epoch + i)(model, x[batch], y[batch]) if eps else x[batch]
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(model(seen), y[batch]))
            optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def radius(model: nn.Module, x: Tensor, y: Tensor, share: float) -> float:
    """The first of 0.04, 0.06, .. at which PGD leaves less than this share."""
    tried = (PGD(step / 50) for step in range(2, 50))
    return next(attack.eps for attack in tried if attack.run(model, x, y).success.float().mean() > 1 - share)


def ours(eps: float, budget: Budget) -> dict[str, Attack]:
    steps, targets = budget.steps, budget.targets
    return {
        "apgd-ce": APGD(eps),
        "apgd-t": APGD(eps, steps=steps, loss="dlr", targets=targets),
        "fab-t": FAB(eps, steps=steps, targets=targets),
        "square": Square(eps, queries=budget.queries),
        "autoattack": AutoAttack(eps, queries=budget.queries),
    }


def known(name: str, targets: int) -> int:
    """How many forward passes of the reference, for an example that stands, are of images whose logits are known.

    Of the clean image there are seven more before the first attack, one in each attack, and one for each target class
    to rank them; the image that an attack gives back is classified again, by FAB for each target, by Square twice.
    """
    each = {"apgd-ce": 2, "apgd-t": 2 + targets, "fab-t": 2 + 2 * targets, "square": 3}
    return 7 + (sum(each.values()) if name == "autoattack" else each[name])


def theirs(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    counts: Mapping[str, int],
    eps: float,
    budget: Budget,
    folder: Path,
    seed: int = 0,
) -> dict[str, Tensor]:
    """For each attack, on the first so many: "NAME x_adv", and "NAME passes", (2,) both ways for who stands."""
    save_file({**model.state_dict(), "x": x, "y": y}, folder / "in.safetensors")
    told = json.dumps({**dataclasses.asdict(budget), "eps": eps, "counts": dict(counts), "seed": seed})
    command = [sys.executable, str(Path(__file__).with_name("reference.py"))]
    command += [str(folder / "in.safetensors"), str(folder / "out.safetensors"), told]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(PEERS)})
    found: dict[str, Tensor] = load_file(folder / "out.safetensors")
    return found


def fools(model: nn.Module, x: Tensor, y: Tensor, x_adv: Tensor, eps: float) -> Tensor:
    """(N,) whether images are in the ball and the box and misclassified, each looked at alone."""
    found = []
    for clean, label, image in zip(x, y, x_adv, strict=True):
        far = (image.double() - clean.double()).abs().max().item() > eps + 4 * torch.finfo(image.dtype).eps
        boxed = image.min().item() >= 0.0 and image.max().item() <= 1.0
        with torch.no_grad():
            found.append(boxed and not far and model(image[None]).argmax().item() != label.item())
    return torch.tensor(found)


@dataclass(frozen=True)
class Comparison:
    """One attack, ours beside theirs: who stands, and passes (forward, backward) for who stands, the fewest of ours."""

    name: str
    count: int
    ours: int
    theirs: int
    only_ours: int
    only_theirs: int
    passes: tuple[int, int]
    their_passes: tuple[int, int]
    known: int

    @property
    def agree(self) -> float:
        """The share of examples with the same outcome."""
        return 1 - (self.only_ours + self.only_theirs) / self.count

    @property
    def chance(self) -> float:
        """How likely theirs would be alone to fool so many of those that one alone fools, if both were as strong."""
        differ = self.only_ours + self.only_theirs
        return float(sum(math.comb(differ, k) for k in range(self.only_theirs, differ + 1)) / float(2**differ))

    def __str__(self) -> str:
        return (
            f"{self.name:10} {100 * self.ours / self.count:7.1f} {100 * self.theirs / self.count:7.1f} "
            f"{100 * self.agree:7.1f} {self.only_ours:6} {self.only_theirs:6}   "
            f"{'{} + {}'.format(*self.passes):>13} {'{} + {}'.format(*self.their_passes):>13} {self.known:6}"
        )


HEADER = (
    f"{'':10} {'robust%':>7} {'theirs%':>7} {'agree%':>7} {'only':>6} {'only':>6}   {'passes':>13} "
    f"{'their passes':>13} {'known':>6}\n{'':10} {'':7} {'':7} {'':7} {'ours':>6} {'theirs':>6}"
)
"""Of the columns of a comparison: `only`, how many examples one alone fools; passes forward + backward."""


def compare(
    name: str, attack: Attack, model: nn.Module, x: Tensor, y: Tensor, found: dict[str, Tensor], targets: int
) -> Comparison:
    """Run ours, check each of its successes alone, and put it beside what theirs found."""
    result = attack.run(model, x, y)
    misclassified = fools(model, x, y, result.x_adv, attack.eps)
    assert torch.equal(misclassified, result.success), (
        f"{name}: {int((misclassified != result.success).sum())} successes are none"
    )
    their_fell = fools(model, x, y, found[f"{name} x_adv"], attack.eps)
    forwards, backwards = (counts[~misclassified].min().item() for counts in (result.forwards, result.backwards))
    their_forwards, their_backwards = found[f"{name} passes"].tolist()
    return Comparison(
        name=name,
        count=len(x),
        ours=int((~misclassified).sum()),
        theirs=int((~their_fell).sum()),
        only_ours=int((misclassified & ~their_fell).sum()),
        only_theirs=int((their_fell & ~misclassified).sum()),
        passes=(int(forwards), int(backwards)),
        their_passes=(their_forwards, their_backwards),
        known=known(name, 9 if name == "autoattack" else targets),
    )
