"""Run directories and records on disk: atomic, typed, versioned, and found by the hash of their spec. No torch."""

from ctrobust.store.arrays import read_arrays, write_arrays
from ctrobust.store.atomic import write_atomic
from ctrobust.store.curve_files import CurveRecord, StoredCurve, curve_file, find_curve, read_curves, write_curve
from ctrobust.store.embedding_files import Embedding, read_embedding
from ctrobust.store.job_index import JobIndex, embedding_file
from ctrobust.store.journal import Journal
from ctrobust.store.outcome_files import EvaluationFacts, StoredEvaluation, write_outcomes
from ctrobust.store.records import EvaluationRecord, OutcomeSummary, RunRecord
from ctrobust.store.run_directory import RunDirectory, directory_name
from ctrobust.store.store import Store
from ctrobust.store.verdict_files import VerdictRecord, find_verdict, read_verdicts, write_verdict

__all__ = [
    "CurveRecord", "Embedding", "EvaluationFacts", "EvaluationRecord", "JobIndex", "Journal", "OutcomeSummary",
    "RunDirectory", "RunRecord", "Store", "StoredCurve", "StoredEvaluation", "VerdictRecord", "curve_file",
    "directory_name", "embedding_file", "find_curve", "find_verdict", "read_arrays", "read_curves", "read_embedding",
    "read_verdicts", "write_arrays", "write_atomic", "write_curve", "write_outcomes", "write_verdict",
]  # fmt: skip
