"""Markdown tables of stored runs."""

import re
import shutil
from pathlib import Path

import pytest

from ctrobust.errors import InputError
from ctrobust.outcomes import mcnemar
from ctrobust.reporting.run_tables import AttackColumn, RunTables
from ctrobust.store import RunDirectory, Store
from tests.reporting.stored import RESULTS

FGSM = AttackColumn("FGSM", "fgsm:eps=8/255", 1000)
PGD = AttackColumn("PGD", "pgd:eps=8/255", 1000)
TABLES = RunTables(Store(RESULTS), (FGSM, PGD))


def cells(line: str) -> list[str]:
    return [text.strip() for text in line.strip("|").split("|")]


def test_accuracies_are_those_of_the_records() -> None:
    head, _, row, absent = TABLES.accuracies(["fashion-mdl", "no-such-run"])
    run = RunDirectory(RESULTS / "fashion-mdl")
    assert cells(head) == ["run", "natural, 10,000", "FGSM", "PGD"]
    name, natural, fgsm, _ = cells(row)
    results = run.read_record().results
    assert name == "fashion-mdl"
    low, high = results.accuracy_interval
    assert natural == f"{100 * results.accuracy:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    (stored,) = [one.record.summary for one in run.evaluations() if one.attack == "fgsm:eps=8/255"]
    assert fgsm.startswith(f"{100 * stored.robust_accuracy:.1f} [")
    assert cells(absent) == ["no-such-run", "not finished", "", ""]


def test_an_attack_on_other_images_was_not_run() -> None:
    tables = RunTables(Store(RESULTS), (AttackColumn("FGSM", "fgsm:eps=8/255", 999),))
    assert cells(tables.accuracies(["fashion-mdl"])[2])[-1] == "not run"
    assert cells(tables.mcnemar([["fashion-mdl", "fashion-dropout"]])[2])[-1] == "not run"


def test_paired_tests_count_the_examples_that_only_one_network_keeps() -> None:
    row = cells(TABLES.mcnemar([["fashion-dropout", "fashion-mdl"]])[2])
    first, second = (
        next(one.evaluation for one in RunDirectory(RESULTS / name).evaluations() if one.attack == PGD.attack)
        for name in ("fashion-dropout", "fashion-mdl")
    )
    expected = mcnemar(first.robust, second.robust)
    assert row[0] == "fashion-dropout, fashion-mdl"
    assert row[2] == f"{expected.b} : {expected.c}, p {expected.p_value:.2g}"


def test_thresholds_name_the_number_of_wrong_categories() -> None:
    head, _, row = TABLES.thresholds(["fashion-mdl"])
    threshold = RunDirectory(RESULTS / "fashion-mdl").read_record().results.threshold
    assert cells(head)[1] == "wrong categories below 1/9, of 90,000"
    assert cells(row)[1:] == [f"{threshold.wrong_below:,}", f"{threshold.largest_wrong_confidence:.4f}"]


def test_thresholds_of_other_numbers_of_images_are_not_mixed(tmp_path: Path) -> None:
    for name in ("fashion-mdl", "fashion-dropout"):
        shutil.copytree(RESULTS / name, tmp_path / name, ignore=shutil.ignore_patterns("outcomes", "*.safetensors"))
    file = tmp_path / "fashion-mdl" / "record.json"
    file.write_text(file.read_text().replace('"wrong_total": 90000', '"wrong_total": 9000'))
    with pytest.raises(InputError, match="fashion-mdl, fashion-dropout differ in their numbers"):
        RunTables(Store(tmp_path)).thresholds(["fashion-mdl", "fashion-dropout"])


def test_collapsed_epochs_are_those_of_the_record_and_natural_training_has_none() -> None:
    _, _, *rows = TABLES.collapses(["fashion-mdl", "cifar-fast-g2", "cifar-fast-g0"])
    assert [cells(row)[0] for row in rows] == ["cifar-fast-g2", "cifar-fast-g0"]
    assert cells(rows[0])[2] == "4, 8, 9, 10"
    assert cells(rows[1])[2] == "none"
    assert len(cells(rows[0])[1].split(", ")) == 10


def test_a_table_of_the_paper() -> None:
    lines = TABLES.reproduced("table1")
    assert lines[0].startswith("**table1** (laptop)")
    assert any(line.startswith("| MDL |") and "92.79" in line for line in lines)
    part = TABLES.reproduced("table1", only=["MNISTNet Cyclic FM"])
    assert [line.split(" | ")[0] for line in part if line.startswith("| ")][2:4] == ["| DO", "| FL"]
    assert not any("VGG16" in line for line in part if line.startswith("|"))


def test_statements_of_the_text_are_checked_on_stored_values_of_all_directories() -> None:
    curves = RESULTS.parent / "results-curves"
    head, _, _, alone = RunTables(Store(RESULTS)).statements(["figure3"])
    assert cells(head) == ["where", "what the text states", "here", "comparisons that hold"]
    assert alone == "Further statements: 8 not run, 1 not about numbers."
    _, _, *rows, _, left = RunTables(Store(RESULTS, (curves,))).statements(["figure3"])
    assert left == "Further statements: 6 not run, 1 not about numbers."
    assert len(rows) == 2
    for row in rows:
        assert "FashionMNIST" in cells(row)[1]
        assert re.fullmatch(r"\d+ of 18", cells(row)[3])


def test_a_run_is_found_in_every_directory_of_the_store(tmp_path: Path) -> None:
    tables = RunTables(Store(tmp_path, (RESULTS,)), (FGSM,))
    assert tables.accuracies(["fashion-mdl"]) == RunTables(Store(RESULTS), (FGSM,)).accuracies(["fashion-mdl"])


def test_verdicts_name_the_tests_that_raised_something() -> None:
    head, _, honest, collapsed = TABLES.verdicts(["cifar-madry-g0", "cifar-fast-g2"])
    assert cells(head)[2:] == ["verdict", "tests run", "tests that raised something"]
    assert cells(honest)[:3] == ["cifar-madry-g0", "8/255", "none found"]
    assert cells(honest)[-1] == "none"
    assert cells(collapsed)[2] == "suspicious"
    assert "one step beats many (suspicious)" in cells(collapsed)[-1]


def test_what_one_attack_finds_beyond_another() -> None:
    head, _, row = TABLES.found_beyond(["fashion-mdl", "no-such-run"], PGD.attack, FGSM.attack, 1000)
    assert cells(head)[1:5] == ["pgd", "fgsm", "broken only by pgd", "broken only by fgsm"]
    run = {one.attack: one.evaluation for one in RunDirectory(RESULTS / "fashion-mdl").evaluations()}
    pgd, fgsm = run[PGD.attack], run[FGSM.attack]
    assert cells(row)[3:5] == [str((~pgd.robust & fgsm.robust).sum()), str((pgd.robust & ~fgsm.robust).sum())]
    assert cells(row)[5] == f"{(pgd.forwards + pgd.backwards).mean():,.0f}"
    assert TABLES.found_beyond(["fashion-mdl"], PGD.attack, FGSM.attack, 999)[2:] == []
