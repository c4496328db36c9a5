"""How long missing jobs will take, judged by finished ones in the store."""

import contextlib
import heapq
import json
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ctrobust.errors import RunError
from ctrobust.specs import EvaluationJob, Job, TrainingJob, TrainSpec
from ctrobust.specs.attack_text import split_arguments
from ctrobust.store import RunDirectory, Store

ENOUGH_EPOCHS = 1000
"""The number of measured epochs of a kind after which further runs of it are not read."""


@dataclass(frozen=True)
class ExpectedTime:
    """The expected seconds of each job; None where nothing of its kind has been measured."""

    seconds: Mapping[Job, float | None]

    def total(self, workers: int) -> float:
        """The seconds until `workers` worker processes have done the measured jobs, in the order of the plan.

        A job starts on the first idle worker, and not before the training that it needs is done.
        """
        idle, trained = [0.0] * workers, defaultdict[TrainSpec, float](float)
        for job, seconds in self.seconds.items():
            if seconds is None:
                continue
            end = max(heapq.heappop(idle), 0.0 if isinstance(job, TrainingJob) else trained[job.training]) + seconds
            heapq.heappush(idle, end)
            if isinstance(job, TrainingJob):
                trained[job.training] = end
        return max(idle)

    def unmeasured(self, kind: type[Job] | None = None) -> int:
        """How many jobs, or jobs of a kind, nothing is known about."""
        return sum(
            seconds is None for job, seconds in self.seconds.items() if kind is None or isinstance(job, kind)
        )  # fmt: skip


def expected_time(jobs: Sequence[Job], store: Store) -> ExpectedTime:
    """Estimate jobs by the median of finished jobs of their kind.

    A training takes its epochs times the seconds per epoch of runs with the same data, network and recipe; an
    evaluation its images times the seconds per image of the same attack, of any strength, on the same data and network.
    """
    networks = {_network(json.loads(job.training.model_dump_json())) for job in jobs}
    per_epoch, per_image = defaultdict[Hashable, list[float]](list), defaultdict[Hashable, list[float]](list)
    sizes: dict[str, int] = {}
    for run in store.runs():
        with contextlib.suppress(RunError, OSError, ValueError, KeyError, TypeError):
            if _network(run.read_spec_fields()["resolved"]) in networks and run.record_file.exists():
                _measure(run, per_epoch, per_image, sizes)
    return ExpectedTime({job: _estimate(job, per_epoch, per_image, sizes) for job in jobs})


def _network(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return fields["data"], fields["model"]["name"], fields["model"]["width"]


def _measure(
    run: RunDirectory,
    per_epoch: dict[Hashable, list[float]],
    per_image: dict[Hashable, list[float]],
    sizes: dict[str, int],
) -> None:
    spec = run.read_spec()
    epochs = per_epoch[_training_kind(spec)]
    if len(epochs) >= ENOUGH_EPOCHS:
        return
    record = run.read_record()
    sizes[spec.data] = record.data.test
    epochs += record.seconds_per_epoch
    for one in run.evaluations():
        seconds, count = one.record.seconds, one.record.summary.count
        if seconds is not None:
            per_image[_attack_kind(spec, one.record.spec.data, one.attack)].append(seconds / count)


def _estimate(
    job: Job,
    per_epoch: Mapping[Hashable, list[float]],
    per_image: Mapping[Hashable, list[float]],
    sizes: Mapping[str, int],
) -> float | None:
    if isinstance(job, TrainingJob):
        known = per_epoch.get(_training_kind(job.training))
        return median(known) * job.training.epochs if known else None
    if isinstance(job, EvaluationJob):
        data = job.data or job.training.data
        known, count = per_image.get(_attack_kind(job.training, data, job.attack)), job.limit or sizes.get(data)
        return median(known) * count if known and count else None
    return None


def _training_kind(spec: TrainSpec) -> Hashable:
    """What decides the seconds of an epoch."""
    recipe, model = spec.recipe.model_dump(include={"name", "samples", "steps", "replays"}), spec.model
    return spec.data, spec.limit, model.name, model.width, spec.precision, spec.world_size, *sorted(recipe.items())


def _attack_kind(spec: TrainSpec, data: str, attack: str) -> Hashable:
    """What decides the seconds of an image: the strength hardly does."""
    name, _, rest = attack.partition(":")
    fields = {key: value for key, value in split_arguments(rest).items() if key not in ("eps", "step_size", "seed")}
    return data, spec.model.name, spec.model.width, name, *sorted(fields.items())
