"""Shared by the tests of adversarial recipes: a small network with BatchNorm, batches, and a minimal training loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ctrobust.models import Classifier
from ctrobust.recipes import Recipe

EPS = 8 / 255
Batch = tuple[Tensor, Tensor, Tensor]
Reference = Callable[[nn.Module, torch.optim.SGD, Sequence[Batch]], None]


def batches(epochs: int = 1, sizes: Sequence[int] = (8, 8, 5)) -> list[Batch]:
    """Images, labels and keys, the same in each epoch; some pixels are exactly 0 or 1."""
    generator = torch.Generator().manual_seed(1)
    epoch, first = list[Batch](), 0
    for size in sizes:
        x = (1.4 * torch.rand(size, 3, 8, 8, generator=generator) - 0.2).clamp(0, 1)
        y = torch.randint(10, (size,), generator=generator)
        epoch.append((x, y, torch.arange(first, first + size)))
        first += size
    return epoch * epochs


def network(seed: int = 0) -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        head = nn.Sequential(nn.Linear(512, 10))
        return Classifier(body, head, num_classes=10, mean=(0.5,) * 3, std=(0.25,) * 3).train()


def optimizer(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)


def descend(
    recipe: Recipe, model: Classifier, data: Sequence[Batch], sgd: torch.optim.SGD | None = None
) -> list[float]:
    """Train, and return the losses."""
    sgd, losses = sgd or optimizer(model), []
    for x, y, keys in data:
        for loss in recipe(model, x, y, keys):
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    return losses


def trained(recipe: Recipe, data: Sequence[Batch]) -> dict[str, Tensor]:
    """Weights and BatchNorm statistics after training."""
    model = network()
    descend(recipe, model, data)
    return model.state_dict()


def trained_with_resumes(make: Callable[[], Recipe], data: Sequence[Batch]) -> dict[str, Tensor]:
    """The same with a new recipe for each batch, which loads the state of the previous one after an epoch's end."""
    model, state = network(), make().state_dict()
    sgd = optimizer(model)
    for batch in data:
        recipe = make()
        recipe.load_state_dict(state)
        descend(recipe, model, [batch], sgd)
        recipe.end_epoch()
        state = {name: tensor.clone() for name, tensor in recipe.state_dict().items()}
    return model.state_dict()


def trained_by_reference(reference: Reference, data: Sequence[Batch]) -> dict[str, Tensor]:
    """Weights and BatchNorm statistics after training by a reference implementation."""
    model = network()
    reference(model, optimizer(model), data)
    return model.state_dict()


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    """Whether two state dicts are bit-identical."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@dataclass
class Passes:
    """The passes of a network: one entry per forward pass, and one in `backwards` per backward pass.

    Attributes:
        inputs: the images of each forward pass.
        training: whether BatchNorm was in training mode.
        parameter_gradients: whether any parameter required a gradient.
        input_gradients: whether the images required a gradient.
        backwards: an entry for each gradient that reached the logits.
    """

    inputs: list[Tensor] = field(default_factory=list)
    training: list[bool] = field(default_factory=list)
    parameter_gradients: list[bool] = field(default_factory=list)
    input_gradients: list[bool] = field(default_factory=list)
    backwards: list[None] = field(default_factory=list)


def record_passes(model: Classifier) -> Passes:
    """Record the passes of a network from now on."""
    passes = Passes()
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d))

    def before_forward(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        passes.inputs.append(arguments[0].detach().clone())
        passes.input_gradients.append(arguments[0].requires_grad)
        passes.training.append(norm.training)
        passes.parameter_gradients.append(any(parameter.requires_grad for parameter in model.parameters()))

    def after_forward(_: nn.Module, __: object, logits: Tensor) -> None:
        if logits.requires_grad:
            logits.register_hook(lambda _: passes.backwards.append(None))

    model.register_forward_pre_hook(before_forward)
    model.register_forward_hook(after_forward)
    return passes


def assert_same_trajectory(recipe: Recipe, reference: Reference, data: Sequence[Batch]) -> None:
    """Check that both show the network the same images, pass by pass, and leave the same weights.

    In float64: rounding errors of equivalent formulas are then too small to flip the sign of a gradient.
    """
    exact = [(x.double(), y, keys) for x, y, keys in data]
    one, two = network().double(), network().double()
    found, expected = record_passes(one), record_passes(two)
    descend(recipe, one, exact)
    reference(two, optimizer(two), exact)
    torch.testing.assert_close(found.inputs, expected.inputs)
    torch.testing.assert_close(one.state_dict(), two.state_dict())


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """BatchNorm's running statistics."""
    return {name: tensor for name, tensor in model.state_dict().items() if "running" in name}


def in_ball_and_box(adv: Tensor, x: Tensor, eps: float = EPS) -> bool:
    """Whether adv is in the eps ball, up to rounding, and in [0, 1]."""
    return bool((adv - x).abs().max() <= eps + 1e-6 and adv.min() >= 0 and adv.max() <= 1)
