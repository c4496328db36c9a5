"""Whether stored outcomes are those that were asked for."""

from dataclasses import dataclass

import numpy as np

from ctrobust.data import Dataset
from ctrobust.errors import RunError
from ctrobust.specs import EvaluationSpec
from ctrobust.store import RunDirectory, StoredEvaluation


@dataclass(frozen=True, eq=False)
class EvaluationRequest:
    """What stored outcomes must agree with.

    Attributes:
        run: where they are stored.
        data: the data set.
        clean_spec: the evaluation of the same examples without an attack.
        fuse: whether outcomes of a fused copy count.
    """

    run: RunDirectory
    data: Dataset
    clean_spec: EvaluationSpec
    fuse: bool

    def stored(self, spec: EvaluationSpec) -> StoredEvaluation | None:
        """The stored outcomes of a spec; raises if they are not of the examples and the network of this request.

        The spec names the attack, the weights and the contents of the data; examples are compared by their labels.
        """
        found = self.run.find_evaluation(spec)
        if found is None or (found.record.fused and not self.fuse):
            return None
        problem = self._problem(found, spec)
        if problem is not None:
            raise RunError(f"{found.file} {problem}; remove it and the .json beside it to have them made again")
        return found

    def _problem(self, found: StoredEvaluation, spec: EvaluationSpec) -> str | None:
        requested = f"the requested evaluation on {self.data.name} ({self.data.split})"
        if spec != self.clean_spec:
            clean = self.run.find_evaluation(self.clean_spec)
            if clean is None:
                return f"refers to the clean outcomes {found.record.clean}, which are missing"
            if found.record.clean != clean.file.name:
                return f"refers to the clean outcomes {found.record.clean}; those of {requested} are {clean.file.name}"
        labels = self.data.labels[: spec.limit].numpy()
        if len(found.evaluation) != len(labels):
            return f"holds {len(found.evaluation)} examples; {requested} has {len(labels)}"
        if not np.array_equal(found.evaluation.labels, labels):
            return f"holds other labels than {requested}"
        return None
