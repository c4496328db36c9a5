"""What a reader must keep in mind about the numbers of a section."""

from collections.abc import Sequence

from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.number_texts import count_text, listed, percent_text
from ctrobust.reporting.rankings import Ranking
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.reporting.report_sections import Section, attacks_of
from ctrobust.specs import TrainSpec

FEW_EXAMPLES = 500
"""Below this number of examples a report calls a set small."""

ENSEMBLES = ("autoattack", "s-autoattack")


def caveats(section: Section, robust: Ranking | None) -> list[str]:
    """One sentence for each limit of the evidence."""
    return [
        *_seeds(section.models),
        *_examples(section),
        *_attacks(section),
        *_unequal(section, robust),
        *_data(section),
        *_trainings(section.models),
    ]


def _seeds(models: Sequence[Model]) -> list[str]:
    trained = [model for model in models if model.seeds]
    single = [model for model in trained if len(model.networks) == 1]
    if not single:
        return []
    if len(single) == len(models):
        which = "Each model was trained once" if len(models) > 1 else "The model was trained once"
    else:
        which = (
            f"{count_text(len(single), 'model')} of {len(models)} {'was' if len(single) == 1 else 'were'} trained once"
        )
    return [f"{which}, with one seed: a difference between two models may be a difference between seeds."]


def _examples(section: Section) -> list[str]:
    if section.headline is None or (count := section.headline.condition.count) >= FEW_EXAMPLES:
        return []
    widest = 100 * 1.96 * (0.25 / count) ** 0.5
    return [
        f"The attacks met {count_text(count, 'image')} only, a small set: an accuracy near 50% is known to about "
        f"±{widest:.0f} points."
    ]


def _attacks(section: Section) -> list[str]:
    if section.headline is None:
        return []
    every = attacks_of(section)
    ensembles = [(condition, attack) for condition, attack in every if attack.kind in ENSEMBLES]
    text = "Accuracy under attack is an upper bound: a stronger attack can only lower it."
    if not ensembles:
        return [f"{text} AutoAttack, the usual standard, was not run."]
    aside = [pair for pair in ensembles if pair[1].text not in section.headline.attacks]
    if not aside:
        return [text]
    condition, attack = aside[0]
    return [
        f"{text} {attack.title} ({condition.ball}) was run on {count_text(condition.count, 'image')} only and is not "
        "part of the comparison; its column is in the table."
    ]


def _unequal(section: Section, robust: Ranking | None) -> list[str]:
    if section.headline is None:
        return []
    compared = {score.model for score in robust.scores} if robust else set()
    left = [model.name for model in section.models if model not in compared]
    if not left:
        return []
    attacks = listed([read_attack(text).title for text in section.headline.attacks])
    return [
        f"{listed(left)} did not meet the compared attacks ({attacks}) and {'are' if len(left) > 1 else 'is'} left out."
    ]


def _data(section: Section) -> list[str]:
    if section.key.contents is None:
        return []
    return ["The images are not verified to be the published ones, or are not published; numbers hold for these files."]


def _trainings(models: Sequence[Model]) -> list[str]:
    found = []
    for model in models:
        found += [text for network in model.networks if (text := _collapse(model, network))]
        found += [
            f"{one.run.name} is not finished: {len(one.run.metrics)} of {one.run.spec.epochs} epochs."
            for one in model.networks
            if one.run.record is None and isinstance(one.run.spec, TrainSpec)
        ]
        warned = [(one.seed, one.run.record.warnings) for one in model.networks if one.run.record is not None]
        found += [f"{model.name}, seed {seed}: {warning}" for seed, warnings in warned for warning in warnings]
    return found


def _collapse(model: Model, network: TrainedNetwork) -> str:
    """How many epochs overfitted catastrophically, and whether the last one did; empty if none did."""
    record = network.run.record
    if record is None or not record.collapses or network.weights != "last":
        return ""
    epochs, last = len(record.seconds_per_epoch), record.collapses[-1]
    seed = f", seed {network.seed}," if len(model.networks) > 1 else ""
    end = "the last one included" if last.epoch == epochs else f"the last time in epoch {last.epoch}"
    return (
        f"{model.name}{seed} overfitted catastrophically in {len(record.collapses)} of {count_text(epochs, 'epoch')}, "
        f"{end}: {percent_text(last.one_step)} of a training batch were then correct under one step and "
        f"{percent_text(last.after)} under PGD-5."
    )
