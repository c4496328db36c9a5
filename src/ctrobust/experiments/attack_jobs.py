"""Jobs that attack the network of a training, on as many test images as the preset takes."""

from ctrobust.experiments.canonical_attacks import attack_text
from ctrobust.experiments.presets import PRESETS, Preset
from ctrobust.specs import EvaluationJob, TrainSpec

ON_FEWER_IMAGES = ("Square", "AA")
"""The attacks that the paper runs on 1,000 instead of 2,000 images."""


def attack_job(
    preset: Preset,
    run: TrainSpec,
    attack: str,
    eps: str,
    *,
    loss: str = "ce",
    data: str = "",
    step: str = "",
    keep_probabilities: bool = True,
) -> EvaluationJob:
    """The evaluation of a training's last weights under an attack of the paper; `data` is the paper's data set."""
    return EvaluationJob(
        training=run,
        attack=attack_text(preset, attack, eps, loss=loss, data=data, step=step),
        limit=attacked_images(preset, run, attack),
        keep_probabilities=keep_probabilities,
    )


def attacked_images(preset: Preset, run: TrainSpec, attack: str) -> int:
    """The number of first test images; MNISTNet is fast enough for the paper's numbers except in `smoke`."""
    full = run.model.name == "mnistnet" and not preset.digits
    source = PRESETS["paper"] if full else preset
    return source.black_box if attack in ON_FEWER_IMAGES else source.white_box


def attack_footnotes(preset: Preset, *, fewer: bool = True, mnistnet: bool = False) -> tuple[str, ...]:
    """How many images are attacked; `fewer` if Square or AutoAttack is among the attacks, `mnistnet` if it is."""
    sizes = f"the first {preset.white_box:,} test images are attacked"
    if fewer:
        sizes += f", by Square and AutoAttack the first {preset.black_box:,}"
    if preset.name == "laptop":
        reference = PRESETS["paper"]
        sizes += f" instead of {reference.white_box:,}" + (f" and {reference.black_box:,}" if fewer else "")
        sizes += "; MNISTNet as in the paper" if mnistnet else ""
    return (f"{preset.name.capitalize()}: {sizes}.",)
