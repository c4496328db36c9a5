"""Comparison of our attacks with pyautoattack's on the same MNISTNets, for the test and for the benchmark."""

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
    """Network width and attack budget of both sides; AutoAttack has 100 steps and 9 targets in both."""

    width: int = 64
    steps: int = 100
    targets: int = 9
    queries: int = 5000
    threads: int = 1


def fit(x: Tensor, y: Tensor, *, width: int, epochs: int, eps: float = 0.0) -> nn.Module:
    """Train an MNISTNet by Adam, with `eps` > 0 on adversarial examples of PGD."""
    torch.manual_seed(0)
    mean, std = (x.mean().item(),), (x.std().item(),)
    model = models.build("mnistnet", num_classes=10, in_channels=1, width=width, noise="none", mean=mean, std=std)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.032 / width)
    attack = PGD(eps, steps=3, step_size=eps / 2, success="last")
    for epoch in range(epochs):
        for i, batch in enumerate(torch.randperm(len(x)).split(64)):
            images = dataclasses.replace(attack, seed=1000 * epoch + i)(model, x[batch], y[batch]) if eps else x[batch]
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(model(images), y[batch]))
            optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def radius(model: nn.Module, x: Tensor, y: Tensor, share: float) -> float:
    """The first eps of 0.04, 0.06, .. at which the robust accuracy under PGD is below this share."""
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
    """Number of forward passes of pyautoattack, per robust example, of images whose logits are already known.

    The clean image is classified seven more times before the first attack, once in each attack, and once for each
    target class to rank them; an attack's returned image is classified again, by FAB for each target, by Square twice.
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
    """Run pyautoattack's attacks, each on the first `counts[name]` examples.

    Returns "NAME x_adv", the images, and "NAME passes" (2,), the forward and backward passes per robust example.
    """
    save_file({**model.state_dict(), "x": x, "y": y}, folder / "in.safetensors")
    options = json.dumps({**dataclasses.asdict(budget), "eps": eps, "counts": dict(counts), "seed": seed})
    command = [sys.executable, str(Path(__file__).with_name("reference.py"))]
    command += [str(folder / "in.safetensors"), str(folder / "out.safetensors"), options]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(PEERS)})
    found: dict[str, Tensor] = load_file(folder / "out.safetensors")
    return found


def fools(model: nn.Module, x: Tensor, y: Tensor, x_adv: Tensor, eps: float) -> Tensor:
    """Mask (N,) of images that are in the ball and the box and misclassified, each classified alone."""
    found = []
    for clean, label, image in zip(x, y, x_adv, strict=True):
        outside = (image.double() - clean.double()).abs().max().item() > eps + 4 * torch.finfo(image.dtype).eps
        boxed = image.min().item() >= 0.0 and image.max().item() <= 1.0
        with torch.no_grad():
            found.append(boxed and not outside and model(image[None]).argmax().item() != label.item())
    return torch.tensor(found)


@dataclass(frozen=True)
class Comparison:
    """One attack, ours and theirs: numbers of robust examples, and (forward, backward) passes per robust example."""

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
        """Fraction of examples with the same outcome."""
        return 1 - (self.only_ours + self.only_theirs) / self.count

    @property
    def chance(self) -> float:
        """Sign test: probability of at least `only_theirs` of the differing outcomes if both are equally strong."""
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
"""Column titles of a comparison: `only` is the number of examples that one side alone breaks."""


def compare(
    name: str, attack: Attack, model: nn.Module, x: Tensor, y: Tensor, found: dict[str, Tensor], targets: int
) -> Comparison:
    """Run our attack, verify each of its successes alone, and compare with theirs."""
    result = attack.run(model, x, y)
    broken = fools(model, x, y, result.x_adv, attack.eps)
    assert torch.equal(broken, result.success), (
        f"{name}: {int((broken != result.success).sum())} successes are not confirmed"
    )
    their_broken = fools(model, x, y, found[f"{name} x_adv"], attack.eps)
    forwards, backwards = (counts[~broken].min().item() for counts in (result.forwards, result.backwards))
    their_forwards, their_backwards = found[f"{name} passes"].tolist()
    return Comparison(
        name=name,
        count=len(x),
        ours=int((~broken).sum()),
        theirs=int((~their_broken).sum()),
        only_ours=int((broken & ~their_broken).sum()),
        only_theirs=int((their_broken & ~broken).sum()),
        passes=(int(forwards), int(backwards)),
        their_passes=(their_forwards, their_backwards),
        known=known(name, 9 if name == "autoattack" else targets),
    )
