"""Run directories and records on disk: atomic, and found by the hash of their spec."""

from ctrobust.store.atomic import write_atomic
from ctrobust.store.outcomes import read_arrays, write_arrays
from ctrobust.store.run import RunDirectory
from ctrobust.store.tensors import read_tensors, write_tensors

__all__ = ["RunDirectory", "read_arrays", "read_tensors", "write_arrays", "write_atomic", "write_tensors"]
