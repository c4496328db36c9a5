"""A plan, printed by --dry-run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.store import Store

if TYPE_CHECKING:
    from ctrobust.execution.planning import Plan


def print_plan(plan: "Plan", store: Store, workers: int, data_root: Path | None, *, as_json: bool) -> None:
    """Print what would be run and how long it would take, and which data are missing; or the plan as JSON."""
    from ctrobust.execution.expected_time import expected_time
    from ctrobust.execution.required_data import missing_data

    expected = expected_time(plan.missing, store)
    if as_json:
        print_line(json.dumps(plan.as_json(expected), indent=2))
        return
    for line in plan.lines(expected, workers):
        print_paragraph(line, "  ")
    for message in missing_data(plan.missing, data_root):
        print_line(f"missing data: {message}")
