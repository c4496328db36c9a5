"""`ctrobust demo`: the main job on embedded data."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.evaluation_tables import demo_table
from ctrobust.cli.options import Threads
from ctrobust.cli.picture_output import save_contact_sheet
from ctrobust.cli.progress import TrainingBar, attack_progress
from ctrobust.cli.report import make_report
from ctrobust.cli.signals import interruptible, resumed_by, stop_requests
from ctrobust.cli.torch_setup import load_torch
from ctrobust.cli.verdict_output import print_demo_verdicts

DEMO_EXAMPLE = "Example: ctrobust demo --out runs/demo"


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run directories.")] = Path("runs/demo"),
    threads: Threads = None,
) -> None:
    """Train four networks on embedded digits, attack them and make the report. Takes less than 3 minutes."""
    load_torch(threads)
    from ctrobust import execution
    from ctrobust.training import CheckpointPolicy

    with resumed_by(lambda: shlex.join(["ctrobust", "demo", "--out", str(out)])):
        with stop_requests() as stop:
            runs = []
            for method in execution.DEMO_METHODS:
                with TrainingBar("train", method) as progress:
                    runs.append(execution.train_demo(out, method, progress, CheckpointPolicy(stop=stop)))
        with interruptible():
            rows, verdicts = [], []
            for run in runs:
                with attack_progress("attack", run.method) as report:
                    rows.append((run.method, list(execution.attack_demo(run, report))))
                with attack_progress("test", run.method) as report:
                    verdicts.append((run.method, execution.check_demo(run, report)))
                with attack_progress("illustrate", run.method) as report:
                    save_contact_sheet(*execution.illustrate_demo(run, report))
    demo_table(rows, out)
    print_demo_verdicts(verdicts, out)
    make_report([out], out / "report.html", "Four networks on digits, trained four ways")
