"""Stages run in turn on the active examples; undefined stages are left out or raise an error."""

import dataclasses
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import FGSM, PGD, Attack, stages
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.stages import Stage, left_out, run_attack
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import Norm


@dataclass(frozen=True)
class Scripted(Attack):
    """Fools in stage (restart, target) the examples of its script, and logs the active examples."""

    script: dict[tuple[int, int], list[int]]
    log: list[tuple[int, int, list[int]]] = dataclasses.field(default_factory=list)
    least: int = 2
    optional: bool = False
    steps: int = 1

    eps = 1.0
    norm: Norm = "linf"

    def __str__(self) -> str:
        return "scripted"

    def stages(self) -> tuple[Stage, ...]:
        return tuple(Stage(self, restart, target, self.optional) for restart, target in self.script)

    def least_classes(self) -> int:
        return self.least

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        active = state.active()
        self.log.append((stage.restart, stage.target, active.tolist()))
        lost = active[torch.isin(active, torch.tensor(self.script[stage.restart, stage.target], dtype=torch.int64))]
        state.record(lost, 1 - state.x[lost], fooled=True)


class Identity(nn.Module):
    """Images of C pixels, doubled, are their logits."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


X = torch.tensor([[0.9, 0.1, 0.2]] * 5)
Y = torch.zeros(5, dtype=torch.int64)


def test_each_stage_gets_the_active_examples() -> None:
    attack = Scripted({(0, 0): [1], (1, 0): [], (2, 0): [0, 4, 1], (3, 0): [2]})
    result = attack.run(Identity(), X, Y)
    assert [given for *_, given in attack.log] == [[0, 1, 2, 3, 4], [0, 2, 3, 4], [0, 2, 3, 4], [2, 3]]
    assert result.success.tolist() == [True, True, True, False, True]
    assert torch.equal(result.x_adv, torch.where(result.success[:, None], 1 - X, X))


def test_no_stage_runs_without_active_examples() -> None:
    attack = Scripted({(0, 0): [0, 1, 2, 3, 4], (1, 0): [0]})
    assert attack.run(Identity(), X, Y).success.all()
    assert len(attack.log) == 1


def test_there_are_no_more_targets_than_wrong_classes() -> None:
    attack = Scripted({(0, target): [] for target in range(10)})
    attack.run(Identity(), X, Y)
    assert [target for _, target, _ in attack.log] == [0, 1, 2]
    attack.log.clear()
    attack.run(Identity(), X[:, :2], Y)
    assert [target for _, target, _ in attack.log] == [0, 1]


def test_undefined_stages_are_left_out_and_reported_once() -> None:
    attack = Scripted({(0, 0): [0], (1, 0): [1], (0, 1): [2], (0, 2): [3]}, least=4, optional=True)
    result = attack.run(Identity(), X, Y)
    assert attack.log == []
    assert result.left_out == left_out(attack, 3) == ("scripted needs 4 classes",)
    assert not result.success.any()
    assert left_out(attack, 4) == ()
    enough = dataclasses.replace(attack, least=3)
    assert enough.run(Identity(), X, Y).left_out == ()
    assert len(enough.log) == 4


def test_left_out_stages_are_reported_without_active_examples() -> None:
    attack = Scripted({(0, 0): [0]}, least=4, optional=True)
    wrong = torch.ones(5, dtype=torch.int64)
    assert attack.run(Identity(), X, wrong, clean_logits=X).left_out == ("scripted needs 4 classes",)


def test_stages_that_are_not_optional_always_run() -> None:
    attack = Scripted({(0, 0): [0]}, least=4)
    assert attack.run(Identity(), X, Y).left_out == left_out(attack, 3) == ()
    assert len(attack.log) == 1
    with pytest.raises(InputError, match="at least 3 classes; got 2"):
        FGSM(0.1, loss="std").run(Identity(), X[:, :2], Y)
    state = AttackState(Identity(), X[:, :2], Y)
    Stage(FGSM(0.1, loss="std"), optional=True).run(state)
    assert not state.backwards.any()


def test_names() -> None:
    attack = PGD(0.1)
    assert str(Stage(attack)) == "pgd:eps=0.1"
    assert str(Stage(attack, 2)) == "pgd:eps=0.1 restart 3"
    assert str(Stage(attack, 0, 4)) == "pgd:eps=0.1 target 4"
    assert str(Stage(attack, 1, 4)) == "pgd:eps=0.1 target 4 restart 2"


def test_the_original_model_confirms_after_each_stage() -> None:
    class Original(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.tensor([0.0, -9.0, -9.0]) * (x[:, :1] < 0.2)  # classifies the images found correctly

    attack = Scripted({(0, 0): [0, 1], (1, 0): [1, 2]})
    result = attack.run(FusedModel(Original(), Identity()), X, Y)
    assert [given for *_, given in attack.log] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert not result.success.any()
    assert result.forwards.tolist() == [1, 2, 1, 0, 0]


def test_long_attacks_use_a_fused_copy() -> None:
    model, given = Identity().eval(), []

    @dataclass(frozen=True)
    class Looking(Scripted):
        def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002
            given.append((state.model, state.original))

    for steps in (stages.FUSE_FROM_STEPS - 1, stages.FUSE_FROM_STEPS):
        Looking({(0, 0): []}, steps=steps).run(model, X, Y)
    run_attack(Looking({(0, 0): []}, steps=stages.FUSE_FROM_STEPS), model, X, Y, fuse=False)
    (short, short_original), (long, long_original), (unfused, unfused_original) = given
    assert short is short_original is long_original is unfused is unfused_original is model
    assert isinstance(long, FusedModel)


def test_verification_of_the_final_iterate_can_be_skipped() -> None:
    x = torch.full((3, 4), 0.5)
    model = nn.Linear(4, 3)
    attack: Attack = PGD(0.1, steps=2)
    verified = run_attack(attack, model, x, Y[:3])
    unverified = run_attack(attack, model, x, Y[:3], verify_last=False)
    assert torch.equal(verified.x_adv, unverified.x_adv)
    assert verified.forwards.sum() - unverified.forwards.sum() == (verified.backwards == 2).sum()


def test_modes_and_generators_are_restored_after_an_error() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.train()
            torch.rand_like(x)
            raise RuntimeError("broken")

    model, state = Broken().eval(), torch.get_rng_state()
    for steps in (1, 20):
        with pytest.raises(RuntimeError, match="broken"):
            PGD(0.1, steps=steps).run(model, X, Y)
        assert not model.training
    assert torch.equal(torch.get_rng_state(), state)
