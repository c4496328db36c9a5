"""CW of form "box" against a one-example transcription of ART 1.8.1's algorithm in Python numbers and NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.attacks import CW
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.cw_box import MAX_DOUBLINGS, MAX_HALVINGS, LineSearch
from tests.attacks.apgd_states import Recorded

Array = NDArray[np.float64]


class Transcribed:
    """ART's line search on one example: every image that is classified, and the accepted iterates."""

    def __init__(self, model: nn.Module, x: Tensor, y: int, attack: CW) -> None:
        self.model, self.y, self.attack = model, y, attack
        self.shape, flat = x.shape, x.numpy().ravel()
        self.low, self.high = np.maximum(flat - attack.eps, 0), np.minimum(flat + attack.eps, 1)
        self.tried: list[Array] = []
        self.iterates = [flat]
        self.halved = self.doubled = self.stuck = 0
        self.broken = self.run(flat)

    def logits(self, image: Array) -> Tensor:
        logits: Tensor = self.model(torch.from_numpy(image).view(1, *self.shape))[0]
        return logits

    def loss(self, image: Array) -> float:
        z = self.logits(image).tolist()
        other = max(z[: self.y] + z[self.y + 1 :])
        lead = z[self.y] - other if self.attack.targeted else other - z[self.y]
        return float(max(self.attack.confidence - lead, 0.0))

    def gradient(self, image: Array, w: Array) -> Array:
        """Gradient of the loss with respect to w."""
        leaf = torch.from_numpy(image).clone().requires_grad_()
        z = self.model(leaf.view(1, *self.shape))[0]
        other = max((j for j in range(len(z)) if j != self.y), key=z.tolist().__getitem__)
        difference = z[other] - z[self.y] if self.attack.targeted else z[self.y] - z[other]
        by_image: Array = torch.autograd.grad(difference, leaf)[0].numpy()
        by_w: Array = by_image * (self.high - self.low) * (1 - np.tanh(w) ** 2) / 2
        return by_w

    def image(self, w: Array) -> Array:
        image: Array = (np.tanh(w) + 1) / 2 * (self.high - self.low) + self.low
        return image

    def try_step(self, w: Array, step: Array) -> float:
        self.tried.append(self.image(w + step))
        return self.loss(self.tried[-1])

    def run(self, x: Array) -> bool:
        adv, lr = x, self.attack.lr
        w = np.arctanh((2 * (x - self.low) / (self.high - self.low) - 1) * 0.999999)
        loss = self.loss(adv)
        for _ in range(self.attack.steps):
            direction, before = -self.gradient(adv, w), loss
            best_loss, best_lr, tries = loss, 0.0, 0
            while tries < 5 and loss >= before:
                loss = self.try_step(w, lr * direction)
                if loss < best_loss:
                    best_loss, best_lr = loss, lr
                lr, tries = lr / 2, tries + 1
            lr *= 2
            if tries == 1:
                doublings = 0
                while (
                    doublings < 5 and loss <= best_loss and best_loss > 0
                ):  # ART doubles at loss 0 too, without effect
                    lr, doublings = lr * 2, doublings + 1
                    loss = self.try_step(w, lr * direction)
                    if loss < best_loss:
                        best_loss, best_lr = loss, lr
                lr /= 2
                self.doubled += best_lr > lr
            self.halved += tries > 1 and best_lr > 0
            self.stuck += best_lr == 0
            if best_lr > 0:
                w = w + best_lr * direction
                adv, loss = self.image(w), best_loss
            self.iterates.append(adv)
            if best_loss <= 0:
                return True
        return False


