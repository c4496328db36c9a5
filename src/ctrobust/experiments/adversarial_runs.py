"""The trainings of adversarial training: a recipe with gamma, schedule and epochs, on CIFAR-10 with ResNet18."""

from typing import Any

from ctrobust.experiments.presets import PAPER_EPOCHS, Preset, data_name, model_fields
from ctrobust.specs import TrainSpec, train_spec

DATA = "cifar10"
NETWORK = "resnet18"

RECIPES_OF_TITLES = {"Fast-AT": "fast", "Free-AT": "free", "Madry-AT": "madry", "TRADES": "trades"}
"""The paper's name -> the recipe's name in specs."""


def adversarial_run(
    preset: Preset,
    recipe: str,
    schedule: str,
    gamma: float,
    *,
    beta: float | None = None,
    epochs: int | None = None,
    seed: int = 0,
) -> TrainSpec:
    """The training of a recipe; `epochs` are the paper's, which a smaller preset scales; beta is for TRADES.

    Rates, milestones and the warm-up of Multistep are the defaults of specs for CIFAR, which are the paper's.

    Example:
        >>> from ctrobust.experiments.presets import PRESETS
        >>> spec = adversarial_run(PRESETS["laptop"], "madry", "multistep", 4, epochs=80)
        >>> spec.epochs, spec.lr, spec.schedule.warmup, spec.model.width
        (16, 0.2, True, 16)
    """
    usual = PAPER_EPOCHS[recipe]
    fields: dict[str, Any] = {"name": recipe, "gamma": gamma}
    if beta is not None:
        fields["beta"] = beta
    if recipe == "fast" and preset.fast_step is not None:
        fields["step_size"] = preset.fast_step
    run: dict[str, Any] = {
        "data": data_name(preset, DATA),
        "epochs": preset.adversarial_epochs[recipe] * (epochs or usual) // usual if not preset.digits else 1,
        "model": model_fields(preset, NETWORK),
        "recipe": fields,
        "schedule": {"name": schedule},
        "seed": seed,
        "validation": preset.validation,
    }
    if preset.digits:
        run |= {"limit": 200, "batch_size": 50}
    return train_spec(run)


def adversarial_footnotes(preset: Preset) -> tuple[str, ...]:
    """What a preset changes in adversarial training."""
    if preset.name != "laptop":
        return preset.footnotes
    epochs = preset.adversarial_epochs
    return (
        f"Laptop: ResNet18 of width {preset.width} instead of 64; {epochs['fast']} epochs of Fast-AT, "
        f"{epochs['madry']} of Madry-AT and {epochs['free']} of Free-AT where the paper trains 50, more or fewer in "
        f"proportion; {epochs['trades']} epochs of TRADES instead of 200.",
        f"Laptop: {preset.validation:,} training images are held out; all values are those of the last weights.",
        "Laptop: Fast-AT takes steps of 8/255 instead of 10/255, with which this network collapses.",
    )
