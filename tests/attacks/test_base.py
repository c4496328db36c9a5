"""The methods that all attacks share, and the revision of an attack with those whose stages it runs."""

import pytest
import torch
from torch import nn

from ctrobust.attacks import APGD, ATTACKS, CW, FAB, PGD, Attack, AutoAttack, Square, parse, revision
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_names import ATTACK_NAMES


@pytest.mark.parametrize("name", ATTACKS)
def test_outcomes_stored_so_far_are_of_revision_0(name: str) -> None:
    attack = parse(f"{name}:eps=0.1")
    assert isinstance(attack, Attack)
    assert "revision" in vars(ATTACK_NAMES[name][0])
    assert revision(attack) == 0


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (AutoAttack, [AutoAttack(0.1)]),
        (APGD, [APGD(0.1), AutoAttack(0.1), AutoAttack(0.1, version="rand")]),
        (Square, [Square(0.1), AutoAttack(0.1), AutoAttack(0.1, version="plus")]),
        (PGD, [PGD(0.1, restarts=3), CW(0.1, form="pgd")]),
    ],
)
def test_the_revision_of_an_attack_counts_the_attacks_whose_stages_it_runs(
    kind: type[Attack], changed: list[Attack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "revision", 2)
    assert [revision(attack) for attack in changed] == [2] * len(changed)
    assert [revision(attack) for attack in (FAB(0.1), CW(0.1))] == [0, 0]


def test_restarts_and_targets_make_the_stages() -> None:
    stages = APGD(0.1, loss="dlr", targets=2, restarts=2).stages()
    assert [(stage.restart, stage.target) for stage in stages] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert CW(0.1).stages() == (Stage(CW(0.1)),)


def test_an_ensemble_has_no_stage_of_its_own() -> None:
    state = AttackState(nn.Linear(4, 3), torch.rand(2, 4), torch.tensor([0, 1]))
    with pytest.raises(NotImplementedError):
        AutoAttack(0.1).run_stage(state, Stage(AutoAttack(0.1)))
