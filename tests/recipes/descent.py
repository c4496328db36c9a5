"""What the tests of adversarial recipes share: a small network with BatchNorm, batches, and the plainest loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ctrobust.models import Classifier
from ctrobust.recipes import Recipe

EPS = 8 / 255
Batch = tuple[Tensor, Tensor, Tensor]
Plain = Callable[[nn.Module, torch.optim.SGD, Sequence[Batch]], None]


def batches(epochs: int = 1, sizes: Sequence[int] = (8, 8, 5)) -> list[Batch]:
    """Images, labels and keys; the pixels 0 and 1 are among them, and each epoch has the same ones."""
    chance = torch.Generator().manual_seed(1)
    made, first = [], 0
    for size in sizes:
        x = (1.4 * torch.rand(size, 3, 8, 8, generator=chance) - 0.2).clamp(0, 1)
        y = torch.randint(10, (size,), generator=chance)
        made.append((x, y, torch.arange(first, first + size)))
        first += size
    return made * epochs


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
    recipe: Recipe, model: Classifier, made: Sequence[Batch], descending: torch.optim.SGD | None = None
) -> list[float]:
    """Train, and give the losses."""
    descending, losses = descending or optimizer(model), []
    for x, y, keys in made:
        for loss in recipe(model, x, y, keys):
            descending.zero_grad()
            loss.backward()
            descending.step()
            losses.append(loss.item())
    return losses


def trained(recipe: Recipe, made: Sequence[Batch]) -> dict[str, Tensor]:
    """Weights and statistics after training."""
    model = network()
    descend(recipe, model, made)
    return model.state_dict()


def trained_in_pieces(make: Callable[[], Recipe], made: Sequence[Batch]) -> dict[str, Tensor]:
    """The same by recipes that each see one batch, end an epoch, and leave their state to the next one."""
    model, state = network(), make().state_dict()
    descending = optimizer(model)
    for batch in made:
        recipe = make()
        recipe.load_state_dict(state)
        descend(recipe, model, [batch], descending)
        recipe.end_epoch()
        state = {name: tensor.clone() for name, tensor in recipe.state_dict().items()}
    return model.state_dict()


def plainly_trained(plain: Plain, made: Sequence[Batch]) -> dict[str, Tensor]:
    """The same by a plain implementation."""
    model = network()
    plain(model, optimizer(model), made)
    return model.state_dict()


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    """Whether all is equal to the bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@dataclass
class Passes:
    """What a network was asked: one entry a forward pass, and how often gradients came back to its logits."""

    inputs: list[Tensor] = field(default_factory=list)
    training: list[bool] = field(default_factory=list)
    wanted: list[bool] = field(default_factory=list)
    tracked: list[bool] = field(default_factory=list)
    backwards: list[None] = field(default_factory=list)


def watched(model: Classifier) -> Passes:
    """Note each pass: images, whether BatchNorm was in training mode, whether parameters and images want gradients."""
    passes = Passes()
    norm = next(part for part in model.modules() if isinstance(part, nn.BatchNorm2d))

    def forward(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        passes.inputs.append(given[0].detach().clone())
        passes.tracked.append(given[0].requires_grad)
        passes.training.append(norm.training)
        passes.wanted.append(any(parameter.requires_grad for parameter in model.parameters()))

    def back(_: nn.Module, __: object, logits: Tensor) -> None:
        if logits.requires_grad:
            logits.register_hook(lambda _: passes.backwards.append(None))

    model.register_forward_pre_hook(forward)
    model.register_forward_hook(back)
    return passes


def assert_same_course(recipe: Recipe, plain: Plain, made: Sequence[Batch]) -> None:
    """Both show the network the same images, pass by pass, and leave the same weights.

    In float64, where formulas written otherwise round too little to turn a gradient's sign.
    """
    exact = [(x.double(), y, keys) for x, y, keys in made]
    one, two = network().double(), network().double()
    found, expected = watched(one), watched(two)
    descend(recipe, one, exact)
    plain(two, optimizer(two), exact)
    torch.testing.assert_close(found.inputs, expected.inputs)
    torch.testing.assert_close(one.state_dict(), two.state_dict())


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """BatchNorm's running statistics."""
    return {name: tensor for name, tensor in model.state_dict().items() if "running" in name}


def in_bounds(adv: Tensor, x: Tensor, eps: float = EPS) -> bool:
    """Within ball, up to a rounding, and box."""
    return bool((adv - x).abs().max() <= eps + 1e-6 and adv.min() >= 0 and adv.max() <= 1)
