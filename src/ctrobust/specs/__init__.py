"""What a run and an evaluation are: values that can be written, read and hashed. No torch.

A spec's canonical JSON holds the schema version and the fields that differ from their defaults, so that a field added
later leaves the hashes of older runs as they were. Where a run computes (device, threads, folders) is no part of it.
"""

from ctrobust.specs.canonical import SCHEMA, canonical, differences, from_canonical, spec_hash
from ctrobust.specs.recipe import RECIPES, FastSpec, FreeSpec, MadrySpec, NaturalSpec, RecipeSpec, TradesSpec
from ctrobust.specs.run import EvaluationSpec, ModelSpec, ScheduleSpec, TrainSpec
from ctrobust.specs.settings import (
    ADVERSARIAL_LR,
    CUSTOMARY,
    METHODS,
    customary,
    given_only,
    laid_over,
    merge,
    read_toml,
    train_spec,
)  # fmt: skip

__all__ = [
    "ADVERSARIAL_LR", "CUSTOMARY", "METHODS", "RECIPES", "SCHEMA", "EvaluationSpec", "FastSpec", "FreeSpec",
    "MadrySpec", "ModelSpec", "NaturalSpec", "RecipeSpec", "ScheduleSpec", "TradesSpec", "TrainSpec", "canonical",
    "customary", "differences", "from_canonical", "given_only", "laid_over", "merge", "read_toml", "spec_hash",
    "train_spec",
]  # fmt: skip
