"""What the presets plan."""

from typing import Any

import pytest

from ctrobust import data, models
from ctrobust.experiments import EXPERIMENTS, PRESETS
from ctrobust.experiments.adversarial_runs import adversarial_run
from ctrobust.experiments.natural_runs import METHOD_NAMES, Setting, natural_run
from ctrobust.specs import EvaluationJob, ModelSpec, TrainSpec, spec_hash, train_spec

from .planning import figure, planned

PAPER, LAPTOP = PRESETS["paper"], PRESETS["laptop"]


def runs(preset: str) -> dict[str, TrainSpec]:
    jobs = [job for name in EXPERIMENTS for cell in planned(name, preset).all_cells for job in set(cell.jobs)]
    return {spec_hash(job.training): job.training for job in jobs}


@pytest.mark.parametrize("preset", ["paper", "laptop"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_runs_of_mnistnet_are_found_by_the_hash_of_plain_options(preset: str, method: str) -> None:
    chosen, name = PRESETS[preset], METHOD_NAMES[method]
    fashion: dict[str, Any] = {"data": "fashion-mnist", "epochs": 50, "method": name, "lr": 0.01}
    if "mdl" in name:
        fashion["recipe"] = {"eta": 90.0}
    mnist = {"data": "mnist", "epochs": 20, "method": name, "lr": 0.01}
    assert natural_run(chosen, method, Setting("mnistnet", "cyclic", "fashion-mnist")) == train_spec(fashion)
    assert natural_run(chosen, method, Setting("mnistnet", "cyclic", "mnist")) == train_spec(mnist)
    multistep = natural_run(chosen, method, Setting("mnistnet", "multistep", "mnist"))
    assert multistep == train_spec({**mnist, "schedule": {"name": "multistep"}})
    assert multistep.schedule.milestones == (0.5, 0.75)


# Finished runs are found by these: a change here makes them unknown.
GOLDEN = {"DO": "e0cc54aba7f02bce", "MSD": "3c9ef5cc81f2d940", "MDL": "b5a51f0e367e0cc1"}


@pytest.mark.parametrize(("method", "expected"), GOLDEN.items())
def test_golden_hashes_of_stored_runs(method: str, expected: str) -> None:
    assert spec_hash(natural_run(LAPTOP, method, Setting("mnistnet", "cyclic", "fashion-mnist"))) == expected


def test_paper_settings_of_natural_training() -> None:
    spec = natural_run(PAPER, "MDL", Setting("vgg16", "multistep", "cifar100"))
    assert spec == train_spec(
        {
            "data": "cifar100", "epochs": 200, "method": "mdl", "model": {"name": "vgg16"}, "recipe": {"eta": 70.0},
            "schedule": {"name": "multistep"},
        }
    )  # fmt: skip
    assert (spec.lr, spec.augment, spec.batch_size, spec.model.width) == (0.01, "crop-flip", 128, 64)


@pytest.mark.parametrize(
    ("recipe", "schedule", "rate", "epochs"),
    [
        ("fast", "multistep", 0.2, 50), ("fast", "cyclic", 0.2, 50), ("madry", "multistep", 0.2, 50),
        ("madry", "cyclic", 0.2, 50), ("free", "multistep", 0.1, 50), ("free", "cyclic", 0.1, 50),
        ("trades", "multistep", 0.1, 200), ("trades", "cyclic", 0.2, 200),
    ],
)  # fmt: skip
def test_paper_settings_of_adversarial_training(recipe: str, schedule: str, rate: float, epochs: int) -> None:
    spec = adversarial_run(PAPER, recipe, schedule, 2)
    assert (spec.lr, spec.epochs, spec.data, spec.model.name, spec.model.width) == (
        rate, epochs, "cifar10", "resnet18", 64,
    )  # fmt: skip
    assert spec.model.noise == "none"
    assert spec.validation == 0
    assert spec.schedule.warmup == (schedule == "multistep")
    if schedule == "multistep":
        assert spec.schedule.milestones == (2 / 3, 5 / 6)


@pytest.mark.parametrize(
    ("recipe", "gamma", "epochs", "extra"),
    [("fast", 2, 15, {"step_size": 8 / 255}), ("madry", 3, 10, {}), ("trades", 3, 8, {}), ("free", 1, 5, {})],
)
def test_laptop_runs_of_adversarial_training(recipe: str, gamma: int, epochs: int, extra: dict[str, float]) -> None:
    fields = {
        "data": "cifar10", "epochs": epochs, "validation": 1000, "model": {"name": "resnet18", "width": 16},
        "recipe": {"name": recipe, "gamma": float(gamma), **extra},
    }  # fmt: skip
    assert adversarial_run(LAPTOP, recipe, "cyclic", gamma) == train_spec(fields)


@pytest.mark.parametrize(
    ("recipe", "paper", "laptop"),
    [("fast", 40, 12), ("fast", 70, 21), ("madry", 55, 11), ("madry", 90, 18), ("free", 60, 6)],
)
def test_laptop_scales_longer_trainings(recipe: str, paper: int, laptop: int) -> None:
    assert adversarial_run(PAPER, recipe, "cyclic", 1, epochs=paper).epochs == paper
    assert adversarial_run(LAPTOP, recipe, "cyclic", 1, epochs=paper).epochs == laptop


@pytest.mark.parametrize(
    ("preset", "network", "white_box", "black_box"),
    [
        ("paper", "mnistnet", 2000, 1000), ("paper", "vgg16", 2000, 1000), ("laptop", "mnistnet", 2000, 1000),
        ("laptop", "vgg16", 1000, 200), ("laptop", "resnet18", 1000, 200), ("smoke", "mnistnet", 20, 2),
    ],
)  # fmt: skip
def test_attacked_images(preset: str, network: str, white_box: int, black_box: int) -> None:
    found: dict[bool, set[int | None]] = {True: set(), False: set()}
    for name in EXPERIMENTS:
        for cell in planned(name, preset).all_cells:
            for job in cell.jobs:
                if isinstance(job, EvaluationJob) and job.attack != "none" and job.training.model.name == network:
                    found[job.attack.startswith(("square", "autoattack"))].add(job.limit)
    assert found[False] == {white_box}
    assert found[True] <= {black_box}


def test_laptop_has_real_data_and_small_networks() -> None:
    for spec in runs("laptop").values():
        assert spec.data != "digits"
        assert spec.model.width == (64 if spec.model.name == "mnistnet" else 16)


def test_smoke_is_small() -> None:
    for spec in runs("smoke").values():
        assert (spec.data, spec.epochs, spec.limit) == ("digits", 1, 200)
        assert spec.model.width <= 4
    for name in ("figure3", "figure4", "figure5", "figure6", "figure7"):
        assert {len(line.points) for panel in figure(name, "smoke").panels for line in panel.series} == {2}


def test_networks_of_smoke_take_the_digits() -> None:
    test = data.load("digits", "test")
    x = test.images[:4].float() / 255
    for model in {spec.model for spec in runs("smoke").values()}:
        network = _build(model)
        assert network(x).shape == (4, 10)


def _build(spec: ModelSpec) -> models.Classifier:
    return models.build(spec.name, num_classes=10, in_channels=1, width=spec.width)