@pytest.fixture
def examples(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> tuple[nn.Module, Tensor, Tensor]:
    """Correctly classified digits, black and white pixels included."""
    right = (network(digits[0]).argmax(1) == digits[1]).nonzero()[:14, 0]
    return network, digits[0][right], digits[1][right]


ATTACKS = [
    CW(0.05),
    CW(0.1, steps=6, lr=0.3),
    CW(0.05, steps=6, lr=1.0),
    CW(0.05, confidence=0.5),
    CW(0.2, targeted=True),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_classified_images_agree_with_the_transcription(examples: tuple[nn.Module, Tensor, Tensor], attack: CW) -> None:
    model, x, y = examples
    label = (y + 1) % 10 if attack.targeted else y
    outcomes = set[bool]()
    for i in range(len(x)):
        expected = Transcribed(model, x[i], int(label[i]), attack)
        record = Recorded(model)
        state = AttackState(record, x[i : i + 1], label[i : i + 1], targeted=attack.targeted)
        attack.stages()[0].run(state)
        # The gradients are computed at the start and at accepted iterates, the other images are candidates.
        seen = np.concatenate([image.numpy().reshape(1, -1) for image in record.seen])
        steps = len(expected.iterates) - 1
        assert len(seen) == state.forwards.item() == 1 + steps + len(expected.tried)
        assert state.backwards.item() == steps
        for image in [*expected.tried, *expected.iterates[:-1]]:
            assert np.abs(seen - image).max(1).min() < 1e-9
        np.testing.assert_allclose(state.found[0].numpy().ravel(), expected.iterates[-1], rtol=0, atol=1e-9)
        misclassified = (model(state.found).argmax(1) == label[i]).item() == attack.targeted
        assert state.fooled.item() == misclassified
        assert misclassified or not expected.broken
        outcomes.add(expected.broken)
    assert outcomes == {True, False}


def test_the_transcription_halves_doubles_and_fails(examples: tuple[nn.Module, Tensor, Tensor]) -> None:
    # Otherwise the test above would not compare all branches of the line search.
    model, x, y = examples
    runs = [Transcribed(model, x[i], int(y[i]), attack) for attack in ATTACKS[:3] for i in range(len(x))]
    counts = [sum(getattr(run, branch) for run in runs) for branch in ("halved", "doubled", "stuck")]
    assert min(counts) > 1, counts


def test_a_line_search_classifies_at_most_five_candidates_of_each_kind() -> None:
    assert (MAX_HALVINGS, MAX_DOUBLINGS) == (5, 5)
    layer = nn.Linear(1, 2, dtype=torch.float64)
    layer.weight.data, layer.bias.data = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([9.0, 0.0]).double()
    x, y = torch.full((1, 1), 0.5, dtype=torch.float64), torch.tensor([0])
    # The loss of a linear model decreases at every learning rate: one candidate and five doublings.
    result = CW(0.1, steps=1).run(layer, x, y)
    assert (result.forwards.item(), result.backwards.item()) == (1 + 1 + 1 + 5, 1)
    assert 0 < result.x_adv.item() - 0.5 <= 0.1
    # A constant model's never does: five halvings.
    layer.weight.data.zero_()
    result = CW(0.1, steps=1).run(layer, x, y)
    assert (result.forwards.item(), result.backwards.item()) == (1 + 1 + 5, 1)
    assert result.x_adv.item() == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 8 / 255, 1.0])
def test_candidates_are_in_ball_and_box(eps: float, dtype: torch.dtype) -> None:
    x = torch.rand(50, 3, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[:10] = x[:10].round()
    search = LineSearch.begin(torch.arange(50), x, eps, 0.01)
    everything = torch.ones(50, dtype=torch.bool)
    slack = 1e-6 * eps + torch.finfo(dtype).eps
    assert (search.candidate(0 * search.lr, everything) - x).abs().max() <= slack
    for scale in (1.0, 1e6, -1e6):
        search.direction = torch.full_like(x, scale)
        images = search.candidate(search.lr, everything)
        assert (images >= search.low).all()
        assert (images <= search.high).all()
        assert 0 <= images.min() <= images.max() <= 1
        assert (images - x).abs().max() <= eps + 2 * torch.finfo(dtype).eps
