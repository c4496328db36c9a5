"""`parse` and `str` are inverse, names set what they say, and what is wrong is refused with a reason."""

import dataclasses
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrobust.attacks
from ctrobust.attacks import ATTACK_LOSSES, ATTACKS, CW, FGSM, MIFGSM, PGD, Attack, parse
from ctrobust.errors import InputError
from tests.attacks.rows import LOSS_ROWS

LEVELS = st.integers(0, 255).map(lambda k: k / 255)
DECIMAL = st.decimals(0, 1, places=3).map(float)
RADIUS = LEVELS | LEVELS.map(lambda eps: eps / 4) | LEVELS.map(lambda eps: eps / 30) | DECIMAL | st.floats(0, 1)
GAMMA = st.integers(0, 10).map(str) | st.sampled_from(["1/3", "2.5", "8/255", "1e-3", "0.1"])
LOSS = (
    st.sampled_from(list(ATTACK_LOSSES))
    | GAMMA.map(lambda gamma: f"sce(gamma={gamma})")
    | st.builds(lambda gamma, at: f"skl( std_at={at}, gamma={gamma} )", GAMMA, st.sampled_from(["adv", "clean"]))
)
TARGETED = [text for text, row in LOSS_ROWS.items() if row.targeted]
COMMON = {
    "norm": st.sampled_from(["linf", "l2"]),
    "success": st.sampled_from(["any", "last"]),
    "seed": st.integers(-(10**18) + 1, 10**18 - 1),
}
LOSS_FIELDS = st.fixed_dictionaries({"loss": LOSS, "targeted": st.just(False)}) | st.fixed_dictionaries(
    {"loss": st.sampled_from(TARGETED), "targeted": st.just(True)}
)
COUNT = st.integers(1, 1000)  # within the limit of every count
SIZE = st.none() | RADIUS
FIELDS: dict[str, tuple[Callable[..., Attack], dict[str, st.SearchStrategy[object]]]] = {
    "fgsm": (FGSM, {}),
    "pgd": (PGD, {"steps": COUNT, "step_size": SIZE, "random_start": st.booleans(), "restarts": COUNT, "eot": COUNT}),
    "mifgsm": (MIFGSM, {"steps": COUNT, "step_size": SIZE, "momentum": RADIUS, "eot": COUNT}),
}


carlini: Callable[..., Attack] = CW
CARLINI = st.fixed_dictionaries(
    {"eps": RADIUS},
    optional={
        "norm": COMMON["norm"],
        "seed": COMMON["seed"],
        "form": st.sampled_from(["tanh", "pgd"]),
        "steps": st.none() | COUNT,
        "lr": st.floats(0, 1, exclude_min=True),
        "confidence": st.floats(0, 1e9),
        "searches": COUNT,
        "targeted": st.booleans(),
    },
)


def values(name: str) -> st.SearchStrategy[tuple[str, Attack]]:
    """Attacks of that name with any values of their fields."""
    kind, original = FIELDS[name]
    fields = st.fixed_dictionaries({"eps": RADIUS}, optional={**COMMON, **original})
    return st.tuples(fields, LOSS_FIELDS).map(lambda given: (name, kind(**given[0], **given[1])))


ATTACK = st.sampled_from(list(FIELDS)).flatmap(values) | CARLINI.map(lambda given: ("cw", carlini(**given)))


@settings(max_examples=300, deadline=None)
@given(ATTACK)
def test_text_is_read_back(made: tuple[str, Attack]) -> None:
    name, attack = made
    text = str(attack)
    assert text.startswith(f"{name}:")
    read = parse(text)
    assert read == attack
    assert type(read) is type(attack)
    assert hash(read) == hash(attack)
    assert str(read) == text


@settings(max_examples=100, deadline=None)
@given(ATTACK, st.randoms())
def test_order_spaces_and_defaults_do_not_matter(made: tuple[str, Attack], random: Random) -> None:
    name, attack = made
    stages = []
    for field in dataclasses.fields(attack):  # type: ignore[arg-type]
        value = getattr(attack, field.name)
        if value is not None:
            stages.append(f" {field.name} = {str(value).lower() if isinstance(value, bool) else value} ")
    random.shuffle(stages)
    assert parse(f" {name}:{','.join(stages)} ") == attack


