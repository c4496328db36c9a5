"""Small models and images for the tests of APGD and FAB, and a record of an attack's iterates."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import APGD
from ctrobust.attacks.attack_state import AttackState

ONE = torch.float64


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


class Recorded(nn.Module):
    """A model that stores every batch it was given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seen = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        logits: Tensor = self.model(x)
        return logits


def recorded(attack: APGD, model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, AttackState]:
    """The start and all iterates of the last stage, (1 + steps, N, ...), if no example is broken; and the state."""
    record = Recorded(model)
    state = AttackState(record, x, y, targeted=attack.targeted)
    attack.stages()[-1].run(state)
    return torch.stack(record.seen[1:]), state


def net(seed: int, C: int = 5, *, lead: float = 12.0, linear: bool = False) -> nn.Sequential:
    """A fixed model of 12 pixels; `lead` is added to logit 0, so that no example of label 0 is broken."""
    generator = torch.Generator().manual_seed(seed)
    hidden = [nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, C)]
    model = nn.Sequential(nn.Flatten(), *([nn.Linear(12, C)] if linear else hidden)).to(ONE)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=ONE)
    model[-1].get_parameter("weight").data /= 2
    model[-1].get_parameter("bias").data[0] += lead
    return model


def images(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 1, 3, 4, generator=torch.Generator().manual_seed(seed), dtype=ONE)
