"""Canonical JSON and its hash, by which runs on disk are found."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ctrobust.errors import SpecError
from ctrobust.specs import (
    NETWORK_NAMES,
    RECIPE_SPECS,
    EvaluationSpec,
    FastSpec,
    ModelSpec,
    NaturalSpec,
    ScheduleSpec,
    TradesSpec,
    TrainSpec,
    UserModelSpec,
    canonical,
    from_canonical,
    spec_hash,
    train_spec,
)

# Runs on disk are found by these: a change here orphans them all.
GOLDEN: list[tuple[BaseModel, str]] = [
    (TrainSpec(), "c7611c4bacd28e09"),
    (TrainSpec(recipe=NaturalSpec(samples=4)), "37240782af0fe2be"),
    (TrainSpec(recipe=NaturalSpec(samples=4, rho=1.0, diversity="pearson")), "449b8fec31566623"),
    (TrainSpec(model=ModelSpec(noise="dropconnect")), "1c4b17024380d27c"),
    (
        TrainSpec(data="fashion-mnist", epochs=50, recipe=NaturalSpec(samples=4, rho=1.0, eta=90.0)),
        "b5a51f0e367e0cc1",
    ),
    (
        TrainSpec(
            schedule=ScheduleSpec(name="multistep", milestones=(2 / 3, 5 / 6), warmup=True),
            lr=0.2,
            seed=7,
        ),
        "d2516d84255976fe",
    ),
    *(
        (train_spec({"data": "cifar10", "model": {"width": 16}, "epochs": epochs, "recipe": recipe}), expected)
        for recipe, epochs, expected in (
            ({"name": "fast", "gamma": 0.0}, 10, "0ecf410745861b53"),
            ({"name": "fast", "gamma": 2.0}, 10, "7fcecd0d212f48f8"),
            ({"name": "madry", "gamma": 3.0}, 5, "dc936a4af04cbf90"),
            ({"name": "free", "gamma": 1.0}, 2, "92d98c8d1441f625"),
            ({"name": "trades", "gamma": 3.0, "beta": 6.0}, 3, "5e90a9cf33b06786"),
        )
    ),
    (
        train_spec({"data": "cifar10", "recipe": {"name": "free", "gamma": 1.0}, "schedule": {"name": "multistep"}}),
        "fa18eaeab53b5a9a",
    ),
    (
        TrainSpec(recipe=TradesSpec(name="trades", beta=1.0, std_at="clean", gamma=2.0, gamma_in="attack")),
        "9c158680039acc1f",
    ),
    (
        TrainSpec(recipe=FastSpec(name="fast", loss="std"), ema=0.999, validation=1000, stop_on_collapse=True),
        "16d9fcb426f63ef6",
    ),
    (EvaluationSpec(data="digits", attack="pgd:eps=8/255", weights="ab" * 32), "2fe98c390f55a9c2"),
    (
        EvaluationSpec(data="mnist", split="train", limit=2000, chunk=128, attack="fgsm:eps=0.1", weights="0" * 64),
        "770c84d5f755c50b",
    ),
]


@pytest.mark.parametrize(("spec", "expected"), GOLDEN)
def test_golden_hashes(spec: BaseModel, expected: str) -> None:
    assert spec_hash(spec) == expected


def test_canonical_json_is_sorted_compact_and_without_defaults() -> None:
    assert canonical(TrainSpec()) == '{"kind":"TrainSpec","schema":1}'
    given: dict[str, Any] = {"method": "mdl", "seed": 3, "lr": 0.01, "model": {"width": 64, "drop": 0.1}}
    spec = train_spec({"batch_size": 128, **given})
    assert canonical(spec) == (
        '{"kind":"TrainSpec","model":{"drop":0.1},"recipe":{"rho":1.0,"samples":4},"schema":1,"seed":3}'
    )


def test_a_field_added_later_changes_no_hash_while_it_has_its_default() -> None:
    class Model(ModelSpec):
        depth: int = 18

    class Train(TrainSpec):
        model: Model = Model()
        flavour: str = "plain"

    Train.__name__ = "TrainSpec"
    fields: dict[str, Any] = {"seed": 5, "model": {"width": 32}}
    later = Train.model_validate(fields)
    assert canonical(later) == canonical(TrainSpec.model_validate(fields))
    assert spec_hash(Train()) == spec_hash(TrainSpec())
    assert spec_hash(later.model_copy(update={"flavour": "other"})) != spec_hash(later)


def test_the_order_of_fields_and_the_writing_of_numbers_do_not_matter() -> None:
    one = train_spec({"lr": 1, "seed": 2, "recipe": {"rho": 1, "samples": 4}})
    two = train_spec({"recipe": {"samples": 4, "rho": 1.0}, "seed": 2, "lr": 1.0})
    assert canonical(one) == canonical(two)


@pytest.mark.parametrize(
    "fields", [{"weight_decay": 0.0}, {"model": {"drop": 0.0}}, {"recipe": {"samples": 2, "rho": 0.0}}]
)
def test_minus_zero_is_zero(fields: dict[str, Any]) -> None:
    def negated(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: negated(inner) for key, inner in value.items()}
        return -value if value == 0 else value

    assert "-0" in json.dumps(negated(fields))
    assert spec_hash(train_spec(negated(fields))) == spec_hash(train_spec(fields))


ADVERSARIAL: dict[str, Any] = {
    "loss": "std", "eps": 0.1, "step_size": 0.1, "gamma": 1.0, "gamma_in": "attack", "steps": 3, "replays": 3,
    "beta": 1.0, "std_at": "clean", "second_clean_pass": True,
}  # fmt: skip
# the place of a table in a run's spec, a value of it that differs from the default, and another value for each field
FIELDS: list[tuple[str, BaseModel, dict[str, Any]]] = [
    (
        "", TrainSpec(),
        {"data": "mnist", "limit": 5, "augment": "crop-flip", "epochs": 11, "batch_size": 64, "lr": 0.02,
         "momentum": 0.8, "weight_decay": 0.0, "seed": -1, "precision": "bf16", "world_size": 2, "ema": 0.9,
         "validation": 10, "stop_on_collapse": True, "model": ModelSpec(width=3), "schedule": ScheduleSpec(factor=0.3),
         "recipe": NaturalSpec(samples=3), "lr_changes": ((1, 0.5),)},
    ),
    (
        "", EvaluationSpec(data="digits", attack="fgsm:eps=0.1", weights="0" * 64),
        {"data": "mnist", "split": "train", "limit": 5, "attack": "fgsm:eps=0.2", "chunk": 5, "weights": "1" * 64,
         "contents": "2" * 64, "revision": 1, "repeats": 20},
    ),
    (
        "model", ModelSpec(width=2),
        {"name": "vgg16", "width": 32, "noise": "dropconnect", "drop": 0.4, "maps": "disout", "maps_drop": 0.2,
         "maps_block": 5, "maps_alpha": 1.0, "head": "fc"},
    ),
    (
        "", UserModelSpec(factory="nets:wide", data="digits", network="0" * 64),
        {"factory": "nets:deep", "data": "mnist", "network": "1" * 64, "weights": "2" * 64, "mean": (0.5,),
         "std": (0.5,)},
    ),
    (
        "schedule", ScheduleSpec(factor=1.0),
        {"name": "multistep", "milestones": (0.5,), "factor": 0.2, "warmup": True, "cycle_momentum": True},
    ),
    (
        "recipe", NaturalSpec(samples=2),
        {"loss": "focal", "samples": 4, "rho": 0.5, "eta": 99.0, "diversity": "pearson", "smoothing": 0.2,
         "focal_exponent": 1.0, "relaxation": 0.2, "soft_weight": 0.3},
    ),
    *(
        (
            "recipe", spec.model_validate({"name": name}),
            {key: ADVERSARIAL[key] for key in spec.model_fields if key != "name"},
        )
        for name, spec in RECIPE_SPECS.items()
        if name != "natural"
    ),
]  # fmt: skip


def test_every_field_counts() -> None:
    """Change one field at a time; `model_copy` skips the validators that tie fields together."""
    hashes: list[str] = []
    for where, base, others in FIELDS:
        # a recipe's name follows from its class
        assert others.keys() == type(base).model_fields.keys() - ({"name"} if where == "recipe" else set())
        parts = [base, *(base.model_copy(update={field: other}) for field, other in others.items())]
        specs = [TrainSpec().model_copy(update={where: part}) if where else part for part in parts]
        hashes += [spec_hash(spec) for spec in specs]
    assert len(set(hashes)) == len(hashes)


share = st.floats(0, 1, exclude_max=True)
models = st.builds(
    ModelSpec,
    name=st.sampled_from(NETWORK_NAMES),
    width=st.integers(2, 512),
    noise=st.sampled_from(["dropout", "dropconnect"]),
    drop=share,
    maps=st.sampled_from(["none", "dropblock", "disout"]),
)
naturals = st.builds(
    NaturalSpec,
    loss=st.sampled_from(["ce", "label-smoothing", "focal", "label-relaxation", "online-label-smoothing"]),
    samples=st.integers(2, 64),
    rho=st.floats(0, exclude_min=True, allow_infinity=False),
    eta=st.floats(0, 100),
    diversity=st.sampled_from(["cosine", "pearson"]),
)
distorted = st.builds(
    ModelSpec,
    maps=st.just("disout"),
    maps_drop=st.none() | share,
    maps_block=st.none() | st.integers(1, 10**9),
    maps_alpha=st.none() | st.floats(0, allow_infinity=False),
)
with_constants = (
    st.builds(NaturalSpec, loss=st.just("label-smoothing"), smoothing=st.none() | st.floats(0, 1))
    | st.builds(NaturalSpec, loss=st.just("focal"), focal_exponent=st.none() | st.floats(0, allow_infinity=False))
    | st.builds(NaturalSpec, loss=st.just("online-label-smoothing"), soft_weight=st.none() | st.floats(0, 1))
)
radius = st.floats(0, 1, exclude_min=True)
common = {
    "eps": radius,
    "step_size": st.none() | radius,
    "gamma": st.floats(0, 100, exclude_min=True),
    "gamma_in": st.sampled_from(["both", "attack", "descent"]),
}
further = {
    "steps": st.integers(1, 10**9),
    "replays": st.integers(1, 10**9),
    "std_at": st.sampled_from(["adv", "clean"]),
}
adversarial = st.builds(FastSpec, name=st.just("fast"), loss=st.just("std"), eps=radius) | st.one_of(
    [
        st.builds(
            spec,
            name=st.just(name),
            **{key: value for key, value in (common | further).items() if key in spec.model_fields},
        )
        for name, spec in RECIPE_SPECS.items()
        if name != "natural"
    ]
)
schedules = st.builds(
    ScheduleSpec,
    name=st.sampled_from(["cyclic", "multistep"]),
    milestones=st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), unique=True).map(
        lambda values: tuple(sorted(values))
    ),
    factor=st.floats(0, 1, exclude_min=True),
    warmup=st.booleans(),
)
specs = st.builds(
    TrainSpec,
    data=st.text(),
    limit=st.none() | st.integers(1, 10**9),
    augment=st.sampled_from(["none", "crop-flip"]),
    model=st.just(ModelSpec()) | models | distorted,
    recipe=st.just(NaturalSpec()) | naturals | with_constants | adversarial,
    schedule=st.just(ScheduleSpec()) | schedules,
    epochs=st.integers(1, 10**9),
    batch_size=st.integers(1, 10**9),
    lr=st.floats(0, exclude_min=True, allow_infinity=False),
    momentum=share,
    weight_decay=st.floats(0, allow_infinity=False),
    seed=st.integers(-(2**63), 2**63 - 1),
    precision=st.sampled_from(["fp32", "bf16"]),
    ema=share,
    validation=st.integers(0),
)


@settings(deadline=None)
@given(specs)
def test_canonical_json_round_trips(spec: TrainSpec) -> None:
    again = from_canonical(canonical(spec))
    assert again == spec
    assert canonical(again) == canonical(spec)
    assert spec_hash(again) == spec_hash(spec)


@settings(deadline=None)
@given(specs, specs)
def test_canonical_json_is_equal_exactly_for_equal_specs(one: TrainSpec, two: TrainSpec) -> None:
    assert (canonical(one) == canonical(two)) == (one == two)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind":"TrainSpec","schema":2}', "a spec of schema 2, kind TrainSpec; this version reads schema 1"),
        (
            '{"kind":"Evaluation","schema":1}',
            "a spec of schema 1, kind Evaluation; this version reads schema 1, kind T",
        ),
        ('{"kind":"TrainSpec"}', "not a spec: KeyError('schema')"),
        ('{"schema":1}', "not a spec: KeyError('kind')"),
        ('{"kind":"TrainSpec","schema":1', "not a spec: JSONDecodeError"),
        ("[]", "not a spec"),
        ("3", "not a spec"),
        ("", "not a spec"),
        ('{"kind":"TrainSpec","schema":1,"colour":1}', "unknown key colour; known: data"),
        ('{"kind":"TrainSpec","schema":1,"lr":NaN}', "lr = nan"),
        ('{"kind":"TrainSpec","schema":1,"epochs":0}', "epochs = 0: Input should be greater than or equal to 1"),
    ],
)
def test_text_that_is_not_a_canonical_spec_is_rejected(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        from_canonical(text)
