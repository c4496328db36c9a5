"""`ctrobust evaluate --verdict`, and the line that shows a stored verdict beside robust accuracies."""

import contextlib
import json
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrobust.cli.console import output, print_line, print_paragraph
from ctrobust.cli.progress import attack_progress
from ctrobust.cli.report import report_command
from ctrobust.cli.signals import given_command, interruptible, resumed_by
from ctrobust.cli.torch_setup import load_torch
from ctrobust.errors import InputError
from ctrobust.specs import is_range

if TYPE_CHECKING:
    from ctrobust.data import Dataset
    from ctrobust.execution import TargetOptions, VerdictRow
    from ctrobust.outcomes.masking import Verdict
    from ctrobust.store import VerdictRecord

DEFAULT_EPS, DEFAULT_LIMIT = "8/255", 256
KEPT_TESTS = "finished tests are stored and will not be run again"
NOTHING_KEPT = "nothing is stored for a weights file outside a run directory"
WIDTH = 80
NAME_WIDTH, LEVEL_WIDTH = 25, 10
"""Widths of the columns before the sentences: the longest test and the longest level."""


def masking_verdict(
    options: "TargetOptions",
    attack: list[str] | None,
    eps: list[str] | None,
    *,
    limit: int | None,
    transfer: Path | None,
    fuse: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Run the masking tests that are not stored, and print the verdict."""
    if attack:
        raise InputError("--verdict chooses its attacks: leave out --attack, or attack in a command of its own")
    if not fuse:
        raise InputError("--no-fuse is for attacks: leave it out with --verdict")
    if eps and (len(eps) > 1 or is_range(eps[0])):
        raise InputError(f"--verdict takes one --eps, got {', '.join(eps)}")
    load_torch(threads)
    from ctrobust import execution

    run = options.target
    with contextlib.ExitStack() as held:
        with interruptible("nothing was stored yet"):
            target = held.enter_context(execution.opened_target(options))
        stored = target.run is not None
        held.enter_context(resumed_by(given_command if stored else lambda: None))
        held.enter_context(interruptible(KEPT_TESTS if stored else NOTHING_KEPT))
        other = None if transfer is None else execution.read_weights(transfer, options.model)
        with attack_progress("verdict", str(run)) as progress:
            row = execution.verdict_stored(
                target.network, target.data, eps=(eps or [DEFAULT_EPS])[0], limit=limit or DEFAULT_LIMIT,
                transfer=other, progress=progress, into=target.run,
            )  # fmt: skip
    if as_json:
        print_line(json.dumps(_as_json(run, target.data, row), indent=2))
    else:
        print_verdict(run, target.data, row)


def _as_json(run: Path, data: "Dataset", row: "VerdictRow") -> dict[str, Any]:
    names = {"name": data.name, "split": data.split, "verified": data.verified, "count": row.verdict.setting.count}
    file = None if row.file is None else str(row.file)
    return {"run": str(run), "data": names, "verdict": row.verdict.to_dict(), "file": file}


def print_verdict(run: Path, data: "Dataset", row: "VerdictRow") -> None:
    """Print the level, then each test with its level and its sentence."""
    verdict = row.verdict
    print_line(f"{run} on {data.name} ({data.split}), {_where(verdict)}")
    print_paragraph(verdict.summary)
    print_line("")
    for one in verdict.evidence:
        print_line("\n".join(_test_lines(one.test, one.level, one.sentence)))
    print_line("")
    print_paragraph(
        f"{verdict.seconds:.0f} seconds. Tests cannot show that robustness is real, only that attacks fail for another "
        "reason."
    )
    if row.file is not None:
        print_line(f"{'found' if row.found else 'stored'} in {row.file}")
        print_line(f"report: {report_command(run if run.is_dir() else row.file.parents[1])}")


def _test_lines(test: str, level: str, sentence: str) -> list[str]:
    """A test in two columns and its sentence in a third, wrapped at 80 columns or the terminal's width if narrower."""
    start = f"{test:{NAME_WIDTH}}  {level:{LEVEL_WIDTH}}  "
    width = min(WIDTH, output().width)
    if width < len(start) + 30:
        return textwrap.wrap(f"{test} - {level}: {sentence}", width, subsequent_indent="  ")
    return textwrap.wrap(start + sentence, width, subsequent_indent=" " * len(start), break_long_words=False)


def _where(verdict: "Verdict") -> str:
    setting = verdict.setting
    return f"{setting.count:,} images, {setting.norm}, eps {radius_text(setting.eps)}"


def radius_text(eps: float) -> str:
    """Write a radius in grey levels if it is a whole number of them.

    Example:
        >>> radius_text(8 / 255), radius_text(0.1)
        ('8/255', '0.1')
    """
    levels = 255 * eps
    return f"{round(levels)}/255" if abs(levels - round(levels)) < 1e-9 and levels < 255 else f"{eps:.4g}"


def print_verdict_lines(records: "Sequence[VerdictRecord]") -> None:
    """Print one line for each stored verdict."""
    for one in records:
        print_paragraph(f"masking verdict ({_where(one.verdict)}): {one.verdict.summary}", "  ")


def verdicts_json(records: "Sequence[VerdictRecord]") -> dict[str, Any]:
    """The stored verdicts beside the attacks' figures; nothing if there is none."""
    return {"verdicts": [one.verdict.to_dict() for one in records]} if records else {}


def print_demo_verdicts(verdicts: "Sequence[tuple[str, Verdict]]", out: Path) -> None:
    """Print what the nearly free tests found in each network, and how all tests are run."""
    free = verdicts[0][1]
    for method, verdict in verdicts:
        for one in verdict.evidence:
            if one.level in ("suspicious", "masked"):
                print_paragraph(f"{method} is {one.level} by the test {one.test}: {one.sentence}", "  ")
    clear = [method for method, verdict in verdicts if verdict.level in ("none found", "not tested")]
    if clear:
        which = f"{free.tests_run} of {free.tests_total} masking tests were run, the nearly free ones"
        print_paragraph(f"{which}; they found no sign of masking in {', '.join(clear)}", "  ")
    command = shlex.join(
        ["ctrobust", "evaluate", str(out / verdicts[0][0]), "--verdict", "--eps", f"{free.setting.eps:g}"]
    )
    print_line(f"all tests: {command}")
