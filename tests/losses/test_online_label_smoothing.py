"""Online label smoothing."""

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.losses import cross_entropy, online_label_smoothing

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Y = torch.tensor([0])


def test_hand_computed() -> None:
    soft_labels = torch.zeros(4, 4)
    soft_labels[0] = torch.tensor([0.7, 0.2, 0.07, 0.03])
    assert online_label_smoothing(P, Y, soft_labels).item() == pytest.approx(0.820908, abs=1e-6)


def test_first_epoch_is_half_of_cross_entropy() -> None:
    assert torch.equal(online_label_smoothing(P, Y, torch.zeros(4, 4)), cross_entropy(P, Y) / 2)


def test_each_example_takes_the_row_of_its_label() -> None:
    logits, y = P.expand(4, 4), torch.arange(4)
    loss = online_label_smoothing(logits, y, torch.eye(4).roll(1, dims=1))
    ce = cross_entropy(logits, y)
    torch.testing.assert_close(loss, (ce + ce.roll(-1)) / 2)


def test_soft_labels_of_another_precision() -> None:
    loss = online_label_smoothing(P.bfloat16(), Y, torch.eye(4, dtype=torch.float64))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, cross_entropy(P.bfloat16(), Y))


@pytest.mark.parametrize("soft_labels", [torch.zeros(4), torch.zeros(3, 4), torch.zeros(4, 4, dtype=torch.int64)])
def test_impossible_arguments_are_refused(soft_labels: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"soft_labels must be a floating tensor of shape \(4, 4\) for 4 classes; got"):
        online_label_smoothing(P, Y, soft_labels)


def test_the_weight_of_the_soft_labels_moves_from_cross_entropy_to_them() -> None:
    logits, y, soft = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 0]), torch.rand(4, 4)
    to_soft = -(soft[y] * logits.log_softmax(1)).sum(1)
    label = cross_entropy(logits, y)
    for weight in (0.0, 0.3, 1.0):
        expected = (1 - weight) * label + weight * to_soft
        torch.testing.assert_close(online_label_smoothing(logits, y, soft, weight), expected)
    assert torch.equal(online_label_smoothing(logits, y, soft), (label + to_soft) / 2)
    with pytest.raises(InputError, match="soft_weight must be a finite number between 0 and 1; got 2"):
        online_label_smoothing(logits, y, soft, 2.0)
