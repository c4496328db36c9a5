"""The label's class and the wrong classes."""

import math

import torch

from ctrobust.losses.classes import below_top, label_class, log_wrong_probability, wrong_classes, wrong_deviations


def test_label_class_and_wrong_classes_partition_the_columns() -> None:
    values = torch.arange(12.0).reshape(3, 4)
    y = torch.tensor([0, 2, 3])
    assert label_class(values, y).tolist() == [0, 6, 11]
    assert wrong_classes(values, y).tolist() == [[1, 2, 3], [4, 5, 7], [8, 9, 10]]


def test_wrong_classes_of_k_sub_networks() -> None:
    values = torch.randn(5, 3, 4)
    y = torch.tensor([0, 2, 3])
    assert torch.equal(wrong_classes(values, y), torch.stack([wrong_classes(v, y) for v in values]))


def test_gradient_of_wrong_classes_is_zero_at_the_label() -> None:
    values = torch.randn(2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(wrong_classes(values, torch.tensor([1, 0])).sum(), values)
    assert gradient.tolist() == [[1, 0, 1], [0, 1, 1]]


def test_below_top_subtracts_the_largest_logit() -> None:
    below, top = below_top(torch.tensor([[1.0, 4.0, 3.0], [2.0, 2.0, 2.0]]))
    assert below.tolist() == [[-3, 0, -1], [0, 0, 0]]
    assert top.tolist() == [[4], [2]]


def test_the_largest_logit_gets_its_gradient_through_the_others() -> None:
    wrong = torch.tensor([[1.0, 4.0, 3.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad((below_top(wrong)[0] * torch.tensor([2.0, 5.0, 3.0])).sum(), wrong)
    assert gradient.tolist() == [[2, -5, 3]]


def test_deviations_are_those_of_the_softmax_up_to_a_factor() -> None:
    wrong = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = wrong.softmax(-1)
    expected = (c - c.mean(-1, keepdim=True)) / c.amax(-1, keepdim=True)
    torch.testing.assert_close(wrong_deviations(below_top(wrong)[0]), expected)


def test_deviations_of_equal_logits_are_exactly_zero() -> None:
    wrong = torch.full((7, 9), 0.1) * torch.arange(7.0).unsqueeze(-1)
    assert torch.equal(wrong_deviations(below_top(wrong)[0]), torch.zeros(7, 9))


def test_deviations_of_nearly_equal_logits_are_accurate() -> None:
    deviations = wrong_deviations(torch.tensor([[0.0, -1e-9, -2e-9]]))
    torch.testing.assert_close(deviations, torch.tensor([[1e-9, 0.0, -1e-9]]), rtol=1e-5, atol=1e-14)


def test_log_wrong_probability_is_the_log_of_one_minus_p_y() -> None:
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    torch.testing.assert_close(log_wrong_probability(p.log(), torch.tensor([1])), torch.tensor([math.log(0.7)]))
