"""What a run and an evaluation are: values that can be written, read and hashed. No torch.

A spec's canonical JSON holds the schema version and the fields that differ from their defaults, so that a field added
later leaves the hashes of older runs as they were. Where a run computes (device, threads, folders) is no part of it.
"""

from ctrobust.specs.canonical import SCHEMA, canonical, differences, from_canonical, spec_hash
from ctrobust.specs.defaults import (
    ADVERSARIAL_RATES,
    DATA_DEFAULTS,
    METHODS,
    data_defaults,
    given_only,
    merge,
    override,
    read_toml,
    train_spec,
)  # fmt: skip
from ctrobust.specs.recipe import RECIPE_SPECS, FastSpec, FreeSpec, MadrySpec, NaturalSpec, RecipeSpec, TradesSpec
from ctrobust.specs.train import EvaluationSpec, ModelSpec, ScheduleSpec, TrainSpec

__all__ = [
    "ADVERSARIAL_RATES",
    "DATA_DEFAULTS",
    "METHODS",
    "RECIPE_SPECS",
    "SCHEMA",
    "EvaluationSpec",
    "FastSpec",
    "FreeSpec",
    "MadrySpec",
    "ModelSpec",
    "NaturalSpec",
    "RecipeSpec",
    "ScheduleSpec",
    "TradesSpec",
    "TrainSpec",
    "canonical",
    "data_defaults",
    "differences",
    "from_canonical",
    "given_only",
    "merge",
    "override",
    "read_toml",
    "spec_hash",
    "train_spec",
]  # fmt: skip
