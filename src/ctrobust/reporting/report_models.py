"""Models of a report: networks that differ by their seed only are one model, with one name, colour and shape."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ctrobust.reporting.report_runs import ReportedRun
from ctrobust.specs import NaturalSpec, RunSpec, UserModelSpec, describe_recipe, spec_hash
from ctrobust.store import StoredEvaluation

RECIPE_TITLES: dict[str, str] = {
    "natural": "natural training",
    "fast": "Fast-AT",
    "madry": "Madry-AT",
    "free": "Free-AT",
    "trades": "TRADES",
    "n-fgsm": "N-FGSM",
}
"""Recipe -> what the literature calls it."""

HASHED = re.compile("-[0-9a-f]{16}$")
"""The end of a directory name that the store chose."""


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """One weights file: the last weights of a run, or those that were best on held-out images.

    Attributes:
        run: where it was trained.
        weights: "last" or "best".
        evaluations: of these weights.
    """

    run: ReportedRun
    weights: str
    evaluations: Sequence[StoredEvaluation]

    @property
    def seed(self) -> int:
        """The seed of the training; 0 for a network that was trained elsewhere, which has no other seeds here."""
        return self.run.seed or 0


@dataclass(frozen=True, eq=False)
class Model:
    """Networks that differ by their seed only, in the order of their seeds.

    Attributes:
        name: unique in the report.
        training: how it was trained, in a few words.
        networks: at least one.
    """

    name: str
    training: str
    networks: Sequence[TrainedNetwork]

    @property
    def spec(self) -> RunSpec:
        return self.networks[0].run.spec

    @property
    def seeds(self) -> list[int]:
        """The seeds of the trainings; none of a network that was trained elsewhere."""
        return [one.run.seed for one in self.networks if one.run.seed is not None]


def networks_of(run: ReportedRun) -> list[TrainedNetwork]:
    """The last weights, and the best ones if they were evaluated."""
    last = run.last_weights
    by_weights: dict[str, list[StoredEvaluation]] = {"last": []}
    for one in run.evaluations:
        by_weights.setdefault("last" if one.record.spec.weights == last else "best", []).append(one)
    return [TrainedNetwork(run, weights, found) for weights, found in by_weights.items()]


def group_models(runs: Sequence[ReportedRun]) -> list[Model]:
    """Group networks that differ by their seed only."""
    groups: dict[tuple[str, str], list[TrainedNetwork]] = {}
    for run in runs:
        base = spec_hash(run.spec if run.seed is None else run.spec.model_copy(update={"seed": 0}))
        for network in networks_of(run):
            groups.setdefault((base, network.weights), []).append(network)
    found = [sorted(group, key=lambda one: (one.seed, one.run.name)) for group in groups.values()]
    names = _unique([_name(group) for group in found], [spec_hash(group[0].run.spec) for group in found])
    return [Model(name, describe_training(group[0].run.spec), group) for name, group in zip(names, found, strict=True)]


def _name(group: Sequence[TrainedNetwork]) -> str:
    """The common beginning of the directories' names; where the store chose these, the training in words."""
    names = [one.run.name for one in group]
    if any(HASHED.search(name) for name in names):
        text = training_title(group[0].run.spec)
    else:
        text = re.sub(r"[-_ ./]*(seed[-_ ]*)?$", "", _common_beginning(names)) or training_title(group[0].run.spec)
    return f"{text}, best weights" if group[0].weights == "best" else text


def _common_beginning(names: Sequence[str]) -> str:
    """The characters that all names begin with.

    Example:
        >>> _common_beginning(["fast", "fast-seed1", "fast-seed2"])
        'fast'
    """
    shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in shared)


def _unique(names: list[str], hashes: list[str]) -> list[str]:
    """The names, those that occur twice with a part of the hash of their spec, or a number where that is not enough."""
    times = Counter(names)
    named = [
        f"{name} {digest[:6]}" if times[name] > 1 else name for name, digest in zip(names, hashes, strict=True)
    ]  # fmt: skip
    again, found = Counter(named), []
    for number, name in enumerate(named, start=1):
        found.append(f"{name} ({number})" if again[name] > 1 else name)
    return found


def training_title(spec: RunSpec) -> str:
    """The method or recipe with its changed fields; the factory of a network that was trained elsewhere.

    Example:
        >>> from ctrobust.specs import train_spec
        >>> training_title(train_spec({"recipe": {"name": "trades", "gamma": 3.0}}))
        'TRADES gamma=3'
    """
    if isinstance(spec, UserModelSpec):
        return spec.factory
    words = describe_recipe(spec)
    if isinstance(spec.recipe, NaturalSpec):
        return words
    name, _, rest = words.partition(" ")
    return " ".join(filter(None, (RECIPE_TITLES.get(name, name), rest)))


def describe_training(spec: RunSpec) -> str:
    """One line: recipe, network, epochs.

    Example:
        >>> from ctrobust.specs import train_spec
        >>> describe_training(train_spec({"method": "mdl", "data": "mnist"}))
        'natural training, mdl; mnistnet of width 64; 10 epochs'
    """
    recipe = training_title(spec)
    if isinstance(spec, UserModelSpec):
        return f"network of {spec.factory}, trained elsewhere"
    if isinstance(spec.recipe, NaturalSpec):
        recipe = ", ".join(filter(None, (RECIPE_TITLES["natural"], recipe.removeprefix("natural").strip())))
    epochs = f"{spec.epochs} epoch{'s' if spec.epochs > 1 else ''}"
    width = "" if spec.model.is_user_network else f" of width {spec.model.width}"
    return f"{recipe}; {spec.model.name}{width}; {epochs}"


def labelled_networks(models: Sequence[Model]) -> Iterator[tuple[TrainedNetwork, dict[str, Any]]]:
    """Each network with the fields of a chart's rows that name it: the model, and the seed where there are several."""
    for model in models:
        for network in model.networks:
            yield network, {"model": model.name, "seed": str(network.seed) if len(model.networks) > 1 else ""}
