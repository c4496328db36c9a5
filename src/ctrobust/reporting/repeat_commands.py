"""The commands that repeat a stored number."""

import contextlib
import json
import shlex
from typing import Any

from ctrobust.errors import SpecError
from ctrobust.reporting.report_models import TrainedNetwork
from ctrobust.specs import TrainSpec, UserModelSpec, canonical, merge, train_spec
from ctrobust.store import EvaluationRecord

OPTIONS = {
    "data": "--data", "recipe.name": "--recipe", "model.name": "--model", "epochs": "--epochs", "lr": "--lr",
    "batch_size": "--batch-size", "recipe.gamma": "--gamma", "recipe.eps": "--eps", "seed": "--seed",
}  # fmt: skip
"""Field of a training -> its option; other fields are given by --set."""


def train_command(spec: TrainSpec, out: str) -> str:
    """The command that trains the same network again.

    Example:
        >>> train_command(train_spec({"data": "mnist", "recipe": {"name": "fast", "gamma": 2.0}}), "again")
        'ctrobust train --data mnist --recipe fast --gamma 2 --out again'
    """
    words = ["ctrobust", "train"]
    for name, value in _given(spec).items():
        option, text = OPTIONS.get(name), _text(value)
        words += [option, text] if option else ["--set", f"{name}={text}"]
    return shlex.join([*words, "--out", out])


def _given(spec: TrainSpec) -> dict[str, Any]:
    """The fields that the defaults for their data and recipe do not give, by dotted name, OPTIONS first."""
    fields = json.loads(canonical(spec))
    given = {"data": spec.data, **{key: value for key, value in fields.items() if key not in ("schema", "kind")}}
    if spec.model.is_user_network:  # whose default is not that of the class
        given = merge(given, {"model": {"noise": spec.model.noise}})
    complete = spec.model_dump(mode="json")
    flat = _flat(merge(given, _differences(train_spec(given).model_dump(mode="json"), complete)))
    for name in [one for one in flat if one not in ("data", "recipe.name")]:
        fewer = {key: value for key, value in flat.items() if key != name}
        with contextlib.suppress(SpecError):
            if train_spec(_nested(fewer)) == spec:  # the defaults give this value
                flat = fewer
    chosen = {name: flat[name] for name in OPTIONS if name in flat}
    return {**chosen, **{name: value for name, value in flat.items() if name not in chosen}}


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields of `wanted` that differ, nested."""
    different: dict[str, Any] = {}
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            if inner := _differences(found[key], value):
                different[key] = inner
        elif found.get(key) != value:
            different[key] = value
    return different


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in flat.items():
        *tables, leaf = name.split(".")
        table = fields
        for key in tables:
            table = table.setdefault(key, {})
        table[leaf] = value
    return fields


def _text(value: Any) -> str:
    """A value as options and --set take it, radii as fractions of 255 where they are."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        levels = value * 255
        if 0 < value < 1 and abs(levels - round(levels)) < 1e-9 and round(levels) / 255 == value:
            return f"{round(levels)}/255"
        return str(int(value)) if value == int(value) else repr(value)
    return json.dumps(value) if isinstance(value, list | tuple) else str(value)


def evaluate_words(network: TrainedNetwork, data: str) -> list[str]:
    """The beginning of a command on these weights: the network, and what only the user may name."""
    run = network.run
    if isinstance(run.spec, UserModelSpec):
        return ["ctrobust", "evaluate", *_user_model_words(run.spec), "--data", data, "--out", str(run.path)]
    weights = run.path if network.weights == "last" else run.path / "checkpoint" / "best.safetensors"
    return [
        "ctrobust", "evaluate", str(weights),
        *(["--model", run.spec.model.name] if run.spec.model.is_user_network else []),
        *(["--data", data] if data != run.spec.data else []),
    ]  # fmt: skip


def evaluate_command(network: TrainedNetwork, record: EvaluationRecord) -> str:
    """The command that attacks the same weights in the same way; outcomes that are stored are not computed again."""
    spec = record.spec
    words = evaluate_words(network, spec.data)
    if spec.attack != "none":
        words += ["--attack", spec.attack]
    if spec.limit is not None:
        words += ["--limit", str(spec.limit)]
    if spec.split != "test":
        words += ["--split", spec.split]
    if spec.chunk != type(spec).model_fields["chunk"].default:
        words += ["--chunk", str(spec.chunk)]
    return shlex.join(words)


def _user_model_words(spec: UserModelSpec) -> list[str]:
    """The factory with its weights, whose file is not known here, and its normalization."""
    words = [spec.factory, *(["--weights", "WEIGHTS"] if spec.weights is not None else [])]
    for option, values in (("--mean", spec.mean), ("--std", spec.std)):
        words += [option, ",".join(map(repr, values))] if values is not None else []
    return words
