"""Evaluations by one process and by workers, compared to the byte."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ctrobust import data as datasets
from ctrobust.attacks import APGD, Attack, AutoAttack, Square
from ctrobust.evaluation import ProgressCallback
from ctrobust.execution import EvaluationRow, Sharding, evaluate_stored
from ctrobust.specs import train_spec
from ctrobust.store import StoredEvaluation

LIMIT, CHUNK = 80, 8
SPEC = train_spec({"data": "digits", "limit": 480, "epochs": 3, "lr": 0.05, "model": {"width": 8, "noise": "none"}})
"""A network that classifies some of the images correctly, of which the attacks break some."""

ENSEMBLE = AutoAttack(eps=0.05, queries=40)
GRADIENTS = APGD(eps=0.05, steps=12, restarts=2, loss="sce(gamma=5)")
SEARCH = Square(eps=0.05, queries=300)


@contextmanager
def one_thread() -> Iterator[None]:
    """As workers have: another number of threads rounds otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def attacked(
    run: Path,
    attacks: Sequence[Attack | None],
    sharding: Sharding | None = None,
    progress: ProgressCallback | None = None,
) -> list[EvaluationRow]:
    digits = datasets.load("digits", "test")
    with one_thread():
        found = evaluate_stored(
            run, digits, attacks, limit=LIMIT, chunk=CHUNK, sharding=sharding, progress=progress
        )  # fmt: skip
        return list(found)


def stored(run: Path) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """Of every file of outcomes its bytes, and what its record holds besides times and machine."""
    found = {}
    for file in sorted((run / "outcomes").glob("*.npz")):
        record = StoredEvaluation.read(file).record
        found[file.name] = (
            file.read_bytes(),
            record.model_dump(exclude={"seconds", "cpu_seconds", "environment"}),
        )
    assert not list((run / "outcomes").glob("*.partial"))
    assert not list((run / "outcomes").glob("*.resume"))
    return found
