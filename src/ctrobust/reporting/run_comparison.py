"""Runs compared on the same examples, from stored outcomes alone: runs that differ in their seed only are pooled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrobust.errors import InputError
from ctrobust.outcomes import PooledComparison, compare_pooled, holm
from ctrobust.specs import RunSpec, TrainSpec, UserModelSpec, changed_fields, spec_hash
from ctrobust.store import RunDirectory, StoredEvaluation

Examples = tuple[str, str, str, str | None, int]
"""Attack, data set, split, digest of data that are not the published ones, and revision of the attack."""

SHOWN_REASONS = 3
"""The largest number of reasons in an error message."""


@dataclass(frozen=True)
class RunGroup:
    """Runs of one spec, apart from their seeds.

    Attributes:
        label: "A", "B", ...
        spec: the spec of the first run.
        runs: the runs in the order of their seeds.
        seeds: their seeds; none of a network that was trained elsewhere.
    """

    label: str
    spec: RunSpec
    runs: tuple[RunDirectory, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class ComparedAttack:
    """One attack on the same examples of two groups; the second is compared with the first.

    `corrected` is Holm's p-value over all comparisons that are shown together.
    """

    attack: str
    first: RunGroup
    second: RunGroup
    values: PooledComparison
    corrected: float


@dataclass(frozen=True)
class RunComparison:
    """Groups of runs, each compared with the first.

    Attributes:
        groups: the groups, the reference first.
        attacks: what is compared.
        left_out: what is stored of some runs but cannot be compared, with the reason.
    """

    groups: tuple[RunGroup, ...]
    attacks: tuple[ComparedAttack, ...]
    left_out: tuple[str, ...]


def compare_runs(runs: Sequence[RunDirectory]) -> RunComparison:
    """Compare every group of runs with the first one, attack by attack, on the last weights of each run.

    Where all runs are seeds of one spec, each run is a group.
    """
    groups = group_runs(runs)
    stored = {run.path: _evaluations(run) for run in runs}
    found: list[_Pair] = []
    left_out: list[str] = []
    for second in groups[1:]:
        pairs, reasons = _compare_groups(groups[0], second, stored)
        found += pairs
        left_out += [reason for reason in reasons if reason not in left_out]
    if not found:
        raise InputError(f"no attack on the same examples is stored for all runs{_nothing_stored(left_out)}")
    corrected = holm([values.p_value for *_, values in found])
    rows = [ComparedAttack(*one, p) for one, p in zip(found, corrected, strict=True)]
    return RunComparison(groups, tuple(sorted(rows, key=_order)), tuple(left_out))


_Stored = Mapping[Path, Mapping[Examples, Mapping[int, StoredEvaluation]]]
_Pair = tuple[str, RunGroup, RunGroup, PooledComparison]


def _compare_groups(first: RunGroup, second: RunGroup, stored: _Stored) -> tuple[list[_Pair], list[str]]:
    """Compare two groups under every attack; also return what cannot be compared, with the reason."""
    found: list[_Pair] = []
    left_out: list[str] = []
    members = (*first.runs, *second.runs)
    for key in dict.fromkeys(key for run in members for key in stored[run.path]):
        sizes = [set(stored[run.path].get(key, {})) for run in members]
        common = set.intersection(*sizes)
        if not common:
            left_out.append(f"{key[0]}: {_reason(first, second, sizes)}")
            continue
        chosen = [stored[run.path][key][max(common)].evaluation for run in members]
        a, b = chosen[: len(first.runs)], chosen[len(first.runs) :]
        found.append((key[0], first, second, compare_pooled(a, b, paired=first.seeds == second.seeds)))
    if not found and first.spec.data != second.spec.data:
        verb = "trained" if isinstance(first.spec, TrainSpec) else "evaluated"
        data = f"{first.label} is {verb} on {first.spec.data}, {second.label} on {second.spec.data}"
        return [], [f"{second.label} and {first.label}: {data}"]
    return found, left_out


def _nothing_stored(left_out: Sequence[str]) -> str:
    """The end of an error message: why nothing can be compared."""
    if not left_out:
        return "; attack each with ctrobust evaluate RUN --attack"
    more = f"; and {len(left_out) - SHOWN_REASONS} more" if len(left_out) > SHOWN_REASONS else ""
    return f": {'; '.join(left_out[:SHOWN_REASONS])}{more}"


def group_runs(runs: Sequence[RunDirectory]) -> tuple[RunGroup, ...]:
    """Group runs whose specs differ in the seed only, in the order in which they are given."""
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise InputError("a run is given twice; give each run once")
    if len(runs) < 2:
        raise InputError(f"{len(runs)} run is given; a comparison needs at least two")
    specs = {run: run.read_any_spec() for run in runs}
    grouped: dict[str, list[RunDirectory]] = {}
    for run in runs:
        spec = specs[run]
        same = spec.model_copy(update={"seed": 0}) if isinstance(spec, TrainSpec) else spec
        grouped.setdefault(spec_hash(same), []).append(run)
    sides = list(grouped.values()) if len(grouped) > 1 else [[run] for run in runs]
    return tuple(_group(number, side, specs) for number, side in enumerate(sides))


def _group(number: int, runs: list[RunDirectory], specs: dict[RunDirectory, RunSpec]) -> RunGroup:
    ordered = sorted(runs, key=lambda run: _seeds(specs[run]))
    label = chr(ord("A") + number) if number < 26 else str(number + 1)
    seeds = tuple(seed for run in ordered for seed in _seeds(specs[run]))
    if len(ordered) > 1 and len(set(seeds)) < len(ordered):
        raise InputError(f"{', '.join(str(run.path) for run in ordered)} have the same spec and a seed in common")
    return RunGroup(label, specs[ordered[0]], tuple(ordered), seeds)


def _seeds(spec: RunSpec) -> tuple[int, ...]:
    return () if isinstance(spec, UserModelSpec) else (spec.seed,)


def describe_group(group: RunGroup, reference: RunGroup) -> str:
    """A group in one line: what it is, or how it differs from the reference, with its seeds."""
    spec, first = group.spec, reference.spec
    names = ", ".join(run.path.name for run in group.runs)
    if isinstance(spec, UserModelSpec):
        return f"{group.label}: {spec.data}, {spec.factory}, trained elsewhere ({names})"
    text = f"{spec.data}, {spec.model.name}, {spec.recipe.name}"
    if group is not reference and isinstance(first, TrainSpec):
        changed = changed_fields(first, spec.model_copy(update={"seed": first.seed}))
        fields = ", ".join(f"{key} {_shown(new)} instead of {_shown(old)}" for key, (old, new) in changed.items())
        text = f"as {reference.label}, but {fields or 'with another seed'}"
    seeds = f"{'seed' if len(group.seeds) == 1 else 'seeds'} {', '.join(map(str, group.seeds))}"
    return f"{group.label}: {text}; {seeds} ({names})"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _evaluations(run: RunDirectory) -> dict[Examples, dict[int, StoredEvaluation]]:
    """The evaluations of a run's last weights, by attack and examples, and by the number of examples."""
    described = run.read_any_spec()
    network = described.network if isinstance(described, UserModelSpec) else run.read_record().weights_sha256
    weights = network[:16]
    found: dict[Examples, dict[int, StoredEvaluation]] = {}
    for one in run.evaluations():
        spec = one.record.spec
        if spec.weights == weights:
            key = (spec.attack, spec.data, spec.split, spec.contents, spec.revision)
            found.setdefault(key, {}).setdefault(one.record.summary.count, one)
    return found


def _reason(first: RunGroup, second: RunGroup, sizes: Sequence[set[int]]) -> str:
    """Why an attack is not compared."""
    sides = ((first, sizes[: len(first.runs)]), (second, sizes[len(first.runs) :]))
    texts = []
    for group, known in sides:
        counts = sorted({count for one in known for count in one})
        images = f" on {' or '.join(f'{count:,}' for count in counts)} images" if counts else ""
        texts.append(f"{sum(map(bool, known))} of {len(known)} runs of {group.label}{images}")
    return f"stored for {' and '.join(texts)}"


def _order(row: ComparedAttack) -> tuple[str, bool]:
    """Group by group, natural accuracy first."""
    return row.second.label.rjust(4), row.attack != "none"
