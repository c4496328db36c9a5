"""What a report keeps of the per-example outcomes of one network, so that arrays are read once and then dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.outcomes import Evaluation, WorstCase, worst_case
from ctrobust.reporting.report_models import TrainedNetwork
from ctrobust.reporting.report_runs import Reading
from ctrobust.reporting.report_sections import Condition, Section, condition_of, evaluations_on
from ctrobust.store import StoredEvaluation

CONFIDENCE_EDGES = np.linspace(0, 1, 26)
"""Bins of the probability of the correct class."""

WRONG_EDGES = np.logspace(-8, 0, 33)
"""Bins of the probabilities of wrong classes; smaller ones are counted in the first bin."""


@dataclass(frozen=True, eq=False)
class OutcomeProfile:
    """Distributions of one evaluation, for charts.

    Attributes:
        attack: the canonical text of the strongest attack, "none" if there is none.
        count, classes: the numbers of examples and of classes.
        confidence, attacked_confidence: shares of the examples in CONFIDENCE_EDGES; the second None where the
            probabilities under attack are not stored.
        wrong: shares of the wrong classes in WRONG_EDGES, without an attack.
        ranks: how many broken examples reached the wrong class of each clean rank, from 1.
        clean_confusion, attacked_confusion: (C, C) counts, label by prediction.
        class_robust: (C,) examples of each class that are correct under every attack of the headline.
    """

    attack: str
    count: int
    classes: int
    confidence: NDArray[np.float64]
    attacked_confidence: NDArray[np.float64] | None
    wrong: NDArray[np.float64]
    ranks: NDArray[np.int64]
    clean_confusion: NDArray[np.int64]
    attacked_confusion: NDArray[np.int64]
    class_robust: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NetworkOutcomes:
    """What is kept of a network on the data of one section.

    Attributes:
        worst: condition -> the worst case over all attacks that this network met, where there are at least two.
        clean: the outcomes of the most examples without an attack, without probabilities.
        headline: the outcomes under the worst of the headline's attacks, without probabilities.
        profile: None for networks whose charts are not shown.
    """

    worst: Mapping[Condition, WorstCase]
    clean: Evaluation | None
    headline: Evaluation | None
    profile: OutcomeProfile | None


def digest_outcomes(section: Section, network: TrainedNetwork, reading: Reading, *, profiled: bool) -> NetworkOutcomes:
    """Read the outcomes of one network; damaged files are named in the report."""
    stored = evaluations_on(network, section.key)
    loaded: list[tuple[StoredEvaluation, Evaluation]] = []
    for one in stored:
        evaluation = reading.attempt(partial(_outcomes, one))
        if evaluation is not None:
            loaded.append((one, evaluation))
    by_condition: dict[Condition, dict[str, Evaluation]] = {}
    for one, evaluation in loaded:
        if one.attack != "none":
            by_condition.setdefault(condition_of(one), {})[one.attack] = evaluation
    worst = {
        condition: found
        for condition, attacks in by_condition.items()
        if len(attacks) > 1 and (found := reading.attempt(partial(worst_case, attacks))) is not None
    }
    common: dict[str, Evaluation] = {}
    if section.headline is not None and network in [one for model in section.headline.models for one in model.networks]:
        met = by_condition.get(section.headline.condition, {})
        common = {attack: met[attack] for attack in section.headline.attacks if attack in met}
        if len(common) < len(section.headline.attacks):
            common = {}
    largest = max((evaluation for _, evaluation in loaded), key=len, default=None)
    headline = _combined(common) if common else None
    profile = None
    if profiled and largest is not None:
        strongest = min(common, key=lambda attack: common[attack].robust_accuracy, default=None)
        attacked = largest if strongest is None else common[strongest]
        profile = _profile(strongest or "none", largest, attacked, headline or attacked)
    return NetworkOutcomes(worst, None if largest is None else _clean(largest), headline, profile)


def _outcomes(stored: StoredEvaluation) -> Evaluation:
    """Read the arrays without keeping them in `stored`."""
    return StoredEvaluation(stored.file, stored.record).evaluation


def _light(evaluation: Evaluation) -> Evaluation:
    """The outcomes without their probabilities, which take most of the memory."""
    return replace(evaluation, clean_probabilities=evaluation.clean_probabilities[:, :0].copy(), probabilities=None)


def _clean(evaluation: Evaluation) -> Evaluation:
    return _light(replace(evaluation, prediction=evaluation.clean_prediction))


def _combined(attacks: Mapping[str, Evaluation]) -> Evaluation:
    """The outcomes under the worst of several attacks: the prediction of the first attack that breaks an example."""
    found = list(attacks.values())
    prediction = found[0].prediction.copy()
    for one in found[1:]:
        still_correct = prediction == one.labels
        prediction[still_correct] = one.prediction[still_correct]
    return _light(replace(found[0], prediction=prediction))


def _profile(attack: str, clean: Evaluation, attacked: Evaluation, worst: Evaluation) -> OutcomeProfile:
    is_label = np.arange(clean.num_classes) == clean.labels[:, None]
    wrong = np.maximum(clean.clean_probabilities[~is_label], WRONG_EDGES[0])
    broken = attacked.clean_correct & ~attacked.robust
    C = clean.num_classes
    return OutcomeProfile(
        attack=attack,
        count=len(attacked),
        classes=C,
        confidence=_shares(clean.clean_probabilities[is_label], CONFIDENCE_EDGES),
        attacked_confidence=_attacked_confidence(attacked),
        wrong=_shares(wrong, WRONG_EDGES),
        ranks=np.bincount(attacked.attacked_rank[broken], minlength=C)[1:C],
        clean_confusion=_confusion(attacked.labels, attacked.clean_prediction, C),
        attacked_confusion=_confusion(attacked.labels, attacked.prediction, C),
        class_robust=np.bincount(worst.labels[worst.robust], minlength=C),
    )


def _attacked_confidence(attacked: Evaluation) -> NDArray[np.float64] | None:
    if attacked.probabilities is None:
        return None
    p_y = attacked.probabilities[np.arange(len(attacked)), attacked.labels]
    return _shares(p_y, CONFIDENCE_EDGES)


def _shares(values: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(values.astype(np.float64), edges[0], edges[-1])  # half precision may round above 1
    return np.histogram(inside, bins=edges)[0] / max(1, len(values))


def _confusion(labels: NDArray[np.int64], predictions: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    pairs = np.bincount(labels * classes + predictions, minlength=classes * classes)
    return pairs.reshape(classes, classes)


def common_count(outcomes: Sequence[Evaluation | None]) -> int:
    """The number of examples that all of these have, if it is the same."""
    counts = {0 if one is None else len(one) for one in outcomes}
    return counts.pop() if len(counts) == 1 else 0