@pytest.mark.parametrize(
    ("text", "attack", "canonical"),
    [
        ("fgsm:eps=8/255", FGSM(8 / 255), "fgsm:eps=8/255"),
        ("fgsm:eps=.03", FGSM(0.03), "fgsm:eps=0.03"),
        ("pgd:eps=1", PGD(1), "pgd:eps=1"),
        ("pgd:eps=0", PGD(0), "pgd:eps=0"),
        ("pgd:eps=3e-1,steps=40,step_size=1/100", PGD(0.3, 40, 0.01), "pgd:eps=0.3,steps=40,step_size=0.01"),
        ("pgd:eps=2/255,steps=20,loss=ce", PGD(2 / 255), "pgd:eps=2/255"),
        ("s-fgsm:eps=8/255", FGSM(8 / 255, loss="std"), "fgsm:eps=8/255,loss=std"),
        ("s-pgd:eps=8/255,steps=20", PGD(8 / 255, loss="std"), "pgd:eps=8/255,loss=std"),
        ("pgd-sce:eps=8/255", PGD(8 / 255, loss="sce(gamma=5)"), "pgd:eps=8/255,loss=sce(gamma=5)"),
        ("pgd:eps=8/255,loss=sce(gamma=5)", PGD(8 / 255, loss="sce(gamma=5)"), "pgd:eps=8/255,loss=sce(gamma=5)"),
        (
            "pgd:eps=8/255,loss=skl(gamma=1,std_at=clean),success=last",
            PGD(8 / 255, loss="skl(gamma=1,std_at=clean)", success="last"),
            "pgd:eps=8/255,loss=skl(gamma=1,std_at=clean),success=last",
        ),
        (
            "pgd:random_start=false,seed=-3,eps=8/255",
            PGD(8 / 255, random_start=False, seed=-3),
            "pgd:eps=8/255,random_start=false,seed=-3",
        ),
        (
            "pgd:norm=l2,eps=1.5,restarts=5,eot=20,targeted=true,loss=margin",
            PGD(1.5, norm="l2", restarts=5, eot=20, targeted=True, loss="margin"),
            "pgd:eps=1.5,loss=margin,norm=l2,restarts=5,eot=20,targeted=true",
        ),
        (
            "pgd:eps=8.0/255,step_size=0.5/255",
            PGD(8 / 255, step_size=0.5 / 255),
            "pgd:eps=8/255,step_size=1/510",
        ),
        ("fgsm:eps=2,norm=l2", FGSM(2, norm="l2"), "fgsm:eps=2,norm=l2"),
        ("mifgsm:eps=8/255,momentum=1.0,steps=10", MIFGSM(8 / 255), "mifgsm:eps=8/255"),
        ("mifgsm:eps=8/255,momentum=1/2", MIFGSM(8 / 255, momentum=0.5), "mifgsm:eps=8/255,momentum=0.5"),
    ],
)
def test_texts(text: str, attack: Attack, canonical: str) -> None:
    assert parse(text) == attack
    assert str(attack) == canonical
    assert parse(canonical) == attack


