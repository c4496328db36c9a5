"""Models are compared on the same images under the attacks that all of them met."""

from pathlib import Path

from ctrobust.reporting.report_models import group_models
from ctrobust.reporting.report_runs import read_runs
from ctrobust.reporting.report_sections import Condition, DataKey, Section, attacks_of, make_sections
from tests.reporting.made_runs import CLASSES, add_evaluations, make_run


def sections(path: Path) -> list[Section]:
    return make_sections(group_models(read_runs([path]).runs))


def test_the_headline_has_the_attacks_that_all_models_met(tmp_path: Path) -> None:
    make_run(tmp_path / "a", attacks=[("fgsm:eps=0.1", 0.7), ("pgd:eps=0.1", 0.5), ("apgd:eps=0.1", 0.4)])
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("fgsm:eps=0.1", 0.7), ("pgd:eps=0.1", 0.5), ("pgd:eps=0.2", 0.1)])
    (section,) = sections(tmp_path)
    assert section.headline is not None
    assert section.headline.condition == Condition("linf", "0.1", 120)
    assert section.headline.attacks == ["fgsm:eps=0.1", "pgd:eps=0.1"]
    assert [model.name for model in section.headline.models] == ["a", "b"]


def test_attacks_of_another_norm_or_on_other_examples_are_another_condition(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", attacks=[("pgd:eps=0.1", 0.5), ("pgd:eps=0.1,norm=l2", 0.9)])
    add_evaluations(run, "digits", [("apgd:eps=0.1", 0.3)], count=60, classes=CLASSES, draw_seed=1)
    (section,) = sections(tmp_path)
    assert [(condition.norm, condition.count) for condition, _ in attacks_of(section)] == [
        ("l2", 120), ("linf", 120), ("linf", 60),
    ]  # fmt: skip


def test_without_a_common_attack_the_most_frequent_one_compares(tmp_path: Path) -> None:
    for name, attack in (("a", "fgsm"), ("b", "pgd"), ("c", "pgd")):
        make_run(tmp_path / name, {"lr": 0.1 + ord(name)}, attacks=[(f"{attack}:eps=0.1", 0.5)])
    (section,) = sections(tmp_path)
    assert section.headline is not None
    assert section.headline.attacks == ["pgd:eps=0.1"]
    assert [model.name for model in section.headline.models] == ["b", "c"]


def test_data_sets_are_sections_and_an_unfinished_run_belongs_to_its_data(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", {"data": "mnist"})
    make_run(tmp_path / "c", {"data": "mnist", "lr": 0.3}, finished=False)
    found = sections(tmp_path)
    assert [(one.key, [model.name for model in one.models]) for one in found] == [
        (DataKey("digits", "test", None), ["a"]), (DataKey("mnist", "test", None), ["b", "c"]),
    ]  # fmt: skip


def test_a_training_alone_has_no_headline(tmp_path: Path) -> None:
    make_run(tmp_path / "a", finished=False)
    (section,) = sections(tmp_path)
    assert (section.headline, attacks_of(section)) == (None, [])
