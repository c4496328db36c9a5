"""Attack texts, compared with those that the attacks write."""

import pytest

from ctrobust.attacks import parse
from ctrobust.experiments import EXPERIMENTS, PRESETS
from ctrobust.experiments.canonical_attacks import MNIST_STEPS, attack_text, cw_text, strengths
from ctrobust.specs import EvaluationJob

from .planning import planned

PAPER = PRESETS["paper"]


@pytest.mark.parametrize("preset", PRESETS)
def test_all_attack_texts_are_canonical(preset: str) -> None:
    texts = {
        job.attack
        for name in EXPERIMENTS
        for cell in planned(name, preset).all_cells
        for job in cell.jobs
        if isinstance(job, EvaluationJob) and job.attack != "none"
    }
    assert {text for text in texts if str(parse(text)) != text} == set()
    assert {text.partition(":")[0] for text in texts} == {
        "fgsm", "pgd", "mifgsm", "apgd", "cw", "square", "autoattack",
    }  # fmt: skip


def test_the_step_on_mnist_is_a_thirtieth_of_eps() -> None:
    for eps, step in MNIST_STEPS.items():
        above, _, below = step.partition("/")
        assert float(above) / float(below or 1) == pytest.approx(float(eps) / 30, rel=1e-12)


def test_attacks_by_the_papers_names() -> None:
    assert attack_text(PAPER, "FGSM", "8/255") == "fgsm:eps=8/255"
    assert attack_text(PAPER, "PGD", "8/255", data="cifar10") == "pgd:eps=8/255"
    assert attack_text(PAPER, "PGD-SCE", "8/255") == "pgd:eps=8/255,loss=sce(gamma=5)"
    assert attack_text(PAPER, "PGD", "2/255", loss="kl", step="2/255") == "pgd:eps=2/255,step_size=2/255,loss=kl"
    with pytest.raises(ValueError, match="no attack of the paper is named 'DeepFool'"):
        attack_text(PAPER, "DeepFool", "8/255")


def test_cw_is_the_default_form_of_the_attack() -> None:
    assert cw_text("8/255", 10) == str(parse("cw:eps=8/255"))


def test_strengths_of_the_curves() -> None:
    assert strengths(PAPER, "cifar10") == strengths(PAPER, "cifar100")
    assert [len(strengths(PAPER, name)) for name in ("mnist", "fashion-mnist", "cifar10")] == [8, 9, 10]