ALL = ", ".join(ATTACKS)
UNTARGETED = f"an attack with targeted=true uses a loss of {', '.join(TARGETED)}; got std"
NUMBER = "is not a number; write 0.03 or 8/255"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"unknown attack ''; known: {ALL}"),
        (":eps=1", f"unknown attack ''; known: {ALL}"),
        ("pdg:eps=8/255", f"unknown attack 'pdg'; did you mean 'pgd'? known: {ALL}"),
        ("spgd:eps=8/255", f"unknown attack 'spgd'; did you mean 's-pgd'? known: {ALL}"),
        ("hopskip:eps=8/255", f"unknown attack 'hopskip'; known: {ALL}"),
        ("pgd", "attack 'pgd' needs eps: write pgd:eps=8/255"),
        ("pgd:", "attack 'pgd' needs eps: write pgd:eps=8/255"),
        ("s-pgd:steps=3", "attack 's-pgd' needs eps: write s-pgd:eps=8/255"),
        ("fgsm:eps=8/255,mu=1", "attack 'fgsm' has no field 'mu'; known: eps, loss, norm, targeted, success, seed"),
        (
            "pgd:eps=8/255,stepsize=1/255",
            "attack 'pgd' has no field 'stepsize'; did you mean 'step_size'? "
            "known: eps, steps, step_size, loss, norm, random_start, restarts, eot, targeted, success, seed",
        ),
        ("pgd:eps=8/255,eps=8/255", "'eps' is given twice"),
        ("pgd:8/255", "expected key=value, got '8/255'"),
        ("pgd:eps=8/255,", "expected key=value, got '' in 'eps=8/255,'"),
        ("pgd eps=8/255", "expected pgd:key=value,..., got 'pgd eps=8/255'"),
        ("pgd(eps=8/255)", "expected pgd:key=value,..., got 'pgd(eps=8/255)'"),
        ("pgd:eps=", "expected key=value, got 'eps='"),
        ("pgd:eps=eight", f"'eight' {NUMBER}"),
        ("pgd:eps=8/0", f"'8/0' {NUMBER}"),
        ("pgd:eps=.1,step_size=none", f"'none' {NUMBER}"),
        ("pgd:eps=8", "eps is for images in [0, 1] and so between 0 and 1, got 8.0; for 8 grey levels write 8/255"),
        ("pgd:eps=-.1", "eps is for images in [0, 1] and so between 0 and 1, got -0.1; for 8 grey levels write 8/255"),
        ("pgd:eps=nan", "eps is for images in [0, 1] and so between 0 and 1, got nan; for 8 grey levels write 8/255"),
        ("pgd:eps=.1,step_size=2", "step_size is for images in [0, 1] and so between 0 and 1, got 2.0; for 8 "
                                   "grey levels write 8/255"),
        ("pgd:eps=-1,norm=l2", "eps must be a finite number of at least 0; got -1.0"),
        ("pgd:eps=inf,norm=l2", "eps must be a finite number of at least 0; got inf"),
        ("pgd:eps=1,norm=l1", "norm must be one of 'linf', 'l2'; got 'l1'"),
        ("pgd:eps=.1,targeted=yes", "targeted is true or false, got 'yes'"),
        ("pgd:eps=.1,targeted=true,loss=std", UNTARGETED),
        ("s-pgd:eps=.1,targeted=true", UNTARGETED),
        ("mifgsm:eps=.1,momentum=2", "momentum must be a finite number between 0 and 1; got 2.0"),
        ("pgd:eps=8/255,steps=2.5", "steps is a whole number, got '2.5'"),
        ("pgd:eps=8/255,steps=1e2", "steps is a whole number, got '1e2'"),
        ("pgd:eps=8/255,seed=x", "seed is a whole number, got 'x'"),
        ("pgd:eps=8/255,random_start=no", "random_start is true or false, got 'no'"),
        ("pgd:eps=8/255,success=first", "success must be one of 'any', 'last'; got 'first'"),
        ("pgd:eps=8/255,loss=hinge", f"unknown loss 'hinge'; known: {', '.join(ATTACK_LOSSES)}"),
        ("pgd:eps=8/255,loss=sce(beta=5)", "loss 'sce' takes gamma; got 'beta'"),
        ("pgd:eps=8/255,loss=std(gamma=5)", "loss 'std' takes no parameters; got 'gamma'"),
        ("pgd:eps=8/255,loss=sce(gamma=5", "expected name or name(key=value,...), got 'sce(gamma=5'"),
        ("pgd:eps=8/255,loss=sce(gamma=5,steps=3", "expected name or name(key=value,...), got 'sce(gamma=5,steps=3'"),
        ("pgd:eps=8/255,loss=sce)", "expected name or name(key=value,...), got 'sce)'"),
        ("pgd:eps=8/255),loss=ce", f"'8/255),loss=ce' {NUMBER}"),
        ("s-pgd:eps=8/255,loss=ce", "attack 's-pgd' sets loss=std itself; got loss=ce"),
        ("s-fgsm:eps=8/255,loss=std", "attack 's-fgsm' sets loss=std itself; got loss=std"),
        ("pgd-sce:eps=8/255,loss=ce", "attack 'pgd-sce' sets loss=sce(gamma=5) itself; got loss=ce"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps=0", "steps is .*at least 1, got 0"),
        ("restarts=0", "restarts is .*at least 1, got 0"),
        ("eot=0", "eot is .*at least 1, got 0"),
        ("loss=sce(gamma=-5)", "loss 'sce': gamma is .*at least 0, got -5.0"),
    ],
)
def test_impossible_values_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(f"pgd:eps=8/255,{text}")


def test_names() -> None:
    assert {"fgsm", "pgd", "mifgsm", "s-fgsm", "s-pgd", "pgd-sce", "cw", "cw-pgd", "cw-l2"} <= set(ATTACKS)
    assert all(parse(f"{name}:eps=8/255") for name in ATTACKS)
    assert {"ce", "sce", "kl", "skl", "std", "dlr", "margin"} <= set(ATTACK_LOSSES)
    assert all(parse(f"fgsm:eps=0.1,loss={loss}") == FGSM(0.1, loss=loss) for loss in ATTACK_LOSSES)
    assert set(ctrobust.attacks.__all__) <= set(dir(ctrobust.attacks))


def test_an_attack_is_a_frozen_value() -> None:
    for attack in (FGSM(0.1), PGD(0.1), MIFGSM(0.1), CW(0.1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            attack.eps = 0.2  # type: ignore[misc]
        assert dataclasses.replace(attack, eps=0.2) != attack
