"""Jobs: units of work that can be planned before anything has run, each named by the hash of its canonical JSON.

An evaluation names the training that makes its weights, not the weights themselves, so it can be planned before the
training exists. An attack may be given as any text that `attacks.parse` reads; the job holds its canonical text, as
`str(attack)` writes it, which needs no torch.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator

from ctrobust.specs.canonical_attack import canonical_attack
from ctrobust.specs.fields import Count, Radius, SpecModel
from ctrobust.specs.run_spec import TrainSpec

WeightsChoice = Literal["last", "best"]
Split = Literal["train", "test"]
CanonicalAttack = Annotated[str, AfterValidator(canonical_attack)]


class TrainingJob(SpecModel):
    """Train one network."""

    training: TrainSpec


class EvaluationJob(SpecModel):
    """Attack the last or the best weights of a training; `attack` "none" classifies clean images.

    `data` None is the data set of the training. `keep_probabilities` stores the class probabilities under attack.
    """

    training: TrainSpec
    weights: WeightsChoice = "last"
    attack: CanonicalAttack = "none"
    data: str | None = None
    split: Split = "test"
    limit: Count | None = None
    chunk: Count = 256
    keep_probabilities: bool = True


class EmbeddingJob(SpecModel):
    """Compute the logits of images, or their two-dimensional t-SNE embedding."""

    training: TrainSpec
    weights: WeightsChoice = "last"
    embedding: Literal["logits", "tsne"] = "tsne"
    split: Split = "test"
    limit: Count = 2000
    seed: int = 0


class VerdictJob(SpecModel):
    """Run the tests for gradient masking."""

    training: TrainSpec
    weights: WeightsChoice = "last"
    eps: Radius = 8 / 255
    norm: Literal["linf", "l2"] = "linf"
    limit: Count = 256
    seed: int = 0


WeightsJob = EvaluationJob | EmbeddingJob | VerdictJob
"""A job that needs the weights of a training."""

Job = TrainingJob | WeightsJob


def required_training(job: Job) -> TrainingJob:
    """The training whose weights a job needs; a training needs itself."""
    return TrainingJob(training=job.training)
