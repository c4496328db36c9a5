"""Networks that differ by their seed only are one model."""

from pathlib import Path

from ctrobust.reporting.caveats import caveats
from ctrobust.reporting.report_models import group_models
from ctrobust.reporting.report_runs import read_runs
from ctrobust.reporting.report_sections import make_sections
from ctrobust.specs import EvaluationSpec
from ctrobust.store import EvaluationFacts, directory_name, write_outcomes
from tests.reporting.made_runs import draw_outcomes, make_run, make_user_run


def names(path: Path) -> list[tuple[str, list[int]]]:
    return [(model.name, model.seeds) for model in group_models(read_runs([path]).runs)]


def test_seeds_are_grouped_in_order_and_named_by_their_common_beginning(tmp_path: Path) -> None:
    for seed in (2, 0, 1):
        make_run(tmp_path / f"fast-seed{seed}", {"seed": seed})
    make_run(tmp_path / "slow", {"lr": 0.5})
    assert names(tmp_path) == [("fast", [0, 1, 2]), ("slow", [0])]


def test_directories_that_the_store_named_are_called_by_their_training(tmp_path: Path) -> None:
    fields = {"recipe": {"name": "fast", "gamma": 2.0}}
    run = make_run(tmp_path / "x", fields)
    run.path.rename(tmp_path / directory_name(run.read_spec()))
    make_run(tmp_path / "digits-mnistnet-0123456789abcdef", {**fields, "lr": 0.5})
    found = [name for name, _ in names(tmp_path)]
    assert [name[:-7] for name in found] == ["Fast-AT gamma=2"] * 2
    assert len(set(found)) == 2


def test_two_runs_of_one_spec_are_one_model(tmp_path: Path) -> None:
    make_run(tmp_path / "a1")
    make_run(tmp_path / "a2")
    assert names(tmp_path) == [("a", [0, 0])]


def test_best_weights_are_a_model_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    spec = EvaluationSpec(data="digits", limit=120, attack="none", weights="c" * 16)
    write_outcomes(run.outcomes_file(spec), spec, draw_outcomes(5, 1.0), None, EvaluationFacts())
    assert [name for name, _ in names(tmp_path)] == ["a", "a, best weights"]


def test_a_network_that_was_trained_elsewhere(tmp_path: Path) -> None:
    make_run(tmp_path / "trained")
    make_user_run(tmp_path / "theirs")
    trained, theirs = sorted(group_models(read_runs([tmp_path]).runs), key=lambda one: one.name, reverse=True)
    assert (theirs.name, theirs.training) == ("theirs", "network of nets:wide, trained elsewhere")
    assert (trained.seeds, theirs.seeds) == ([0], [])
    (network,) = theirs.networks
    assert network.weights == "last"
    assert len(network.evaluations) == 3
    (section,) = make_sections([trained, theirs])
    texts = caveats(section, None)
    assert not any("is not finished" in text for text in texts)
    assert any(text.startswith("1 model of 2 was trained once") for text in texts)


def test_a_directory_that_the_command_named_is_called_by_its_factory(tmp_path: Path) -> None:
    run = make_user_run(tmp_path / "theirs")
    run.path.rename(tmp_path / directory_name(run.read_any_spec()))
    (model,) = group_models(read_runs([tmp_path]).runs)
    assert model.name == "nets:wide"
