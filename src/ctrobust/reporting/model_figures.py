"""The figures of one model: confusion before and after the attack, fragile classes, embeddings, contact sheets."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.regular_file import read_regular_file
from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.number_texts import count_text
from ctrobust.reporting.outcome_digests import OutcomeProfile
from ctrobust.reporting.page_views import FigureView, plain_table
from ctrobust.reporting.report_models import TrainedNetwork
from ctrobust.reporting.report_runs import Reading
from ctrobust.store import read_embedding

FRAGILE_CLASSES = 15
NUMBERED_CLASSES = 12
"""Confusion with at most this many classes shows its counts as numbers."""

EMBEDDED_POINTS = 2000
LARGEST_PICTURE = 600_000
"""Bytes; a larger contact sheet is named instead of shown."""

SERIES_COLOURS = 8
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class PictureView:
    """A contact sheet as a data URL; `size` is its width and height in pixels."""

    title: str
    url: str
    size: tuple[int, int]


def class_names(network: TrainedNetwork, count: int) -> list[str]:
    """The names of the classes, or their numbers where they are not recorded."""
    recorded: list[Sequence[str]] = [one.record.classes for one in network.evaluations if one.record.classes]
    if network.run.record is not None:
        recorded.append(network.run.record.data.classes)
    found = next((list(names) for names in recorded if len(names) == count), [])
    return found if len(set(found)) == count else [str(number) for number in range(count)]


def model_figures(name: str, network: TrainedNetwork, profile: OutcomeProfile) -> Iterator[FigureView]:
    """Figures of one network."""
    names = class_names(network, profile.classes)
    attack = read_attack(profile.attack).title
    images = count_text(profile.count, "image")
    yield _confusion(f"{name}-clean", "Confusion without an attack", f"{images}.", profile.clean_confusion, names)
    if profile.attack == "none":
        return
    caption = f"{images} under {attack}, the attack that breaks the most."
    yield _confusion(f"{name}-attacked", f"Confusion under {attack}", caption, profile.attacked_confusion, names)
    yield _fragile(name, profile, names)


def _confusion(name: str, title: str, caption: str, counts: NDArray[np.int64], names: Sequence[str]) -> FigureView:
    totals = np.maximum(counts.sum(axis=1), 1)
    pairs = [(one, one) for one in range(len(names))]  # first, so that axes have the order of the classes
    pairs += [(int(a), int(b)) for a, b in np.argwhere(counts) if a != b]
    rows: list[dict[str, Any]] = [
        {
            "label": names[a],
            "predicted": names[b],
            "count": int(counts[a, b]),
            "share": 100 * int(counts[a, b]) / int(totals[a]),
            "number": len(names) <= NUMBERED_CLASSES and bool(counts[a, b]),
        }
        for a, b in pairs
    ]
    wrong = sorted((row for row in rows if row["label"] != row["predicted"]), key=lambda row: -row["count"])[:10]
    table = plain_table(
        f"{name}-table", f"{title}: the most frequent errors", ["is", "classified as", "images", "of its class"],
        [[row["label"], row["predicted"], f"{row['count']:,}", f"{row['share']:.1f}%"] for row in wrong],
    )  # fmt: skip
    caption = (
        f"{caption} Rows are what an image is, columns what it was classified as; correct ones are on the diagonal."
    )
    return FigureView(name, "confusion", title, caption, rows, table=table)


def _fragile(name: str, profile: OutcomeProfile, names: Sequence[str]) -> FigureView:
    totals = profile.clean_confusion.sum(axis=1)
    correct = np.diag(profile.clean_confusion)
    rows: list[dict[str, Any]] = [
        {
            "class": names[one],
            "count": int(totals[one]),
            "clean": 100 * int(correct[one]) / int(totals[one]),
            "robust": 100 * int(profile.class_robust[one]) / int(totals[one]),
        }
        for one in np.flatnonzero(totals).tolist()
    ]
    rows = sorted(rows, key=lambda row: (row["robust"], row["clean"]))[:FRAGILE_CLASSES]
    table = plain_table(
        f"{name}-fragile-table", "Classes, the most fragile first", ["class", "images", "no attack", "worst attack"],
        [[row["class"], f"{row['count']:,}", f"{row['clean']:.1f}%", f"{row['robust']:.1f}%"] for row in rows],
    )  # fmt: skip
    caption = (
        "Images of each class that are correct without an attack (hollow) and under every compared attack (filled); "
        "the most fragile class comes first."
    )
    return FigureView(f"{name}-fragile", "fragile", "Most fragile classes", caption, rows, table=table, wide=True)


def embedding_figures(name: str, network: TrainedNetwork, reading: Reading) -> Iterator[FigureView]:
    """The stored two-dimensional embeddings of a run's logits."""
    for number, file in enumerate(network.run.embeddings):
        found = reading.attempt(partial(_embedding, f"{name}-tsne-{number}", network, file))
        if found is not None:
            yield found


def _embedding(name: str, network: TrainedNetwork, file: Path) -> FigureView:
    found = read_embedding(file)
    points, labels = found.points[:EMBEDDED_POINTS], found.labels[:EMBEDDED_POINTS]
    names = class_names(network, found.logits.shape[1])
    predicted = found.logits[:EMBEDDED_POINTS].argmax(axis=1)
    rows = [
        {
            "x": round(float(x), 2),
            "y": round(float(y), 2),
            "label": names[int(label)],
            "predicted": names[int(guess)],
            "correct": bool(label == guess),
            "colour": f"var(--s{int(label) % SERIES_COLOURS + 1})",
        }
        for (x, y), label, guess in zip(points, labels, predicted, strict=True)
    ]
    present = [int(label) for label in np.unique(labels)]
    middles = {label: np.median(points[labels == label], axis=0) for label in present}
    marks = [{"x": float(x), "y": float(y), "text": names[label]} for label, (x, y) in middles.items()]
    table = plain_table(
        f"{name}-table", "Classes of the embedding", ["class", "images", "misclassified"],
        [
            [names[label], f"{(labels == label).sum():,}", f"{((labels == label) & (predicted != label)).sum():,}"]
            for label in present
        ],
    )  # fmt: skip
    caption = (
        f"The logits of {count_text(len(rows), 'test image')} in two dimensions (t-SNE), coloured by class; crosses "
        "are misclassified. Distances between clusters mean nothing."
    )
    return FigureView(name, "tsne", "Logits in two dimensions", caption, rows, marks, table, wide=True)


def pictures_of(network: TrainedNetwork, reading: Reading) -> list[PictureView]:
    """The contact sheets of a run."""
    found = []
    for file in network.run.pictures:
        try:
            content = read_regular_file(file, LARGEST_PICTURE)
        except OSError as error:
            reading.problems.append(f"{file} is left out: {error.strerror or error}")
            continue
        if not content.startswith(PNG):
            reading.problems.append(f"{file} is not a PNG file and is left out")
        else:
            url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
            found.append(PictureView(_picture_title(network, file), url, _size(content)))
    return found


def _picture_title(network: TrainedNetwork, file: Path) -> str:
    """The attack of the evaluation that the contact sheet belongs to, or the name of the file."""
    attacks = (read_attack(one.attack) for one in network.evaluations if file.stem == f"pictures-{one.file.stem}")
    found = next(attacks, None)
    if found is None:
        return file.stem.replace("-", " ").replace("_", " ")
    return f"Attacked images: {found.title} within {found.ball}"


def _size(png: bytes) -> tuple[int, int]:
    """The width and height in the header of a PNG file."""
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
