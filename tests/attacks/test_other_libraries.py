"""Calls as in torchattacks, AutoAttack, ART and foolbox are answered with the right call."""

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from ctrobust.attacks import APGD, ATTACKS, CW, FGSM, MIFGSM, PGD, AutoAttack, Square, parse
from ctrobust.errors import InputError
from ctrobust.specs.attack_text import SYNONYMS

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).eval()
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (PGD, (MODEL,), {"eps": 8 / 255, "alpha": 2 / 255, "steps": 10}, "PGD(eps=8/255, step_size=2/255, steps=10)"),
    (PGD, (MODEL,), {}, "PGD(eps=8/255)"),
    (PGD, (MODEL, 0.1, 0.01, 7), {}, "PGD(eps=0.1)"),
    (PGD, (MODEL,), {"eps": 0.3, "nb_iter": 40, "rand_init": True}, "PGD(eps=0.3, steps=40, random_start=True)"),
    (FGSM, (), {"model": MODEL, "eps": 8 / 255}, "FGSM(eps=8/255)"),
    (MIFGSM, (MODEL,), {"epsilon": 0.1, "decay": 0.9}, "MIFGSM(eps=0.1, momentum=0.9)"),
    (APGD, (MODEL,), {"norm": "L2", "n_iter": 50, "eot_iter": 2}, "APGD(eps=8/255, norm='l2', steps=50, eot=2)"),
    (Square, (MODEL,), {"n_queries": 100, "p_init": 0.8}, "Square(eps=8/255, queries=100)"),
    (AutoAttack, (MODEL,), {"norm": "Linf", "eps": 0.3, "verbose": True}, "AutoAttack(eps=0.3, norm='linf')"),
]


@pytest.mark.parametrize(("kind", "arguments", "keywords", "right"), CALLS)
def test_a_model_in_the_constructor_is_answered_with_the_right_call(
    kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], right: str
) -> None:
    with pytest.raises(InputError) as caught:
        kind(*arguments, **keywords)
    name = kind.__name__
    shown = f"attack = {right}; x_adv = attack(model, x, y)"
    assert str(caught.value) == f"{name} is made without a model and then called on it: {shown}"
    places = {"model": MODEL, "x": torch.rand(2, 1, 2, 2), "y": torch.tensor([0, 1]), name: kind}
    exec(shown, places)
    assert isinstance(places["attack"], kind)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda make: make(eps=0.1, alpha=0.01), "PGD has no field 'alpha'; write step_size"),
        (lambda make: make(0.1, num_steps=3), "PGD has no field 'num_steps'; write steps"),
        (lambda make: make(0.1, n_iter=3), "PGD has no field 'n_iter'; write steps"),
        (lambda make: make(0.1, max_iter=3), "PGD has no field 'max_iter'; write steps"),
        (lambda make: make(epsilon=0.1), "PGD has no field 'epsilon'; write eps"),
        (lambda make: make(0.1, n_queries=3), "PGD has no field 'n_queries'; known: eps, steps, "),
        (lambda make: make(0.1, step=3), "PGD has no field 'step'; did you mean 'steps'?"),
    ],
)
def test_fields_by_other_names_are_answered_with_ours(make: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make(PGD)
    assert str(caught.value).startswith(message)


def test_texts_are_answered_alike() -> None:
    with pytest.raises(InputError, match="attack 'pgd' has no field 'alpha'; write step_size"):
        parse("pgd:eps=8/255,alpha=2/255")
    with pytest.raises(InputError, match="attack 's-apgd' has no field 'n_iter'; write steps"):
        parse("s-apgd:eps=8/255,n_iter=20")


def test_each_synonym_is_no_field_and_means_one() -> None:
    fields = {field.name for kind, _ in ATTACKS.values() for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    assert not fields & set(SYNONYMS)
    assert set(SYNONYMS.values()) <= fields


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_still_plain_values(name: str) -> None:
    attack = parse(f"{name}:eps=0.1")
    for made in (copy.copy(attack), copy.deepcopy(attack), pickle.loads(pickle.dumps(attack))):
        assert made == attack
        assert hash(made) == hash(attack)
    assert dataclasses.replace(attack, eps=0.2).eps == 0.2  # type: ignore[type-var]


def test_signatures_are_those_of_the_fields() -> None:
    assert list(inspect.signature(FGSM).parameters) == ["eps", "loss", "norm", "targeted", "success", "seed"]
    assert list(inspect.signature(CW).parameters)[:3] == ["eps", "norm", "form"]


def test_a_missing_radius_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'eps'"):
        PGD()  # type: ignore[call-arg]
