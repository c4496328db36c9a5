"""The figures: panels, series, points."""

import pytest

from ctrobust.experiments import EXPERIMENTS
from ctrobust.specs import EmbeddingJob, required_training, spec_hash

from .planning import figure, table

SHAPES = {
    "figure1": (4, 12, 48), "figure2": (4, 4, 4), "figure3": (8, 36, 342), "figure4": (6, 60, 600),
    "figure5": (8, 24, 228), "figure6": (2, 20, 200), "figure7": (1, 5, 30),
}  # fmt: skip
"""Figure -> panels, series, points."""


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_shapes(name: str, shape: tuple[int, int, int]) -> None:
    one = figure(name)
    series = [line for panel in one.panels for line in panel.series]
    assert (len(one.panels), len(series), len(one.cells)) == shape
    for panel in one.panels:
        assert all(point.cell.column.startswith(panel.title) for line in panel.series for point in line.points)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("figure") and name != "figure2"])
def test_points_of_a_series_have_distinct_places_on_the_axis(name: str) -> None:
    for panel in figure(name).panels:
        assert panel.x_title
        assert panel.y_title
        for line in panel.series:
            assert len({point.x for point in line.points}) == len(line.points)


def test_curves_share_the_trainings_of_tables_1_and_2() -> None:
    known = {
        spec_hash(required_training(job))
        for name in ("table1", "table2")
        for cell in table(name).cells
        for job in cell.jobs
    }
    for name in ("figure2", "figure3", "figure4", "figure5", "figure6"):
        assert {spec_hash(required_training(job)) for cell in figure(name).cells for job in cell.jobs} <= known


def test_figures_share_evaluations() -> None:
    def jobs(name: str) -> set[str]:
        return {spec_hash(job) for cell in figure(name).cells for job in cell.jobs}

    table7 = {spec_hash(job) for cell in table("table7").cells for job in cell.jobs}
    assert len(jobs("figure3") & jobs("figure4")) == 60  # dropout, MSD, MDL x FGSM, PGD x ten strengths
    assert len(jobs("figure7") & table7) == 10  # gamma 0 and 5 on five models
    assert jobs("figure6") <= {spec_hash(job) for cell in table("table4").cells for job in cell.jobs}


def test_eta_of_the_tables_is_among_the_points_of_figure_1() -> None:
    table1 = {spec_hash(job) for cell in table("table1").cells for job in cell.jobs}
    shared = [cell for cell in figure("figure1").cells if spec_hash(cell.jobs[0]) in table1]
    assert [cell.column for cell in shared][:4] == ["MNIST: 100", "MNIST: 100", "FashionMNIST: 90", "FashionMNIST: 90"]
    assert len(shared) == 12


def test_the_text_prints_two_points_of_figure_3() -> None:
    printed = {(cell.row, cell.column): cell.paper for cell in figure("figure3").cells if cell.printed}
    assert printed == {
        ("VGG16 MDL", "CIFAR10, FGSM: 8/255"): 61.92,
        ("ResNet50 MDL", "CIFAR10, FGSM: 8/255"): 62.84,
    }


def test_thresholds_start_at_the_theoretical_one() -> None:
    line = figure("figure6").panels[0].series[0]
    assert line.points[0].cell.threshold == 1 / 9
    assert {cell.threshold for cell in table("table4").cells} == {1 / 9, 1 / 99}


@pytest.mark.parametrize(("preset", "limit"), [("paper", 10_000), ("laptop", 2000), ("smoke", 40)])
def test_images_of_the_embedding(preset: str, limit: int) -> None:
    for cell in figure("figure2", preset).cells:
        (job,) = cell.jobs
        assert isinstance(job, EmbeddingJob)
        assert (job.embedding, job.limit) == ("tsne", limit)
