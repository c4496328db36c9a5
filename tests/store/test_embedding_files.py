"""Embeddings on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store import read_embedding, write_arrays

ARRAYS: dict[str, NDArray[Any]] = {
    "points": np.array([[0.0, 1.0], [2.0, 3.0]]),
    "labels": np.array([0, 2]),
    "logits": np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]),
}


def test_an_embedding_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_arrays(tmp_path / "tsne.npz", ARRAYS)
    found = read_embedding(tmp_path / "tsne.npz", classes=3)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(getattr(found, name), array)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"points": np.zeros((2, 3))}, r"points \(2, 3\)"),
        ({"points": np.full((2, 2), np.nan)}, "not finite"),
        ({"labels": np.array([0, 3])}, "labels are int64 from 0 to 3, expected 0 to 2"),
        ({"labels": np.array([-1, 0])}, "labels are int64 from -1 to 0"),
        ({"labels": np.array([0.0, 1.0])}, "labels are float64"),
        ({"logits": np.zeros((2, 0))}, r"logits \(2, 0\)"),
        ({"logits": np.zeros((2, 4))}, "its logits are of 4 classes, those of the run are 3"),
        ({name: array[:0] for name, array in ARRAYS.items()}, r"labels \(0,\)"),
    ],
)
def test_arrays_that_are_no_embedding_are_refused(
    tmp_path: Path, changed: dict[str, NDArray[Any]], message: str
) -> None:
    write_arrays(tmp_path / "tsne.npz", {**ARRAYS, **changed})
    with pytest.raises(RunError, match=rf"tsne\.npz is damaged: .*{message}.*; remove it to have it made again"):
        read_embedding(tmp_path / "tsne.npz", classes=3)


def test_a_file_of_logits_alone_has_no_points(tmp_path: Path) -> None:
    write_arrays(tmp_path / "logits.npz", {"logits": ARRAYS["logits"], "labels": ARRAYS["labels"]})
    with pytest.raises(RunError, match="it has no points"):
        read_embedding(tmp_path / "logits.npz")
