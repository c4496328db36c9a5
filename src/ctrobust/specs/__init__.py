"""What a run, an evaluation and a job are: values that can be written, read and hashed. No torch.

A spec's canonical JSON holds the schema version and the fields that differ from their defaults, so a field added later
leaves the hashes of older runs unchanged. Where a run computes (device, threads, folders) is not part of the spec.
"""

from ctrobust.specs.canonical import (
    SCHEMA,
    canonical,
    changed_fields,
    describe,
    differences,
    from_canonical,
    read_description,
    spec_hash,
)
from ctrobust.specs.canonical_attack import attack_revision, canonical_attack
from ctrobust.specs.curve_spec import CurveSpec
from ctrobust.specs.defaults import (
    DATA_DEFAULTS,
    MOST_SPEC_BYTES,
    defaults_for,
    given_only,
    merge,
    override,
    read_toml,
    train_spec,
)
from ctrobust.specs.factory_name import NETWORK_NAMES, is_factory
from ctrobust.specs.jobs import (
    EmbeddingJob,
    EvaluationJob,
    Job,
    TrainingJob,
    VerdictJob,
    WeightsJob,
    required_training,
)
from ctrobust.specs.methods import METHODS
from ctrobust.specs.radius_range import is_range, parse_range
from ctrobust.specs.recipe import (
    LOSS_CONSTANTS,
    RECIPE_SPECS,
    AdversarialSpec,
    FastSpec,
    FreeSpec,
    MadrySpec,
    NaturalSpec,
    RecipeSpec,
    TradesSpec,
)
from ctrobust.specs.recipe_description import describe_recipe
from ctrobust.specs.run_spec import EvaluationSpec, ModelSpec, ScheduleSpec, TrainSpec
from ctrobust.specs.user_model_spec import RunSpec, UserModelSpec
from ctrobust.specs.verdict_spec import VerdictSpec

__all__ = [
    "DATA_DEFAULTS", "LOSS_CONSTANTS", "METHODS", "MOST_SPEC_BYTES", "NETWORK_NAMES", "RECIPE_SPECS", "SCHEMA",
    "AdversarialSpec", "CurveSpec", "EmbeddingJob", "EvaluationJob", "EvaluationSpec", "FastSpec", "FreeSpec", "Job",
    "MadrySpec", "ModelSpec", "NaturalSpec", "RecipeSpec", "RunSpec", "ScheduleSpec", "TradesSpec", "TrainSpec",
    "TrainingJob", "UserModelSpec", "VerdictJob", "VerdictSpec", "WeightsJob", "attack_revision", "canonical",
    "canonical_attack", "changed_fields", "defaults_for", "describe", "describe_recipe", "differences",
    "from_canonical", "given_only", "is_factory", "is_range", "merge", "override", "parse_range", "read_description",
    "read_toml", "required_training", "spec_hash", "train_spec",
]  # fmt: skip
