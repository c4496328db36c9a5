"""Curves of a trained network, each made once: what its run directory holds is not made again."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrobust.attacks import Attack, revision
from ctrobust.data import Dataset
from ctrobust.errors import RunError
from ctrobust.evaluation import NoStateStore, ProgressCallback, robustness_curve
from ctrobust.execution.partial_outcomes import PartialOutcomes
from ctrobust.execution.stored_evaluation import AttackedNetwork, attacked_model, expand, run_of
from ctrobust.outcomes import RobustnessCurve
from ctrobust.specs import CurveSpec
from ctrobust.specs.attack_text import format_number
from ctrobust.store import RunDirectory, StoredCurve, curve_file, find_curve, write_curve
from ctrobust.training import environment


@dataclass(frozen=True, eq=False)
class CurveRow:
    """A curve with where it is stored, and the seconds that it took.

    `file` is None for a weights file outside a run directory, `seconds` is None if the curve was stored before.
    """

    curve: RobustnessCurve
    file: Path | None
    seconds: float | None


def curve_attacks(texts: Sequence[str], radii: Sequence[float]) -> list[Attack]:
    """The attacks of a curve at its largest radius; one that has an eps of its own is refused."""
    largest = format_number(radii[-1])
    return list(dict.fromkeys(attack for text in texts for attack in expand([text], [largest])))


def curves_stored(
    weights: AttackedNetwork,
    data: Dataset,
    attacks: Sequence[Attack],
    radii: Sequence[float],
    *,
    bisections: int = 0,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
    into: RunDirectory | None = None,
) -> Iterator[CurveRow]:
    """Make the curve of each attack, store it in the run directory `into`, and yield it when it is done.

    By default the run directory is that of the weights. A killed curve goes on from its last finished batch.
    """
    run = into or run_of(weights)
    model = attacked_model(weights)

    def make(attack: Attack, store: PartialOutcomes | NoStateStore) -> tuple[RobustnessCurve, float]:
        started = time.monotonic()
        curve = robustness_curve(
            model, data, attack, radii, bisections=bisections, limit=limit, chunk=chunk, fuse=fuse, progress=progress,
            store=store,
        )  # fmt: skip
        return curve, round(time.monotonic() - started, 3)

    for attack in attacks:
        if run is None:
            curve, seconds = make(attack, NoStateStore())
            yield CurveRow(curve, None, seconds)
            continue
        spec = _spec(weights, data, attack, radii, bisections, limit, chunk)
        with _making(run, spec):
            stored = _find(run, spec, data)
            if stored is not None:
                yield CurveRow(stored.curve, stored.file, None)
                continue
            partial = PartialOutcomes(curve_file(run, spec))
            resumed = partial.begun
            curve, seconds = make(attack, partial)
            stored = write_curve(
                run, spec, curve, classes=data.classes, environment=environment(), seconds=None if resumed else seconds
            )
            partial.remove()
        yield CurveRow(stored.curve, stored.file, seconds)


@contextlib.contextmanager
def _making(run: RunDirectory, spec: CurveSpec) -> Iterator[None]:
    file = curve_file(run, spec)
    if find_curve(run, spec) is not None:  # it is only read, perhaps from a directory that cannot be written
        yield
        return
    run.check_writable(file.parent)
    with run.writing(file):
        yield


def _find(run: RunDirectory, spec: CurveSpec, data: Dataset) -> StoredCurve | None:
    found = find_curve(run, spec)
    if found is not None and found.curve.labels.tolist() != data.labels[: spec.limit].tolist():
        raise RunError(
            f"{found.file} holds other examples than {data.name} ({data.split}); "
            "remove it and the .json beside it to have it made again"
        )
    return found


def _spec(
    weights: AttackedNetwork, data: Dataset, attack: Attack, radii: Sequence[float], bisections: int, limit: int | None,
    chunk: int,
) -> CurveSpec:  # fmt: skip
    largest = dataclasses.replace(attack, eps=radii[-1])  # type: ignore[type-var]
    return CurveSpec(
        data=data.name,
        split="train" if data.split == "train" else "test",
        limit=limit,
        attack=str(largest),
        radii=tuple(radii),
        bisections=bisections,
        chunk=chunk,
        weights=weights.sha256[:16],
        contents=None if data.verified else data.digest(),
        revision=revision(attack),
        repeats=weights.repeats,
    )
