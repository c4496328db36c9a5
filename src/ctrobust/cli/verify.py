"""`ctrobust verify`: the stored numbers of a run, computed and attacked again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.console import messages, print_line, print_paragraph
from ctrobust.cli.options import DataRoot, Threads
from ctrobust.cli.signals import interruptible
from ctrobust.cli.torch_setup import load_torch
from ctrobust.cli.user_network_options import Model
from ctrobust.errors import JobsFailedError
from ctrobust.reporting.number_texts import count_text

VERIFY_EXAMPLE = "Example: ctrobust verify runs/demo/mdl"


def verify(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    sample: Annotated[int, typer.Option(min=0, help="Number of random examples to attack again, each alone.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice of examples.")] = 0,
    data: Annotated[str | None, typer.Option(help="Data set. Default: the data set of the run.")] = None,
    model: Model = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights of a factory's network that was trained elsewhere, to attack it again.")
    ] = None,
    data_root: DataRoot = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all checks as JSON.")] = False,
) -> None:
    """Compute the results of a run again from its outcomes, and attack a random sample again.

    Evaluations, curves, verdicts, the record and the weights are verified; the metrics of the training are not. Exit
    code 6 means that something disagrees.
    """
    load_torch(threads)
    from ctrobust.execution.verification import verify_run

    def report(done: int, total: int, attack: str) -> None:
        status.update(f"{done} of {total} examples attacked again: {attack}")

    with interruptible(), messages.status("computing the stored numbers again") as status:
        checks = verify_run(
            run, data=data, data_root=data_root, sample=sample, seed=seed, callback=report, factory=model,
            user_weights=weights,
        )  # fmt: skip
    failed = [check for check in checks if not check.passed]
    if as_json:
        print_line(json.dumps({"run": str(run), "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        files = [check for check in checks if check.what.endswith(".npz") and check.passed]  # evaluations and curves
        print_line(f"{run}: {count_text(len(checks), 'check')}, {len(failed)} failed")
        if files:
            which = count_text(len(files), "evaluation or curve", "evaluations and curves")
            print_paragraph(f"The numbers of {which} agree with their outcomes.")
        for check in checks:
            if check not in files:
                print_paragraph(f"{'ok' if check.passed else 'FAILED'}: {check.what}: {check.finding}", "  ")
    if failed:
        raise JobsFailedError(f"{len(failed)} of {len(checks)} checks of {run} failed")
