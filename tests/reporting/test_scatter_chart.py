"""The scatter of an embedding."""

import numpy as np

from ctrobust.reporting.scatter_chart import scatter_chart, scatter_rows
from ctrobust.store import Embedding

EMBEDDING = Embedding(
    points=np.array([[0.12345, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype=np.float32),
    logits=np.array([[2.0, 1.0], [2.0, 1.0], [0.0, 1.0]], dtype=np.float32),
    labels=np.array([0, 1, 1]),
)


def test_rows_name_the_class_and_the_prediction() -> None:
    rows = scatter_rows(EMBEDDING, ("cat", "dog"))
    assert [(row["class"], row["predicted"], row["correct"]) for row in rows] == [
        ("cat", "cat", "correct"), ("dog", "cat", "misclassified"), ("dog", "dog", "correct"),
    ]  # fmt: skip
    assert rows[0]["x"] == 0.123


def test_the_chart_counts_misclassified_images() -> None:
    spec = scatter_chart("VGG16", scatter_rows(EMBEDDING, ("cat", "dog")), ("cat", "dog"), (100, 100)).to_dict()
    assert spec["title"]["subtitle"] == "3 images, 1 misclassified (×)"
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["cat", "dog"]


def test_an_embedding_that_was_not_run_says_so() -> None:
    spec = scatter_chart("VGG16", [], (), (100, 100)).to_dict()
    assert [row["message"] for rows in spec["datasets"].values() for row in rows] == ["not run"]


def test_a_hundred_classes_have_no_legend() -> None:
    classes = tuple(f"class {number}" for number in range(100))
    spec = scatter_chart("VGG16", scatter_rows(EMBEDDING, classes), classes, (100, 100)).to_dict()
    assert spec["layer"][0]["encoding"]["color"]["legend"] is None
