"""The progress of an evaluation on disk, from which it resumes when it was killed."""

import glob
from pathlib import Path

from ctrobust.evaluation import StateArrays
from ctrobust.store import Journal, write_arrays
from ctrobust.store.arrays import read_arrays


class PartialOutcomes:
    """A journal of finished batches, and resume states of batches under way, in files beside the outcomes."""

    def __init__(self, outcomes: Path) -> None:
        self.outcomes = outcomes
        self.journal = Journal(outcomes.with_suffix(".partial"))

    def __str__(self) -> str:
        return str(self.journal.path)

    def _resume_file(self, batch: str) -> Path:
        return self.outcomes.with_suffix(f".{batch}.resume")

    def _resume_files(self) -> list[Path]:
        return sorted(self.outcomes.parent.glob(f"{glob.escape(self.outcomes.stem)}.*.resume"))

    def load(self) -> tuple[list[StateArrays], dict[str, StateArrays]]:
        resume_states = {file.suffixes[-2].removeprefix("."): read_arrays(file) for file in self._resume_files()}
        return self.journal.read(), resume_states

    def append(self, batch: str, outcomes: StateArrays) -> None:
        self.journal.append(outcomes)
        self._resume_file(batch).unlink(missing_ok=True)

    def save_resume_state(self, batch: str, arrays: StateArrays) -> None:
        write_arrays(self._resume_file(batch), arrays)

    @property
    def begun(self) -> bool:
        """Whether an earlier process did a part of the work."""
        return self.journal.path.exists() or bool(self._resume_files())

    def remove(self) -> None:
        self.journal.remove()
        for file in self._resume_files():
            file.unlink(missing_ok=True)
