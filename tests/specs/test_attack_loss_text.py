"""The texts of attack losses, which say what the losses themselves can do."""

from typing import Any

import pytest

from ctrobust.attacks import ATTACK_LOSSES, FGSM, MIFGSM, PGD
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.errors import InputError
from ctrobust.specs.attack_loss_text import LOSS_TEXTS, canonical_loss, check_loss, parse_loss
from tests.attacks.rows import LOSS_ROWS


def test_every_loss_has_a_text_with_the_forms_and_parameters_of_its_function() -> None:
    assert list(LOSS_TEXTS) == list(ATTACK_LOSSES)
    for name, text in LOSS_TEXTS.items():
        assert text.toward_target == (resolve_loss(name).toward_target is not None)
        assert parse_loss(name) == (name, dict(text.parameters))
    for name, row in LOSS_ROWS.items():
        text = LOSS_TEXTS[parse_loss(name)[0]]
        assert (text.toward_target, text.targeted) == (row.toward is not None, row.targeted)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" ce ", "ce"),
        ("ce()", "ce"),
        ("sce(gamma=2.0)", "sce"),
        ("sce(gamma=5.)", "sce(gamma=5)"),
        ("sce( gamma = 1/2 )", "sce(gamma=0.5)"),
        ("sce(gamma=1e-3)", "sce(gamma=0.001)"),
        ("sce(gamma=0)", "sce(gamma=0)"),
        ("skl(std_at=adv)", "skl"),
        ("skl(std_at=clean,gamma=1)", "skl(gamma=1,std_at=clean)"),
    ],
)
def test_canonical_text(text: str, expected: str) -> None:
    assert canonical_loss(text) == expected
    assert canonical_loss(expected) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hinge", f"unknown loss 'hinge'; known: {', '.join(ATTACK_LOSSES)}"),
        ("", r"expected name or name\(key=value,...\), got ''"),
        ("sce(gamma=5", r"expected name or name\(key=value,...\), got 'sce\(gamma=5'"),
        ("sce gamma=5)", r"expected name or name\(key=value,...\), got"),
        ("SCE", "unknown loss 'SCE'; did you mean 'sce'"),
        ("cross_entropy", "unknown loss 'cross_entropy'; known: ce, "),
        ("ce(gamma=1)", "loss 'ce' takes no parameters; got 'gamma'"),
        ("sce(beta=1)", "loss 'sce' takes gamma; got 'beta'"),
        ("skl(beta=1)", "loss 'skl' takes gamma, std_at; got 'beta'"),
        ("sce(gamma)", "expected key=value, got 'gamma'"),
        ("sce(gamma=)", "expected key=value, got 'gamma='"),
        ("sce(=5)", "expected key=value, got '=5'"),
        ("sce(gamma=1,)", "expected key=value, got '' in 'gamma=1,'"),
        ("sce(gamma=1,gamma=2)", "'gamma' is given twice"),
        ("sce(gamma=-1)", "loss 'sce': gamma is .*at least 0, got -1.0"),
        ("skl(gamma=-1)", "loss 'skl': gamma is .*at least 0, got -1.0"),
        ("sce(gamma=much)", "loss 'sce': gamma='much' is not of the kind of its default 2.0"),
        ("sce(gamma=nan)", "loss 'sce': gamma='nan' is not of the kind of its default 2.0"),
        ("sce(gamma=1.2.3)", r"'1.2.3' is not a number; write 0.03 or 8/255"),
        ("sce(gamma=1/0)", "'1/0' is not a number"),
        ("skl(std_at=both)", "loss 'skl': std_at is adv or clean, got 'both'"),
        ("skl(std_at=1)", "loss 'skl': std_at=1.0 is not of the kind of its default 'adv'"),
    ],
)
def test_invalid_texts_raise(text: str, message: str) -> None:
    for refuse in (canonical_loss, resolve_loss):
        with pytest.raises(InputError, match=message):
            refuse(text)


def test_loss() -> None:
    assert check_loss("sce( gamma=5.0 )") == "sce(gamma=5)"
    assert check_loss(max) is max
    for make in (FGSM, PGD, MIFGSM):
        with pytest.raises(InputError, match="unknown loss 'hinge'; known: ce, "):
            make(0.1, loss="hinge")


def test_only_some_losses_have_a_form_toward_a_class() -> None:
    targeted = [loss for loss, row in LOSS_ROWS.items() if row.targeted]
    toward = [loss for loss, row in LOSS_ROWS.items() if row.toward is not None]
    assert {"ce", "margin"} <= set(targeted)
    assert set(toward) == {"dlr", *targeted}
    assert [check_loss(loss, targeted=True) for loss in targeted] == targeted
    assert [check_loss(loss, toward_target=True) for loss in toward] == toward
    for loss in set(LOSS_ROWS) - set(toward):
        with pytest.raises(InputError, match=f"an attack with targets uses a loss of {', '.join(toward)}; got "):
            check_loss(loss, toward_target=True)
    allowed = f"an attack with targeted=true uses a loss of {', '.join(targeted)}; got "
    for make in (FGSM, PGD, MIFGSM):
        for loss in set(LOSS_ROWS) - set(targeted):
            with pytest.raises(InputError) as caught:
                make(0.1, loss=loss, targeted=True)
            assert str(caught.value) == f"{allowed}{loss}"
        with pytest.raises(InputError, match=allowed):
            make(0.1, loss=max, targeted=True)
        with pytest.raises(InputError, match="unknown loss 'hinge'; known: ce, "):
            make(0.1, loss="hinge", targeted=True)


@pytest.mark.parametrize("loss", [None, 5, ["ce"]])
def test_a_loss_is_a_name_or_a_function(loss: Any) -> None:
    with pytest.raises(InputError, match=r"a loss is a name or a function of \(logits, y, clean_logits\), got "):
        PGD(0.1, loss=loss)
