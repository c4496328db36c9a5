"""The binarization test of Zimmermann et al. 2022: an attack must find a point that is known to be in the ball.

For each image the last linear layer is replaced by a binary one that separates points inside the ball from one point on
its boundary. An adversarial example of this binary problem exists by construction.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import PGD, Norm
from ctrobust.attacks.projections import project
from ctrobust.attacks.random_starts import ball_start, sphere_start
from ctrobust.evaluation.attack_trajectories import follow_pgd
from ctrobust.evaluation.gradient_measurements import ZeroGradient

INSIDE = 0.95
"""The radius of the inner points, relative to that of the ball."""

MOST_INNER_POINTS = 256


class _LayerInput(nn.Module):
    """A model that returns the input (N, D) of one of its linear layers."""

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.model, self.layer = model, layer
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        handle = self.layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            self.model(x)
        finally:
            handle.remove()
        return seen[-1].flatten(1)


class _BinaryReadout(nn.Module):
    """Two logits for each image: row i of the batch has its own weights (D,) and bias. Class 1 is the boundary."""

    def __init__(self, features: nn.Module, weights: Tensor, biases: Tensor) -> None:
        super().__init__()
        self.features, self.weights, self.biases = features, weights, biases
        self.training = features.training

    def forward(self, x: Tensor) -> Tensor:
        score = (self.features(x) * self.weights).sum(1) + self.biases
        return torch.stack([-score, score], 1) / 2


@dataclass(frozen=True, eq=False)
class Binarization:
    """What became of the binary problems.

    Attributes:
        fitted: (N,) whether the features separate the boundary point from the inner points.
        reached: (N,) whether the attack found an image of the boundary's class.
        forwards, backwards: the passes of all images.
    """

    fitted: Tensor
    reached: Tensor
    forwards: int
    backwards: int


def last_linear(model: nn.Module, x: Tensor) -> nn.Linear | None:
    """Return the linear layer that a forward pass calls last; None if there is none."""
    called: list[nn.Linear] = []
    handles = [
        module.register_forward_pre_hook(lambda layer, _: called.append(layer))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return called[-1] if called else None


def binarize(model: nn.Module, x: Tensor, y: Tensor, keys: Tensor, attack: PGD) -> Binarization | None:
    """Make one binary problem per image and attack it; None if the model has no linear layer whose input is features.

    Fewer inner points than features are drawn, so that the problem can be fitted.
    """
    layer = last_linear(model, x[:1])
    if layer is None or layer.in_features < 4:
        return None
    features = _LayerInput(model, layer)
    inner_count = min(MOST_INNER_POINTS, layer.in_features // 2)
    radius, norm, seed = attack.eps, attack.norm, attack.seed
    with torch.no_grad():
        corner = features(_boundary_point(x, keys, radius, norm, draws.stream(seed, "binarization", "corner")))
        inner = torch.stack([
            features(_inner_point(x, keys, INSIDE * radius, norm, draws.stream(seed, "binarization", number)))
            for number in range(inner_count)
        ], 1)  # fmt: skip
    heads = [_fit(inside.cpu().numpy(), outside.cpu().numpy()) for inside, outside in zip(inner, corner, strict=True)]
    fitted = torch.tensor([head is not None for head in heads], device=x.device)
    empty = np.zeros(layer.in_features + 1)
    solved = torch.tensor(np.stack([empty if head is None else head for head in heads])).to(corner)
    readout = _BinaryReadout(features, solved[:, :-1], solved[:, -1])
    followed = follow_pgd(ZeroGradient(readout), x, torch.zeros_like(y), keys, attack, fuse=False)
    return Binarization(
        fitted,
        fitted & (followed.earlier | followed.last),
        forwards=followed.forwards + (inner_count + 1) * len(x),
        backwards=followed.backwards,
    )


def _inner_point(x: Tensor, keys: Tensor, radius: float, norm: Norm, stream: int) -> Tensor:
    return project(ball_start(x, keys, stream, radius, norm), x, radius, norm)


def _boundary_point(x: Tensor, keys: Tensor, radius: float, norm: Norm, stream: int) -> Tensor:
    """Return a random corner of the ball, in l2 a random point of the sphere."""
    if norm == "l2":
        return sphere_start(x, keys, stream, radius, norm)
    signs = draws.uniform(keys, stream, tuple(x.shape[1:])).to(x).sub_(0.5).sign_()
    return project(x + radius * signs, x, radius, norm)


def _fit(inside: NDArray[np.float32], outside: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Weights and bias (D + 1,) of a logistic regression that is positive at the boundary; None if it is not exact."""
    from sklearn.linear_model import LogisticRegression  # imported here because scikit-learn takes long to load

    points = np.concatenate([inside, outside[None]]).astype(np.float64)
    center, scale = points.mean(0), max(float(points.std(0).max()), 1e-12)
    classes = np.array([0] * len(inside) + [1])
    regression = LogisticRegression(C=1e4, class_weight="balanced", max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an unfinished fit: only whether it is exact counts
        regression.fit((points - center) / scale, classes)
    weights = regression.coef_[0] / scale
    bias = float(regression.intercept_[0]) - float(weights @ center)
    scores = points @ weights + bias
    gap = scores[-1] - scores[:-1].max()
    if not gap > 1e-6 * max(1.0, float(np.abs(scores).max())):
        return None
    middle = (scores[-1] + scores[:-1].max()) / 2
    head: NDArray[np.float64] = np.append(weights, bias - middle) / gap
    return head
