"""What is evaluated: a trained run, a weights file, or a network of the user, with its data and its run directory."""

import contextlib
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ctrobust import data as datasets
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import check_network, check_scale, draws_at_random
from ctrobust.evaluation.evaluator import evaluation_mode
from ctrobust.evaluation.masking_run import REPEATS
from ctrobust.execution.stored_evaluation import (
    AttackedNetwork,
    attacked_model,
    evaluation_data,
    read_weights,
    run_of,
)
from ctrobust.execution.target_options import TargetOptions
from ctrobust.model_outputs import as_logits
from ctrobust.models import UserModel, user_model
from ctrobust.specs import UserModelSpec
from ctrobust.specs.fields import parse_fraction
from ctrobust.store import RunDirectory, directory_name

COMPARED_IMAGES = 32
LARGEST_CHANGE = 0.01
"""The largest difference between class probabilities that another number of threads may make."""


@dataclass(frozen=True, eq=False)
class EvaluationTarget:
    """A network, its images, and the run directory that takes its outcomes; None if nothing is stored."""

    network: AttackedNetwork
    data: Dataset
    run: RunDirectory | None

    @property
    def architecture(self) -> str:
        """The network in a few words: its name and width, or its factory."""
        if isinstance(self.network, UserModel) or self.network.factory is not None:
            return str(self.network.factory)
        model = self.network.metadata.get("model", {})
        return f"{model.get('name', 'mnistnet')}, width {model.get('width', 64)}"

    def model(self) -> nn.Module:
        """The network as it is attacked."""
        return attacked_model(self.network)


@contextlib.contextmanager
def opened_target(options: TargetOptions) -> Iterator[EvaluationTarget]:
    """Read the network and the data. A run directory that is made here is removed if nothing is stored in it."""
    if not options.is_factory:
        _refuse_factory_options(options)
        weights = read_weights(options.target, options.model)
        data = evaluation_data(weights, options.data, options.data_root, options.split)
        if options.model is not None:
            weights = replace(weights, repeats=_repeats(weights.build(), data, options.model))
        yield EvaluationTarget(weights, data, run_of(weights))
        return
    if options.model is not None:
        raise InputError(f"--model is for a run directory; the network is already named, {options.target}")
    if options.data is None:
        raise InputError(f"name the images for {options.target} by --data, such as --data cifar10 or folder:PATH")
    data = datasets.load(options.data, options.split, options.data_root)
    if (options.mean is None) != (options.std is None):
        raise InputError("--mean and --std are given together")
    mean, std = (_per_channel(text, data.in_channels) for text in (options.mean, options.std))
    network = user_model(str(options.target), options.weights, mean, std)
    check_network(network.model, data, network.factory)
    repeats = _repeats(network.model, data, network.factory)
    if repeats == 1 and mean is None:
        check_scale(network.model, data, network.factory)
    spec = UserModelSpec(
        factory=network.factory, data=data.name, network=network.sha256, weights=network.weights_sha256,
        mean=network.mean, std=network.std,
    )  # fmt: skip
    network = replace(network, repeats=repeats)
    run = RunDirectory(options.out or Path("runs") / directory_name(spec))
    with _user_run(run, spec):
        if repeats == 1:
            check_unchanged(network, data, run)
        yield EvaluationTarget(network, data, run)


def _repeats(model: nn.Module, data: Dataset, name: str) -> int:
    """The number of passes to average over: several for a network that draws at random, which is warned of."""
    if not draws_at_random(model, data):
        return 1
    warnings.warn(
        f"{name} draws at random: its logits are the mean of {REPEATS} passes, also in attacks, which take as much "
        "longer",
        stacklevel=2,
    )
    return REPEATS


def _refuse_factory_options(options: TargetOptions) -> None:
    given = {"--weights": options.weights, "--mean": options.mean, "--std": options.std, "--out": options.out}
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise InputError(
            f"{wrong[0]} is for a network of your own, ctrobust evaluate package.module:factory; got {options.target}"
        )


def _per_channel(text: str | None, channels: int) -> tuple[float, ...] | None:
    """Read numbers such as "0.49,0.48,0.45" or "1/255"; a single one is for all channels."""
    if text is None:
        return None
    values = [parse_fraction(part.strip()) for part in text.split(",")]
    if not all(isinstance(value, float) and np.isfinite(value) for value in values) or len(values) not in (1, channels):
        raise InputError(
            f"--mean and --std have one number per channel, as {','.join(['0.5'] * channels)}, or one for all "
            f"channels; got {text}"
        )
    return tuple(values * channels if len(values) == 1 else values)


@contextlib.contextmanager
def _user_run(run: RunDirectory, spec: UserModelSpec) -> Iterator[None]:
    """Describe the network in its directory; a directory of anything else is refused."""
    is_new = not run.spec_file.exists()
    if is_new and run.path.exists():
        run.check_free()
    if not is_new and (stored := run.read_any_spec()) != spec:
        what = "another run"
        if isinstance(stored, UserModelSpec):
            same = (stored.factory, stored.data) == (spec.factory, spec.data)
            what = "other weights of this network" if same else f"{stored.factory} on {stored.data}"
        raise RunError(f"{run.path} holds {what}; choose another --out")
    if is_new:
        run.write_spec(spec)
    try:
        yield
    finally:
        if is_new and not _has_results(run):
            for file in (run.spec_file, *run.outcomes_folder.glob(".*.lock")):
                file.unlink(missing_ok=True)
            for folder in (run.outcomes_folder, run.path / "verdicts", run.path):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _has_results(run: RunDirectory) -> bool:
    """Whether there is anything but the spec and locks."""
    return any(file.is_file() and file != run.spec_file and file.suffix != ".lock" for file in run.path.rglob("*"))


def check_unchanged(network: UserModel, data: Dataset, run: RunDirectory) -> None:
    """Raise if the network computes other outputs than those stored in its directory: its code has changed.

    The hash of a network covers its tensors and the name of its factory, not the code.
    """
    contents = None if data.verified else data.digest()
    for one in run.evaluations():
        spec = one.record.spec
        if (spec.attack, spec.split, spec.contents) == ("none", data.split, contents):
            stored = one.evaluation.clean_probabilities[:COMPARED_IMAGES]
            with torch.no_grad(), evaluation_mode(network.model):
                logits = as_logits(network.model(datasets.to_float(data.images[: len(stored)])))
            found = logits.float().softmax(1).numpy()
            if stored.shape != found.shape or float(np.abs(stored - found).max()) > LARGEST_CHANGE:
                raise RunError(
                    f"{network.factory} computes otherwise than when {run.path} was made, with the same weights: its "
                    f"code has changed. Remove {shlex.quote(str(run.path))}, or choose another --out"
                )
