"""Jobs, planned before anything has run."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from ctrobust.attacks import ATTACKS, parse
from ctrobust.specs import (
    EmbeddingJob,
    EvaluationJob,
    Job,
    TrainingJob,
    TrainSpec,
    VerdictJob,
    canonical,
    required_training,
    spec_hash,
    train_spec,
)

MDL = train_spec({"method": "mdl"})

# Jobs are found in the store by these: a change here makes finished work unknown.
GOLDEN: list[tuple[Job, str]] = [
    (TrainingJob(training=TrainSpec()), "3ea5c795ad33fbc2"),
    (TrainingJob(training=MDL), "e5cb633eff2fb7f3"),
    (EvaluationJob(training=MDL, attack="pgd:eps=8/255", limit=2000), "b8f7b7413a6cd5bb"),
    (EvaluationJob(training=MDL, weights="best"), "c7dd6c646b5d04be"),
    (EmbeddingJob(training=MDL), "9c608f7a0b768a43"),
    (VerdictJob(training=MDL, eps=0.1), "8426fb8b3295d49c"),
]


@pytest.mark.parametrize(("job", "expected"), GOLDEN)
def test_golden_hashes(job: Job, expected: str) -> None:
    assert spec_hash(job) == expected


def test_an_evaluation_is_planned_from_a_training_that_does_not_exist() -> None:
    job = EvaluationJob(training=MDL, attack="fgsm:eps=0.1")
    assert required_training(job) == TrainingJob(training=MDL)
    assert '"kind":"EvaluationJob"' in canonical(job)
    assert spec_hash(job) != spec_hash(EvaluationJob(training=MDL, attack="fgsm:eps=0.2"))
    assert spec_hash(job) != spec_hash(EvaluationJob(training=TrainSpec(), attack="fgsm:eps=0.1"))


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_may_be_given_as_any_text_and_is_held_as_its_canonical_one(name: str) -> None:
    text = str(parse(f"{name}:eps=8/255"))
    for given in (text, f"{name}: eps = 8/255", f" {name}:eps=8.0/255 "):
        job = EvaluationJob(training=MDL, attack=given)
        assert job.attack == text
        assert job == EvaluationJob(training=MDL, attack=text)
        assert spec_hash(job) == spec_hash(EvaluationJob(training=MDL, attack=text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pgd", "attack 'pgd' needs eps: write pgd:eps=8/255"),
        ("", "unknown attack ''; known: fgsm, "),
        ("PGD:eps=0.1", "unknown attack 'PGD'; did you mean 'pgd'"),
        ("pgd:eps=8", "eps is for images in"),
        ("pgd:eps=0.1,alpha=2/255", "attack 'pgd' has no field 'alpha'; write step_size"),
    ],
)
def test_texts_that_are_no_attack_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvaluationJob(training=MDL, attack=text)


def test_planning_loads_no_torch() -> None:
    program = (
        "import sys; from ctrobust.specs import EvaluationJob, TrainSpec, spec_hash;"
        "spec_hash(EvaluationJob(training=TrainSpec(), attack='pgd:eps=8/255')); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"]
