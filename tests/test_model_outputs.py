"""Logits are found in the outputs that libraries give, and attacks on such models are those on plain ones."""

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from ctrobust import evaluate
from ctrobust.attacks import Attack, fuse, parse
from ctrobust.attacks.fused import FusedModel
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits

Z, OTHER = torch.arange(6.0).view(2, 3), torch.ones(2, 5)


class WithAuxiliary(NamedTuple):
    """As torchvision's GoogLeNet and Inception give in training mode."""

    auxiliary: Tensor
    logits: Tensor


class ModelOutput(OrderedDict[str, Any]):
    """As Hugging Face's: a dict whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclasses.dataclass
class Plain:
    """An object with logits."""

    logits: Any


OUTPUTS: dict[str, Any] = {
    "tensor": lambda z: z,
    "tuple": lambda z: (z, OTHER),
    "list": lambda z: [z],
    "named tuple": lambda z: WithAuxiliary(OTHER, z),
    "object": lambda z: Plain(z),
    "dict": lambda z: {"features": OTHER, "logits": z},
    "dict of one tensor": lambda z: {"out": z, "loss": None},
    "model output": lambda z: ModelOutput(hidden=OTHER, logits=z, loss=None),
}
every_output = pytest.mark.parametrize("wrap", OUTPUTS.values(), ids=OUTPUTS.keys())


@every_output
def test_logits_are_found(wrap: Any) -> None:
    assert as_logits(wrap(Z)) is Z


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (None, "NoneType"),
        (Z.numpy(), "ndarray"),
        ((), "an empty tuple"),
        ([], "an empty list"),
        ({}, "an empty dict"),
        ((None, Z), "tuple of (NoneType, Tensor)"),
        (((Z,), Z), "tuple of (tuple, Tensor)"),
        ({"a": Z, "b": OTHER}, "dict with {'a': Tensor, 'b': Tensor}"),
        ({"logits": None, "b": OTHER}, "dict with {'logits': NoneType, 'b': Tensor}"),
        (ModelOutput(loss=0.1), "ModelOutput with {'loss': float}"),
        (Plain([1.0]), "Plain"),
    ],
)
def test_other_outputs_are_refused(output: Any, found: str) -> None:
    with pytest.raises(InputError) as caught:
        as_logits(output)
    assert str(caught.value).endswith(f"the only tensor of a dict; got {found}")


class Wrapped(nn.Module):
    """A convolutional network with BatchNorm whose output is wrapped."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)
            ).double()  # fmt: skip
        self.wrap = wrap
        self.eval()

    def forward(self, x: Tensor) -> Any:
        return self.wrap(4 * self.net(x))


def batch() -> tuple[Tensor, Tensor]:
    x = torch.rand(24, 1, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, Wrapped(lambda z: z)(x).argmax(1)


@every_output
@pytest.mark.parametrize(
    "text", ["fgsm:eps=0.05", "pgd:eps=0.05,steps=12", "fab:eps=0.05,steps=3", "noise:eps=0.1,draws=9"]
)
def test_outcomes_do_not_depend_on_the_form_of_the_output(wrap: Any, text: str) -> None:
    (x, y), attack = batch(), parse(text)
    assert isinstance(attack, Attack)
    expected = attack.run(Wrapped(lambda z: z), x, y)
    found = attack.run(Wrapped(wrap), x, y)
    assert 0 < expected.success.sum() < 24 or text.startswith("noise")
    torch.testing.assert_close(found.x_adv, expected.x_adv, rtol=0, atol=1e-9)
    assert torch.equal(found.success, expected.success)
    assert torch.equal(found.forwards, expected.forwards)
    evaluation = evaluate(Wrapped(wrap), (x, y), attack)
    assert torch.equal(torch.from_numpy(evaluation.robust), ~expected.success)


@every_output
def test_wrapped_outputs_have_a_fused_copy(wrap: Any) -> None:
    x, _ = batch()
    model = Wrapped(wrap)
    copy = fuse(model, x)
    assert isinstance(copy, FusedModel)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in copy.fused.modules())
    torch.testing.assert_close(copy(x), as_logits(model(x)))


def test_an_attack_raises_what_it_found() -> None:
    x, y = batch()
    for text in ("fgsm:eps=0.05", "pgd:eps=0.05,steps=12", "autoattack:eps=0.1"):
        with pytest.raises(InputError, match=r"only tensor of a dict; got tuple of \(str, Tensor\)"):
            parse(text).run(Wrapped(lambda z: ("logits", z)), x, y)
