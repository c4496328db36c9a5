"""What a reader must know besides the values: preset, data, seeds and versions, from the stored records alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ctrobust.experiments import Figure, Table
from ctrobust.reporting.cell_values import CellValue
from ctrobust.specs import EvaluationJob, Job
from ctrobust.store import JobIndex, RunRecord
from ctrobust.store.records import RunData

TIMES = "Times are minutes of processor time here (CPU min) and wall-clock minutes on GPUs in the paper (GPU min)."

BOLD_RULES = {
    "best of the column": "the best value of a column in which every row has one",
    "best of the group": "the best value of a column among compared rows, once each of them has one",
    "chosen rows": "rows that the paper's authors chose",
}
"""Which of our values a table prints in bold."""


def footer(
    experiment: Table | Figure, values: Sequence[CellValue], index: JobIndex, legend: str, *, bold: str = "Bold"
) -> list[str]:
    """Sentences below a table or figure: how much was run, on what, and the readings that were chosen."""
    return [
        _progress(experiment, values),
        legend,
        *([f"{bold}: {BOLD_RULES[experiment.bold_rule]}."] if isinstance(experiment, Table) else []),
        *([TIMES] if any(cell.metric == "minutes" for cell in experiment.all_cells) else []),
        *provenance(experiment, index),
        *experiment.footnotes,
    ]


def _progress(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    done = sum(value.is_known for value in values)
    failed = sum(value.remark == "failed" for value in values)
    text = f"Preset {experiment.preset}; {done:,} of {len(values):,} cells have a value"
    return f"{text}; {failed:,} failed." if failed else f"{text}."


def provenance(experiment: Table | Figure, index: JobIndex) -> list[str]:
    """The data, seeds and versions of the stored runs that the values are computed from."""
    jobs = list(dict.fromkeys(job for cell in experiment.all_cells for job in cell.jobs if index.is_done(job)))
    records = {job.training: record for job in jobs if (record := index.record(job.training)) is not None}
    if not records:
        return ["Nothing of it is stored yet."]
    data = dict.fromkeys(sorted(_describe_data(record.data) for record in records.values()))
    seeds = sorted({spec.seed for spec in records})
    environments = list(_environments(jobs, list(records.values()), index))
    return [
        f"Data: {'; '.join(data)}.",
        f"{'Seed' if len(seeds) == 1 else 'Seeds'}: {', '.join(map(str, seeds))}.",
        f"Versions: {'; '.join(_versions(environments)) or 'not recorded'}.",
    ]


def _describe_data(data: RunData) -> str:
    files = "the published files" if data.verified else "not verified as the published files in their order"
    return f"{data.name}, {data.train:,} training and {data.test:,} test images, {files}"


def _environments(jobs: Sequence[Job], records: Sequence[RunRecord], index: JobIndex) -> Iterator[Mapping[str, Any]]:
    for record in records:
        yield record.environment
    for job in jobs:
        stored = index.evaluation(job) if isinstance(job, EvaluationJob) else None
        if stored is not None and stored.record.environment is not None:
            yield stored.record.environment


def _versions(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each package with all its versions, such as `torch 2.12.0 and 2.13.0`."""
    found: dict[str, set[str]] = {}
    for one in environments:
        packages = one.get("versions")
        known = {**(packages if isinstance(packages, dict) else {}), "ctrobust": one.get("ctrobust")}
        for name in ("ctrobust", "torch", "numpy"):
            if known.get(name) is not None:
                found.setdefault(name, set()).add(str(known[name]))
    return [f"{name} {' and '.join(sorted(versions))}" for name, versions in found.items()]
