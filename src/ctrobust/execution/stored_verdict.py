"""Verdicts on masking of a trained network: what its run directory holds is not measured again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrobust.attacks import parse
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.evaluation import ProgressCallback, masking
from ctrobust.execution.stored_evaluation import AttackedNetwork, EvaluationRow, run_of
from ctrobust.models import WeightsFile
from ctrobust.outcomes.masking import Measurement, Verdict
from ctrobust.specs import VerdictSpec
from ctrobust.store import RunDirectory
from ctrobust.store.verdict_files import VerdictRecord, find_verdict, read_verdicts, verdict_file, write_verdict
from ctrobust.training import environment

REVISION = 0
"""Raised by one when a test measures something else, so that stored verdicts are measured again."""


@dataclass(frozen=True)
class VerdictRow:
    """A verdict with where it is stored: None for a weights file outside a run directory.

    `found` is whether every test had been run before.
    """

    verdict: Verdict
    file: Path | None
    found: bool = False


def verdict_stored(
    weights: AttackedNetwork,
    data: Dataset,
    *,
    eps: float | str = 8 / 255,
    norm: str = "linf",
    limit: int | None = 256,
    seed: int = 0,
    tests: Sequence[str] | str | None = None,
    transfer: WeightsFile | None = None,
    progress: ProgressCallback | None = None,
    into: RunDirectory | None = None,
) -> VerdictRow:
    """Run the masking tests that the run directory does not hold yet, and store each when it is done.

    The verdict is stored in the run directory `into`, by default that of the weights. Tests that were run before, such
    as the nearly free ones, are part of it.
    """
    radius = parse(f"fgsm:eps={eps}").eps if isinstance(eps, str) else eps
    if not radius > 0:
        raise InputError(f"the radius of a verdict is more than 0, got {eps}")
    spec = VerdictSpec.model_validate(
        {
            "data": data.name, "split": "train" if data.split == "train" else "test", "limit": limit, "eps": radius,
            "norm": norm, "seed": seed, "weights": weights.sha256[:16],
            "contents": None if data.verified else data.digest(), "revision": REVISION,
        }
    )  # fmt: skip
    run = into or run_of(weights)
    other = None if transfer is None else transfer.sha256[:16]
    stored = None if run is None else find_verdict(run, spec)
    measured = {} if stored is None else _reusable(stored, other)

    def store(verdict: Verdict, measurements: Mapping[str, Measurement]) -> None:
        if run is not None:
            source = other or (None if stored is None else stored.transfer)
            source = source if "transfer" in measurements else None
            facts = environment()
            write_verdict(
                run, spec, verdict, measurements, classes=data.classes, environment=facts, transfer=source
            )  # fmt: skip

    def measure() -> Verdict:
        return masking(
            weights.build(), data, radius, spec.norm, limit, None if transfer is None else transfer.build(), tests,
            seed=seed, progress=progress, measured=measured, on_measured=store,
        )  # fmt: skip

    if run is None:
        return VerdictRow(measure(), None)
    file = verdict_file(run, spec)
    run.check_writable(file.parent)
    with run.writing(file):
        before = find_verdict(run, spec)
        return VerdictRow(measure(), file, found=before is not None and before == find_verdict(run, spec))


def _reusable(stored: VerdictRecord, other: str | None) -> dict[str, Measurement]:
    """The stored measurements, without a transfer attack that was made on another network than this one."""
    measured = stored.read_measurements()
    if other is not None and stored.transfer != other:
        measured.pop("transfer", None)
    return measured


def verdicts_beside(
    weights: AttackedNetwork, data: Dataset, rows: Sequence[EvaluationRow], run: RunDirectory | None = None
) -> list[VerdictRecord]:
    """The verdicts on these weights and data, stored in `run`, at the norms and radii of some attacks.

    By default the run is that of the weights.
    """
    run = run or run_of(weights)
    if run is None:
        return []
    balls = {(attack.eps, attack.norm) for row in rows if row.attack != "none" for attack in [parse(row.attack)]}
    contents = None if data.verified else data.digest()
    return [
        one
        for one in read_verdicts(run)
        if (one.spec.eps, one.spec.norm) in balls
        and (one.spec.weights, one.spec.data, one.spec.contents) == (weights.sha256[:16], data.name, contents)
    ]
