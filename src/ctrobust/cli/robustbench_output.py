"""`ctrobust evaluate --robustbench F.json`: the result as RobustBench lists it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctrobust._version import __version__
from ctrobust.errors import InputError
from ctrobust.reporting.robustbench_entry import EntryFacts, is_entry, robustbench_entry
from ctrobust.store import write_atomic

if TYPE_CHECKING:
    from ctrobust.execution import AutoAttackBall, EvaluationTarget


def check_robustbench(attacks: Sequence[str], file: Path | None) -> None:
    """Refuse a file that cannot be written or a result that RobustBench would not list, before anything runs."""
    if file is None:
        return
    from ctrobust import execution

    execution.standard_autoattack(attacks)
    if not file.absolute().parent.is_dir():
        raise InputError(f"--robustbench {file}: there is no folder {file.absolute().parent}")
    if file.is_dir():
        raise InputError(f"--robustbench {file} is a folder; name a file")
    if file.exists() and not is_entry(file):
        raise InputError(f"--robustbench {file} exists and is no entry of RobustBench; name another file")


def write_robustbench(
    file: Path, name: str, target: "EvaluationTarget", limit: int | None, ball: "AutoAttackBall"
) -> None:
    """Write the entry of the attacks in AutoAttack's ball."""
    facts = EntryFacts(
        name=name,
        architecture=target.architecture,
        dataset=target.data.name,
        split=target.data.split,
        eps=ball.eps,
        norm=ball.norm,
        limit=limit,
        masking=ball.masking,
        version=__version__,
        repeats=target.network.repeats,
    )
    entry = robustbench_entry(facts, ball.evaluations, ball.attack)
    write_atomic(file, (json.dumps(entry, indent=2) + "\n").encode())
