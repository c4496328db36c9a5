"""Outcomes of the best weights, and of attacks that have changed."""

import shutil
from pathlib import Path

import pytest

from ctrobust import data as datasets
from ctrobust.attacks import FGSM
from ctrobust.execution import evaluate_stored
from ctrobust.store import RunDirectory


def test_those_of_the_best_weights_are_kept_with_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test, best = datasets.load("digits", "test"), RunDirectory(run).best_file
    shutil.copy(run / "model.safetensors", best)
    (made,) = evaluate_stored(best, test, [FGSM(0.1)], limit=20)
    assert made.seconds is not None
    assert made.file is not None
    assert made.file.parent == run / "outcomes"
    monkeypatch.chdir(run / "checkpoint")
    (found,) = evaluate_stored(Path("best.safetensors"), test, [FGSM(0.1)], limit=20)
    assert (found.seconds, found.file) == (None, made.file)
    elsewhere = Path(shutil.copy(best, run / "checkpoint" / "other.safetensors"))
    (loose,) = evaluate_stored(elsewhere, test, [FGSM(0.1)], limit=20)
    assert loose.file is None


def test_those_of_another_revision_of_the_attacks_are_made_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = datasets.load("digits", "test")
    (first,) = evaluate_stored(run, test, [FGSM(0.1)], limit=20)
    monkeypatch.setattr(FGSM, "revision", FGSM.revision + 1)
    (second,) = evaluate_stored(run, test, [FGSM(0.1)], limit=20)
    assert second.seconds is not None
    assert second.file != first.file
