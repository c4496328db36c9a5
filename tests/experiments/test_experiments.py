"""Experiments by name."""

import subprocess
import sys

import pytest

from ctrobust.errors import InputError
from ctrobust.experiments import EXPERIMENTS, METRICS, PRESETS, MeanSpread, experiment
from ctrobust.specs import EmbeddingJob, EvaluationJob, TrainingJob, spec_hash

from .planning import planned

PLANS = [(name, preset) for name in EXPERIMENTS for preset in PRESETS]


def test_all_tables_and_figures_are_there_in_order() -> None:
    assert list(EXPERIMENTS) == [f"table{n}" for n in range(1, 10)] + [f"figure{n}" for n in range(1, 8)]
    assert list(PRESETS) == ["paper", "laptop", "smoke"]
    assert [planned(name).number for name in EXPERIMENTS] == [*range(1, 10), *range(1, 8)]


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_every_cell_plans_under_every_preset(name: str, preset: str) -> None:
    plan = planned(name, preset)
    assert (plan.name, plan.preset) == (name, preset)
    assert len(plan.names()) == len(plan.all_cells)
    for cell in plan.all_cells:
        assert cell.jobs
        assert cell.metric in METRICS
        assert len({spec_hash(job) for job in cell.jobs}) == len(cell.jobs) or preset == "smoke"
        assert (cell.threshold is not None) == (cell.metric == "wrong_below")


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_a_metric_is_computed_from_jobs_of_one_kind(name: str, preset: str) -> None:
    kinds = {
        "accuracy": TrainingJob, "minutes": TrainingJob, "average_rank": TrainingJob, "tsne": EmbeddingJob,
        "robust_accuracy": EvaluationJob, "attack_success_rate": EvaluationJob, "wrong_below": EvaluationJob,
    }  # fmt: skip
    for cell in planned(name, preset).all_cells:
        assert {type(job) for job in cell.jobs} == {kinds[cell.metric]}
        clean = [job.attack == "none" for job in cell.jobs if isinstance(job, EvaluationJob)]
        assert all(clean) if cell.metric == "wrong_below" else not any(clean)


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_presets_have_the_same_rows_columns_and_printed_values(name: str, preset: str) -> None:
    paper, other = planned(name).names(), planned(name, preset).names()
    if name.startswith("table"):
        assert list(paper) == list(other)
    else:
        assert set(other) <= set(paper)
    assert all((cell.printed, cell.bold, cell.metric) == _look(paper[key]) for key, cell in other.items())


def _look(cell: object) -> tuple[object, ...]:
    return tuple(getattr(cell, field) for field in ("printed", "bold", "metric"))


@pytest.mark.parametrize(
    ("name", "preset", "message"),
    [
        ("tabel1", "paper", "unknown experiment 'tabel1'; did you mean 'table1'\\? known: table1, "),
        ("x", "paper", "unknown experiment 'x'; known: table1, "),
        ("table1", "labtop", "unknown preset 'labtop'; did you mean 'laptop'\\? known: paper, laptop, smoke"),
    ],
)
def test_unknown_names_are_rejected_with_the_known_ones(name: str, preset: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        experiment(name, preset)


def test_printed_texts_become_numbers() -> None:
    cells = planned("table3").cells
    assert cells[0].paper == MeanSpread(93.38, 0.13)
    assert cells[1].paper == 9.1
    assert planned("figure1").cells[0].paper is None


def test_planning_loads_no_torch_and_no_numpy() -> None:
    program = (
        "import sys; from ctrobust.experiments import *\n"
        "[experiment(name, preset) for name in EXPERIMENTS for preset in PRESETS]\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "False"]
