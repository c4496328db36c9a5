"""The tables and the JSON of an evaluation where there is no terminal, and tables of 80 columns."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from ctrobust.cli.evaluation_tables import demo_table, evaluation_json, evaluation_table
from ctrobust.cli.tables import percent
from tests.cli.evaluations import clean_row, dots, rows


def test_the_table_of_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows()
    evaluation_table(Path("runs/[a]"), dots(), found)
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert "runs/[a] on dots (test), 40 images\naccuracy 100.0% [91.2, 100.0]\n" in out
    assert "success rate on all images   success rate on correct images" in out
    for row in found:
        (line,) = [line for line in out.splitlines() if line.strip().startswith(row.attack)]
        one = row.evaluation
        assert percent(one.robust_accuracy, one.interval) in line
        assert one.success_on_correct is not None
        assert line.split()[-6:-4] == [f"{100 * one.attack_success_rate:.1f}%", f"{100 * one.success_on_correct:.1f}%"]
        assert f" {one.forwards.mean():.1f} + {one.backwards.mean():.1f} " in line
        assert line.split()[-1] in ("1.2", "1.3")
    assert "confidence threshold 1/3: " in out
    assert " of 120 wrong categories are below it" in out
    assert "largest p_y" not in out  # no image is misclassified


def test_the_table_names_stored_outcomes_and_unverified_data(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation_table(Path("runs/a"), dots(verified=False), rows(stored=True))
    out = capsys.readouterr().out
    assert "runs/a on dots (test, unverified), 40 images" in out
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("  ") and "eps=" in line] == [
        "stored", "stored",
    ]  # fmt: skip


def test_without_an_attack_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation_table(Path("runs/a"), dots(), [clean_row()])
    out = capsys.readouterr().out
    assert "accuracy 100.0%" in out
    assert "robust accuracy" not in out
    assert "confidence threshold 1/3" in out


def test_at_chance_the_confidence_threshold_means_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    constant = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
    for parameter in constant.parameters():
        torch.nn.init.zeros_(parameter)
    evaluation_table(Path("runs/a"), dots(), [clean_row(constant.eval())])
    out = capsys.readouterr().out
    assert "below the confidence threshold 1/3 means nothing: the accuracy does not differ from that of random" in out
    assert "120" not in out


def test_the_json_of_an_evaluation_holds_every_figure() -> None:
    found = rows(stored=True)
    document = evaluation_json(Path("runs/a"), dots(verified=False), found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["run"] == "runs/a"
    assert document["data"] == {"name": "dots", "split": "test", "verified": False, "count": 40}
    assert document["accuracy"] == 1.0
    assert document["threshold"] == found[0].evaluation.threshold.to_dict()
    assert [one["attack"] for one in document["attacks"]] == ["fgsm:eps=0.1", "pgd:eps=0.2,loss=sce(gamma=5)"]
    for one, row in zip(document["attacks"], found, strict=True):
        assert one["robust_accuracy"] == row.evaluation.robust_accuracy
        assert one["interval"] == [row.evaluation.interval.low, row.evaluation.interval.high]
        assert one["attack_success_rate"] == row.evaluation.attack_success_rate
        assert one["success_on_correct"] == row.evaluation.success_on_correct
        assert one["outcomes"] == "outcomes/x.npz"
        assert one["seconds"] is None
        assert "threshold" not in one


def test_the_json_without_an_attack() -> None:
    clean = clean_row()
    document = evaluation_json(Path("runs/a"), dots(), [clean])
    assert document["attacks"] == []
    assert document["accuracy_interval"] == [clean.evaluation.interval.low, clean.evaluation.interval.high]


def test_the_table_of_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows()
    demo_table([("mdl", [found[0], found[0], found[0], found[1]])], Path("out"))
    out = capsys.readouterr().out
    assert out.startswith("digits, 40 test images, attacks within 0.1; 95% intervals\n")
    (line,) = [line for line in out.splitlines() if line.strip().startswith("mdl")]
    assert line.count("%") == 5
    assert line.strip().endswith(" of 120")
    assert "run directories: out/mdl" in out
