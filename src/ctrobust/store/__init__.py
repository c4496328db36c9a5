"""Run directories and records on disk: atomic, typed, versioned, and found by the hash of their spec. No torch."""

from ctrobust.store.arrays import read_arrays, write_arrays
from ctrobust.store.atomic import write_atomic
from ctrobust.store.run_directory import RunDirectory

__all__ = ["RunDirectory", "read_arrays", "write_arrays", "write_atomic"]
