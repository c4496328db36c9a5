"""One section of the page: everything about the models on one data set, ready for the template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.caveats import caveats
from ctrobust.reporting.chart_theme import DASHES, SHAPES
from ctrobust.reporting.masking_views import VerdictView, verdict_view
from ctrobust.reporting.model_figures import PictureView, class_names, embedding_figures, model_figures, pictures_of
from ctrobust.reporting.number_texts import count_text
from ctrobust.reporting.outcome_digests import NetworkOutcomes, digest_outcomes
from ctrobust.reporting.page_records import RecordBook, run_key
from ctrobust.reporting.page_tables import comparison_table, results_table
from ctrobust.reporting.page_views import FigureView, TableView
from ctrobust.reporting.rankings import Ranking, clean_ranking, robust_ranking
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.reporting.report_runs import Reading
from ctrobust.reporting.report_sections import DataKey, Section
from ctrobust.reporting.section_figures import section_figures
from ctrobust.reporting.summary_words import Answer, accuracy_answer, masking_answer, robustness_answer

CHARTED_MODELS = 24
"""Charts of a section show at most this many models, the most robust ones."""

COLOURS = 8
POINT_SHAPES = ("circle", *SHAPES, "diamond")


@dataclass(frozen=True)
class SeriesStyle:
    """The look of one model in all charts: colour, dashes and shape all differ, so that no one of them is needed."""

    number: int

    @property
    def colour(self) -> str:
        return f"var(--s{self.number % COLOURS + 1})"

    @property
    def dash(self) -> Sequence[float]:
        return DASHES[(self.number // COLOURS) % len(DASHES)]

    @property
    def shape(self) -> str:
        return POINT_SHAPES[self.number % len(POINT_SHAPES)]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that the script adds to the rows of this model."""
        return {"colour": self.colour, "dash": list(self.dash), "shape": self.shape}


def series_styles(count: int) -> list[SeriesStyle]:
    return [SeriesStyle(number) for number in range(count)]


@dataclass(frozen=True)
class ModelView:
    """One model in detail; `runs` are the keys of its records with their seeds."""

    name: str
    anchor: str
    training: str
    number: int
    verdict: VerdictView
    runs: Sequence[tuple[str, int | None]]
    figures: Sequence[FigureView]
    pictures: Sequence[PictureView]


@dataclass(frozen=True)
class SectionView:
    """One data set.

    Attributes:
        anchor: where links lead.
        title: the data set.
        facts: one line about its images and classes.
        answers: the summary.
        caveats: what to keep in mind.
        results: the table of all models.
        comparisons: the best model against each other one, under attack and without one.
        figures: those of all models.
        charted: the models in the figures, with the number of their style.
        left_out: how many models the figures leave out.
        models: model by model.
    """

    anchor: str
    title: str
    facts: str
    answers: Sequence[Answer]
    caveats: Sequence[str]
    results: TableView
    comparisons: Sequence[TableView]
    figures: Sequence[FigureView]
    charted: Sequence[tuple[str, int]]
    left_out: int
    models: Sequence[ModelView]

    @property
    def all_figures(self) -> list[FigureView]:
        return [*self.figures, *(figure for model in self.models for figure in model.figures)]


def section_view(
    section: Section, anchor: str, records: RecordBook, reading: Reading, numbers: Mapping[Model, int]
) -> SectionView:
    """Read the outcomes of a section and make everything that is shown of them."""
    charted = _charted(section)
    outcomes: dict[TrainedNetwork, NetworkOutcomes] = {}
    for model in section.models:
        for network in model.networks:
            first = model in charted and network is model.networks[0]
            outcomes[network] = digest_outcomes(section, network, reading, profiled=first)
    clean, robust = clean_ranking(section, outcomes), robust_ranking(section, outcomes)
    verdicts = {model: verdict_view(section, model) for model in section.models}
    links = {model: f"{anchor}-model-{numbers[model]}" for model in charted}
    tested = robust.leader.model if robust else None
    answers = [
        *([accuracy_answer(clean)] if clean else []),
        robustness_answer(section, robust, _classes(section, outcomes)),
        masking_answer(tested, verdicts[tested] if tested else None),
    ]
    return SectionView(
        anchor=anchor,
        title=data_title(section.key),
        facts=_facts(section, outcomes),
        answers=answers,
        caveats=caveats(section, robust),
        results=results_table(
            section, f"{anchor}-results", outcomes, clean, records, verdicts, numbers.__getitem__, links
        ),
        comparisons=_comparisons(anchor, clean, robust),
        figures=section_figures(section, anchor, charted, outcomes, clean, robust),
        charted=[(model.name, numbers[model]) for model in charted],
        left_out=len(section.models) - len(charted),
        models=[_model_view(model, anchor, outcomes, verdicts[model], reading, numbers[model]) for model in charted],
    )


def data_title(key: DataKey) -> str:
    return key.data if key.split == "test" else f"{key.data} ({key.split})"


def _charted(section: Section) -> list[Model]:
    """All models, or those with the best mean of their stored robust accuracies where they are too many."""
    if len(section.models) <= CHARTED_MODELS:
        return list(section.models)

    def strength(model: Model) -> float:
        values = [one.record.summary.robust_accuracy for network in model.networks for one in network.evaluations]
        return sum(values) / len(values) if values else -1.0

    best = sorted(section.models, key=strength, reverse=True)[:CHARTED_MODELS]
    return [model for model in section.models if model in best]


def _classes(section: Section, outcomes: Mapping[TrainedNetwork, NetworkOutcomes]) -> int | None:
    found = (outcomes[network].profile for model in section.models for network in model.networks)
    return next((one.classes for one in found if one is not None), None)


def _facts(section: Section, outcomes: Mapping[TrainedNetwork, NetworkOutcomes]) -> str:
    classes = _classes(section, outcomes)
    networks = sum(len(model.networks) for model in section.models)
    texts = [count_text(len(section.models), "model"), count_text(networks, "trained network")]
    if classes is not None:
        names = class_names(section.models[0].networks[0], classes)
        texts.append(count_text(classes, "class", "classes") + (f" ({', '.join(names)})" if classes <= 12 else ""))
    if section.headline is not None:
        titles = ", ".join(read_attack(text).title for text in section.headline.attacks)
        condition = section.headline.condition
        texts.append(f"compared under {titles} within {condition.ball} on {count_text(condition.count, 'image')}")
    return "; ".join(texts) + "."


def _comparisons(anchor: str, clean: Ranking | None, robust: Ranking | None) -> list[TableView]:
    found = []
    for name, ranking, what in (("robust", robust, "under the worst attack"), ("clean", clean, "without an attack")):
        if ranking is not None and ranking.comparisons:
            found.append(comparison_table(f"{anchor}-{name}-comparison", ranking, what))
    return found


def _model_view(
    model: Model, anchor: str, outcomes: Mapping[TrainedNetwork, NetworkOutcomes], verdict: VerdictView,
    reading: Reading, number: int,
) -> ModelView:  # fmt: skip
    first, name = model.networks[0], f"{anchor}-model-{number}"
    profile = outcomes[first].profile
    figures = [] if profile is None else list(model_figures(name, first, profile))
    if first.weights == "last":
        figures += embedding_figures(name, first, reading)
    return ModelView(
        name=model.name,
        anchor=name,
        training=model.training,
        number=number,
        verdict=verdict,
        runs=[(run_key(one.run), one.run.seed) for one in model.networks],
        figures=figures,
        pictures=[picture for one in model.networks for picture in pictures_of(one, reading)],
    )
