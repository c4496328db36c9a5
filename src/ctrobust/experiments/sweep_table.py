"""A sweep of one's own as a table: every combination of the varied fields is a row, seeds are pooled.

The file of a sweep has the keys of SWEEP_KEYS. `[base]` holds fields of a training as a spec file does, `[vary]` lists
of values by the names of fields, such as `recipe.gamma = [0, 2]`.
"""

import difflib
import itertools
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ctrobust.errors import CtrobustError, SpecError
from ctrobust.experiments.cell import Cell
from ctrobust.experiments.table import Column, Row, Table
from ctrobust.specs import EvaluationJob, TrainingJob, TrainSpec, canonical_attack, train_spec

SWEEP_KEYS = {
    "title": "a caption in one sentence",
    "base": "a table of fields that all trainings share, as in the spec file of a training",
    "vary": "a table of lists: the values of each varied field, all combinations of which are trained",
    "seeds": "a list of seeds, whose results are pooled",
    "attacks": "a list of attacks, such as 'pgd:eps=8/255'",
    "limit": "the number of attacked test images; all without it",
}
"""Key of a sweep file -> what it holds."""

MOST_TRAININGS = 10_000
"""The largest number of trainings of a sweep: more is probably a mistake."""

SpecMaker = Callable[[Mapping[str, Any]], TrainSpec]
"""Makes the spec of a training from its fields."""


def sweep_table(name: str, fields: Mapping[str, Any], make_spec: SpecMaker = train_spec) -> Table:
    """Plan the sweep of a file's fields.

    Example:
        >>> table = sweep_table("gammas", {"base": {"recipe": {"name": "fast"}}, "vary": {"recipe": {"gamma": [0, 2]}},
        ...                     "seeds": [0, 1, 2], "attacks": ["pgd:eps=0.1"], "limit": 100})
        >>> [row.label for row in table.rows], [column.label for column in table.columns], len(table.cells[0].jobs)
        (['gamma 0', 'gamma 2'], ['accuracy', 'pgd:eps=0.1'], 3)
    """
    for key in fields:
        if key not in SWEEP_KEYS:
            raise SpecError(f"unknown key {key}{_suggestion(key, SWEEP_KEYS)}; allowed: {', '.join(SWEEP_KEYS)}")
    title, limit = fields.get("title", "Accuracy (%) of all combinations"), fields.get("limit")
    if not isinstance(title, str):
        raise SpecError(f"title = {reprlib.repr(title)}; allowed is {SWEEP_KEYS['title']}")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise SpecError(f"limit = {reprlib.repr(limit)}; allowed is a whole number of at least 1")
    base, varied = _table(fields, "base"), dict(_flatten(_table(fields, "vary")))
    seeds = _seeds(fields, base, varied)
    attacks = tuple(dict.fromkeys(map(_attack, _list(fields, "attacks", [], str, "texts"))))
    trainings = len(seeds)
    for key, values in varied.items():
        _check_values(f"vary.{key}", values)
        trainings *= len(values)
    if trainings > MOST_TRAININGS:
        raise SpecError(f"the sweep has {trainings:,} trainings; allowed are {MOST_TRAININGS:,}")

    columns = tuple(Column(label, (label,)) for label in ("accuracy", *attacks))
    names, rows, cells = _short_names(list(varied)), [], []
    for values in itertools.product(*varied.values()):
        headers = tuple(map(_text, values))
        label = ", ".join(f"{names[key]} {text}" for key, text in zip(varied, headers, strict=True)) or "base"
        rows.append(Row(label, headers or ("base",)))
        combination = dict(zip(varied, values, strict=True))
        specs = [_spec(base, {**combination, "seed": seed}, make_spec) for seed in seeds]
        cells.append(Cell(label, "accuracy", "accuracy", tuple(TrainingJob(training=spec) for spec in specs)))
        for attack in attacks:
            jobs = tuple(EvaluationJob(training=spec, attack=attack, limit=limit) for spec in specs)
            cells.append(Cell(label, attack, "robust_accuracy", jobs))
    return Table(
        name=name,
        preset="sweep",
        title=title,
        row_headers=tuple(names.values()) or ("",),
        rows=tuple(rows),
        columns=columns,
        cells=tuple(cells),
        bold_rule="best of the column",
        footnotes=_footnotes(seeds, attacks, limit),
    )


def _spec(base: Mapping[str, Any], values: Mapping[str, Any], make_spec: SpecMaker) -> TrainSpec:
    fields = dict(base)
    for key, value in values.items():
        fields = _with_field(fields, key.split("."), value)
    try:
        return make_spec(fields)
    except CtrobustError as error:
        where = ", ".join(f"{key} = {reprlib.repr(value)}" for key, value in values.items() if key != "seed")
        raise SpecError(f"base{f' with {where}' if where else ''}: {error}") from None


def _with_field(fields: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Set a field by its path in nested tables."""
    first, *rest = path
    inner = fields.get(first, {})
    if rest and not isinstance(inner, Mapping):
        raise SpecError(
            f"base.{first} = {reprlib.repr(inner)} is a value, but vary.{'.'.join(path)} needs a table there"
        )
    return {**fields, first: _with_field(inner, rest, value) if rest else value}


def _seeds(fields: Mapping[str, Any], base: Mapping[str, Any], varied: dict[str, Any]) -> list[int]:
    """The seeds of `seeds`, of a varied field `seed`, or the one of the base."""
    if "seed" in varied:
        if "seeds" in fields:
            raise SpecError("seeds and vary.seed are both given; give the seeds once")
        fields = {**fields, "seeds": varied.pop("seed")}
    if "seeds" in fields and "seed" in base:
        raise SpecError("seeds and base.seed are both given; give the seeds once")
    seeds = _list(fields, "seeds", [base.get("seed", 0)], int, "whole numbers")
    _check_values("seeds", seeds)
    return seeds


def _table(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = fields.get(key, {})
    if not isinstance(found, Mapping):
        raise SpecError(f"{key} = {reprlib.repr(found)}; allowed is {SWEEP_KEYS[key]}")
    return found


def _list(fields: Mapping[str, Any], key: str, default: list[Any], kind: type, title: str) -> list[Any]:
    found = fields.get(key, default)
    if not isinstance(found, list) or any(type(one) is not kind for one in found):
        raise SpecError(f"{key} = {reprlib.repr(found)}; allowed is a list of {title}")
    return found


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables as dotted names."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _check_values(key: str, values: Any) -> None:
    if not isinstance(values, list) or not values:
        raise SpecError(f"{key} = {reprlib.repr(values)}; allowed is a list of at least one value")
    texts = list(map(_text, values))
    for text in texts:
        if texts.count(text) > 1:
            raise SpecError(f"{key} has {text} twice")


def _attack(text: str) -> str:
    try:
        found = canonical_attack(text)
    except CtrobustError as error:
        raise SpecError(f"attacks: {error}") from None
    if found == "none":
        raise SpecError("attacks: 'none' is no attack; the accuracy without one is always a column")
    return found


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last word of each dotted name, or the whole name where two have the same last word."""
    words = [key.rpartition(".")[2] for key in keys]
    return {key: word if words.count(word) == 1 else key for key, word in zip(keys, words, strict=True)}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _footnotes(seeds: Sequence[int], attacks: Sequence[str], limit: int | None) -> tuple[str, ...]:
    found = [f"Values are over {len(seeds)} seeds."] if len(seeds) > 1 else []
    if attacks:
        found.append(f"The first {limit:,} test images are attacked." if limit else "All test images are attacked.")
    return tuple(found)


def _suggestion(key: str, allowed: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(key, allowed, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
