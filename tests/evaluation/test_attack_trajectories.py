import torch
from torch import Tensor, nn

from ctrobust.attacks import PGD
from ctrobust.evaluation.attack_trajectories import Trajectories, follow_pgd


def linear() -> nn.Sequential:
    """Class 0 where the sum of four pixels is above 2."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0] * 4, [0.0] * 4]))
        layer.bias.copy_(torch.tensor([-2.0, 0.0]))
    return nn.Sequential(nn.Flatten(), layer).eval()


def images(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1, 1).expand(-1, 1, 2, 2).contiguous()


def test_the_loss_grows_at_every_step_until_the_boundary_of_the_ball() -> None:
    x, y = images(0.6, 0.9), torch.zeros(2, dtype=torch.int64)
    found = follow_pgd(linear(), x, y, None, PGD(eps=0.2, steps=12, step_size=0.05), fuse=False)
    assert found.values.shape == (12, 2)
    assert (found.values.diff(dim=0) >= 0).all()
    torch.testing.assert_close(found.values[-1], torch.tensor([4 * 0.2 - 0.4, 4 * 0.2 - 1.6]))
    assert found.earlier.tolist() == [True, False]
    assert found.last.tolist() == [True, False]
    assert (found.forwards, found.backwards) == (2 * 14, 2 * 12)  # the clean image, 12 steps and the last one
    assert found.late_gain().tolist() == [0.0, 0.0]


def test_steps_that_are_too_small_leave_the_attack_unfinished() -> None:
    found = follow_pgd(
        linear(), images(0.9), torch.zeros(1, dtype=torch.int64), None,
        PGD(eps=0.4, steps=20, step_size=0.01, random_start=False),
    )  # fmt: skip
    torch.testing.assert_close(found.late_gain(), torch.tensor([2 / 19]), rtol=1e-4, atol=1e-4)


def test_gain_is_of_the_largest_loss_so_far() -> None:
    values = torch.tensor([0.0, 1.0, 4.0, 2.0, 3.0, 2.0, 1.0, 3.0, 1.0, 8.0])[:, None]
    nothing = torch.zeros(1, dtype=torch.bool)
    assert Trajectories(values, nothing, nothing, 0, 0).late_gain().tolist() == [0.5]
    assert Trajectories(values[:9], nothing, nothing, 0, 0).late_gain().tolist() == [0.0]


def test_an_adversarial_iterate_that_is_left_again() -> None:
    """The second step crosses a narrow band of the wrong class; the attack's last image is on its other side."""

    class Band(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total = x.flatten(1).mean(1)
            logit = (total - 0.5).abs() - 0.05
            return torch.stack([logit, -logit], 1)

    x, y = images(0.66), torch.zeros(1, dtype=torch.int64)
    found = follow_pgd(Band().eval(), x, y, None, PGD(eps=0.5, steps=2, step_size=0.15, random_start=False))
    assert found.earlier.tolist() == [True]
    assert found.last.tolist() == [False]
