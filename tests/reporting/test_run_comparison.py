"""Runs compared from stored outcomes."""

import csv
import shutil
from pathlib import Path

import pytest

from ctrobust.errors import InputError, RunError
from ctrobust.outcomes import compare, holm
from ctrobust.reporting.comparison_renderings import (
    COMPARISON_RENDERERS,
    comparison_heading,
    comparison_remarks,
    comparison_tables,
)
from ctrobust.reporting.run_comparison import compare_runs, group_runs
from ctrobust.store import RunDirectory
from tests.reporting.made_runs import make_run, make_user_run

RESULTS = Path(__file__).parents[2] / "results"


def runs(*names: str) -> list[RunDirectory]:
    return [RunDirectory(RESULTS / name) for name in names]


DROPOUT, MDL = "fashion-dropout", "fashion-mdl"
COMMON = set.intersection(*({one.attack for one in run.evaluations()} for run in runs(DROPOUT, MDL)))
FAST = [f"cifar-fast-g{gamma}{seed}" for seed in ("", "-seed1", "-seed2") for gamma in (0, 2)]


def test_two_runs_are_compared_under_every_attack_that_both_have() -> None:
    found = compare_runs(runs(DROPOUT, MDL))
    assert [group.label for group in found.groups] == ["A", "B"]
    assert found.attacks[0].attack == "none"
    assert sorted(row.attack for row in found.attacks) == sorted(COMMON)
    (one,) = [row for row in found.attacks if row.attack == "pgd:eps=8/255"]
    stored = [
        next(one for one in run.evaluations() if one.attack == "pgd:eps=8/255").evaluation for run in runs(DROPOUT, MDL)
    ]
    expected = compare(*stored)
    assert one.values.difference == expected.difference
    assert one.values.p_value == expected.test.p_value
    assert one.corrected == holm([row.values.p_value for row in found.attacks])[found.attacks.index(one)]


def test_the_largest_number_of_common_examples_is_taken() -> None:
    (clean,) = [row for row in compare_runs(runs(DROPOUT, MDL)).attacks if row.attack == "none"]
    assert clean.values.examples == 1000  # both have 200 as well


def test_runs_that_differ_in_their_seed_are_pooled_and_paired_by_it() -> None:
    found = compare_runs(runs(*reversed(FAST)))
    first, second = found.groups
    assert (first.seeds, second.seeds) == ((0, 1, 2), (0, 1, 2))
    assert [run.path.name for run in second.runs] == ["cifar-fast-g0", "cifar-fast-g0-seed1", "cifar-fast-g0-seed2"]
    assert all(row.values.over_seeds is not None and len(row.values.first) == 3 for row in found.attacks)
    assert comparison_heading(found)[1].startswith("B: as A, but recipe.gamma 0 instead of 2; seeds 0, 1, 2 (cifar-")


def test_seeds_of_one_spec_are_groups_of_their_own() -> None:
    groups = group_runs(runs("cifar-fast-g0", "cifar-fast-g0-seed1"))
    assert [group.seeds for group in groups] == [(0,), (1,)]
    assert "B: as A, but with another seed; seed 1" in comparison_heading(
        compare_runs(runs("cifar-fast-g0", "cifar-fast-g0-seed1"))
    )[1]  # fmt: skip


def test_tables_remarks_and_markdown() -> None:
    found = compare_runs(runs(DROPOUT, MDL, "fashion-multi-sample-dropout"))
    tables = comparison_tables(found)
    assert [headers[4] for headers, _ in tables] == ["B - A", "C - A"]
    assert tables[0][0] == ["attack", "images", "A", "B", "B - A", "95% over examples", "p", "p (Holm)"]
    assert tables[0][1][0][:5] == ["natural", "1,000", "92.30", "92.60", "+0.30"]
    markdown = COMPARISON_RENDERERS["markdown"](found)
    assert "| natural | 1,000 | 92.30 | 92.60 | +0.30 | [-0.81, +1.43] | 0.71 | 1 |" in markdown
    assert f"p (Holm) is corrected for the {2 * len(COMMON)} tests shown." in comparison_remarks(found)
    pooled = compare_runs(runs(*FAST))
    assert comparison_tables(pooled)[0][0][6] == "95% over seeds"
    assert any("pooled over seeds" in remark for remark in comparison_remarks(pooled))


def test_csv_has_a_line_for_each_attack() -> None:
    rows = list(csv.DictReader(COMPARISON_RENDERERS["csv"](compare_runs(runs(*FAST))).splitlines()))
    assert len(rows) == len(compare_runs(runs(*FAST)).attacks) >= 10
    natural = rows[0]
    assert (natural["attack"], natural["images"], natural["first_accuracy"]) == ("none", "1000", "0.694333")
    assert float(natural["seeds_low"]) < float(natural["examples_low"]) < float(natural["difference"])
    single = list(csv.DictReader(COMPARISON_RENDERERS["csv"](compare_runs(runs(DROPOUT, MDL))).splitlines()))
    assert {(row["first_spread"], row["seeds_low"]) for row in single} == {("", "")}


def test_what_cannot_be_compared_is_listed(tmp_path: Path) -> None:
    for name in (DROPOUT, MDL):
        shutil.copytree(RESULTS / name, tmp_path / name, ignore=shutil.ignore_patterns("*.safetensors"))
    for file in (tmp_path / MDL / "outcomes").glob("pgd-eps=8_255-loss=std*"):
        file.unlink()
    removed = sorted((tmp_path / MDL / "outcomes").glob("fgsm*.json"))
    assert removed
    for file in removed:
        file.unlink()
    found = compare_runs([RunDirectory(tmp_path / DROPOUT), RunDirectory(tmp_path / MDL)])
    reason = "fgsm:eps=8/255: stored for 1 of 1 runs of A on 1,000 images and 0 of 1 runs of B"
    assert reason in found.left_out
    assert f"Not compared: {reason}." in comparison_remarks(found)


def test_wrong_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 run is given; a comparison needs at least two"):
        compare_runs(runs(MDL))
    with pytest.raises(InputError, match="a run is given twice"):
        compare_runs(runs(MDL, MDL))
    with pytest.raises(InputError, match="A is trained on fashion-mnist, B on cifar10"):
        compare_runs(runs(MDL, "cifar-free-g0"))
    copied = Path(shutil.copytree(RESULTS / MDL, tmp_path / "copy"))
    with pytest.raises(InputError, match="have the same spec and a seed in common"):
        compare_runs([*runs(MDL, DROPOUT), RunDirectory(copied)])
    for file in (copied / "outcomes").iterdir():
        file.unlink()
    with pytest.raises(InputError, match=rf"stored for 1 of 1 runs of A .*; and {len(COMMON) - 3} more"):
        compare_runs([*runs(DROPOUT), RunDirectory(copied)])
    (copied / "record.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        compare_runs([*runs(DROPOUT), RunDirectory(copied)])


def test_networks_that_were_trained_elsewhere(tmp_path: Path) -> None:
    trained, theirs = make_run(tmp_path / "trained"), make_user_run(tmp_path / "theirs", draw_seed=2)
    other = make_user_run(tmp_path / "other", draw_seed=3, mean=(0.5,))
    comparison = compare_runs([theirs, trained, other])
    assert [group.seeds for group in comparison.groups] == [(), (0,), ()]
    assert len(comparison.attacks) == 6
    first, second, third = comparison_heading(comparison)
    assert first == "A: digits, nets:wide, trained elsewhere (theirs)"
    assert second == "B: digits, mnistnet, natural; seed 0 (trained)"
    assert third == "C: digits, nets:wide, trained elsewhere (other)"
