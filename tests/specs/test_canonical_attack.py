"""Attack texts made canonical without torch, compared with those that the attacks write."""

import dataclasses
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.attacks import ATTACK_CLASSES, ATTACKS, parse, revision
from ctrobust.errors import InputError
from ctrobust.specs import attack_revision, canonical_attack
from ctrobust.specs.attack_names import ATTACK_NAMES
from tests.attacks.rows import LOSS_ROWS

NUMBERS = [
    "0", "0.0", "1", "8/255", "0.5/255", "8.0/255", "1/510", "0.1", ".3", "3e-1", "1e-3", "0.30000000000000004", "1/7",
    "2", "1.05", "8", "-1", "nan", "x",
]  # fmt: skip
COUNTS = ["1", "3", "9", "10", "20", "100", "5000", "0", "-3", "1.5", "many"]
WORDS = {
    "norm": ["linf", "l2", "l1"],
    "success": ["any", "last"],
    "form": ["box", "tanh", "pgd", "other"],
    "version": ["standard", "plus", "rand"],
    "loss": [*LOSS_ROWS, "sce( gamma = 2.0 )", "skl(std_at=adv,gamma=1/2)", "hinge"],
}


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text of any attack with some of its fields, right or wrong, in any order and with spaces."""
    name = draw(st.sampled_from(list(ATTACKS)))
    fields = {field.name: str(field.type) for field in dataclasses.fields(ATTACK_NAMES[name][0])}
    chosen = draw(st.lists(st.sampled_from(list(fields)), unique=True, max_size=4))
    pieces = ["eps=8/255"] if "eps" not in chosen and draw(st.integers(0, 9)) else []
    for field in chosen:
        declared = fields[field]
        plain = ["true", "false", "yes"] if "bool" in declared else NUMBERS if "float" in declared else COUNTS
        options = WORDS.get(field, plain)
        pieces.append(f" {field} = {draw(st.sampled_from(options))} ")
    Random(draw(st.integers(0, 99))).shuffle(pieces)
    return f" {name}:{','.join(pieces)} "


def outcome(text: str, of_attack: bool) -> str:
    """The canonical text, or the error."""
    try:
        return str(parse(text)) if of_attack else canonical_attack(text)
    except InputError as error:
        return f"error: {error}"


@settings(max_examples=600, deadline=None)
@given(texts())
def test_any_text_becomes_what_the_attack_writes_with_the_same_errors(text: str) -> None:
    found = outcome(text, of_attack=False)
    assert found == outcome(text, of_attack=True)
    if not found.startswith("error"):
        assert canonical_attack(found) == found
        assert attack_revision(found) == revision(parse(found))


@pytest.mark.parametrize("name", ATTACKS)
def test_every_name_with_its_defaults(name: str) -> None:
    text = f"{name}:eps=8/255"
    assert canonical_attack(text) == str(parse(text))


def test_every_attack_inherits_its_fields() -> None:
    assert set(ATTACK_CLASSES) == {fields for fields, _ in ATTACK_NAMES.values()}
    for fields, kind in ATTACK_CLASSES.items():
        assert issubclass(kind, fields)  # type: ignore[arg-type]
        assert dataclasses.fields(kind) == dataclasses.fields(fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}:eps=0.1" for name in ATTACKS),
        *(f"autoattack:eps=0.1,version={version}" for version in ("plus", "rand")),
        "cw:eps=0.1,norm=l2,form=pgd",
    ],
)
def test_the_revision_counts_the_attacks_whose_stages_are_run(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for power, fields in enumerate(ATTACK_CLASSES):
        monkeypatch.setattr(fields, "revision", 2**power)  # a sum of powers of two says which were counted
    assert attack_revision(text) == revision(parse(text)) > 0


def test_clean_images_have_no_attack() -> None:
    assert (canonical_attack("none"), attack_revision("none")) == ("none", 0)


def test_no_torch_is_loaded() -> None:
    program = (
        "import sys; from ctrobust.specs import canonical_attack, attack_revision\n"
        "print(canonical_attack('autoattack:eps=8/255'), attack_revision('cw:eps=0.1'), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["autoattack:eps=8/255", "0", "False"]
