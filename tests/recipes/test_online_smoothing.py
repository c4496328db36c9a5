"""Online label smoothing: what it accumulates, when it is used, and its state."""

import pytest
import torch
from torch import Tensor

from ctrobust import losses
from ctrobust.recipes import Natural, OnlineSmoothing
from tests.recipes.halves import halves


class Outputs(torch.nn.Module):
    """A network whose outputs are given."""

    def __init__(self, logits_k: Tensor) -> None:
        super().__init__()
        self.logits_k = torch.nn.Parameter(logits_k)

    def forward(self, _: Tensor) -> Tensor:
        return self.logits_k[0]

    def sample_logits(self, _: Tensor, k: int) -> Tensor:
        return self.logits_k[:k]


def test_the_first_epoch_is_half_of_cross_entropy() -> None:
    logits, y = torch.randn(1, 6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    recipe = Natural(loss=OnlineSmoothing(4))
    (loss,) = recipe(Outputs(logits), torch.zeros(6), y, torch.arange(6))
    torch.testing.assert_close(loss, 0.5 * losses.cross_entropy(logits[0], y).mean())


def test_soft_labels_are_the_mean_output_of_correctly_classified_examples() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.5, 0.3]])
    smoothing = OnlineSmoothing(3)
    smoothing.observe(p, torch.tensor([0, 0, 1, 2]))  # the last example is misclassified
    smoothing.end_epoch()
    expected = torch.tensor([[0.6, 0.25, 0.15], [0.1, 0.6, 0.3], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(smoothing.soft_labels, expected)
    assert smoothing.sums.sum() == smoothing.counts.sum() == 0


@pytest.mark.parametrize("samples", [1, 4])
def test_the_mean_output_of_the_samples_is_accumulated(samples: int) -> None:
    y = torch.tensor([0, 1, 2, 0, 1])
    logits_k = torch.rand(4, 5, 3) + 2 * torch.eye(3)[y]
    smoothing = OnlineSmoothing(3)
    list(Natural(loss=smoothing, samples=samples, rho=1.0)(Outputs(logits_k), torch.zeros(5), y, torch.arange(5)))
    expected = OnlineSmoothing(3)
    expected.observe(logits_k[:samples].softmax(-1).mean(0), y)
    torch.testing.assert_close(smoothing.sums, expected.sums)
    assert expected.counts.tolist() == [2, 2, 1]


def test_the_second_epoch_uses_the_soft_labels() -> None:
    logits, y = torch.randn(1, 6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    smoothing = OnlineSmoothing(4)
    smoothing.observe(torch.eye(4) * 0.6 + 0.1, torch.arange(4))
    recipe = Natural(loss=smoothing)
    recipe.end_epoch()
    (loss,) = recipe(Outputs(logits), torch.zeros(6), y, torch.arange(6))
    torch.testing.assert_close(loss, losses.online_label_smoothing(logits[0], y, torch.eye(4) * 0.6 + 0.1).mean())


def test_the_state_is_restored_and_not_shared() -> None:
    smoothing, other = OnlineSmoothing(4), OnlineSmoothing(4)
    smoothing.observe(torch.eye(4) * 0.6 + 0.1, torch.arange(4))
    smoothing.end_epoch()
    smoothing.observe(torch.eye(4), torch.arange(4))
    Natural(loss=other).load_state_dict(Natural(loss=smoothing).state_dict())
    for name, tensor in smoothing.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
    other.observe(torch.eye(4), torch.arange(4))
    assert smoothing.sums.sum() == smoothing.counts.sum() == 4


def test_two_processes_share_soft_labels_and_each_resumes_with_its_own_sums() -> None:
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    p = (torch.rand(7, 3) + 2 * torch.eye(3)[y]).softmax(1)
    whole, parts = OnlineSmoothing(3), [OnlineSmoothing(3, half) for half in halves()]
    whole.observe(p, y)
    for index, part in enumerate(parts):
        part.observe(p[index::2], y[index::2])
    _, state = [part.state_dict() for part in parts]
    for index, half in enumerate(halves()):
        again = OnlineSmoothing(3, half)
        again.load_state_dict(state)
        assert torch.equal(again.sums, parts[index].sums)
        assert torch.equal(again.counts, parts[index].counts)
    for part in (*parts, whole):
        part.end_epoch()
    torch.testing.assert_close(parts[1].soft_labels, whole.soft_labels)
