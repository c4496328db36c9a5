"""Jobs: units of work that can be planned before anything has run, each named by the hash of its canonical JSON.

An evaluation names the training that makes its weights, not the weights, so it can be planned before the training
exists. The text of an attack must be canonical: `canonical_attack` makes it so without importing torch.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ctrobust.specs.attack_fields import canonical_attack
from ctrobust.specs.fields import Count, Radius, SpecModel
from ctrobust.specs.run_spec import TrainSpec

AttackText = Annotated[str, AfterValidator(canonical_attack)]
WeightsChoice = Literal["last", "best"]
Split = Literal["train", "test"]


class TrainingJob(SpecModel):
    """Train one network."""

    training: TrainSpec


class EvaluationJob(SpecModel):
    """Attack the last or the best weights of a training; `attack` "none" evaluates clean images.

    `data` None is the data set of the training. `keep_probabilities` stores the class probabilities of attacked images.
    """

    training: TrainSpec
    weights: WeightsChoice = "last"
    attack: AttackText = "none"
    data: str | None = None
    split: Split = "test"
    limit: Count | None = None
    chunk: Count = 256
    keep_probabilities: bool = True


class EmbeddingJob(SpecModel):
    """Compute the logits of test images, or their two-dimensional t-SNE embedding."""

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


Job = Annotated[TrainingJob | EvaluationJob | EmbeddingJob | VerdictJob, Field()]
