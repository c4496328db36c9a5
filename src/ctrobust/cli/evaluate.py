"""`ctrobust evaluate`: attacks on a trained network."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrobust.cli.console import print_line
from ctrobust.cli.curve_output import curve_radii, curves_json, print_curves
from ctrobust.cli.evaluation_tables import evaluation_json, evaluation_table
from ctrobust.cli.options import WHERE, DataRoot
from ctrobust.cli.picture_output import check_picture_options, print_saved_images, write_contact_sheet
from ctrobust.cli.progress import attack_progress
from ctrobust.cli.robustbench_output import check_robustbench, write_robustbench
from ctrobust.cli.signals import given_command, interruptible, resumed_by
from ctrobust.cli.torch_setup import load_torch
from ctrobust.cli.user_network_options import Mean, Model, Out, Std, Weights
from ctrobust.cli.verdict_output import masking_verdict, print_verdict_lines, verdicts_json
from ctrobust.errors import InputError
from ctrobust.execution.target_options import TargetOptions

if TYPE_CHECKING:
    from ctrobust.execution import EvaluationTarget

Report = Callable[[float, float, str], None]
"""Called with the passes done, the passes in all and the stage."""
MOST_AT_A_TIME = 1 << 16
EVALUATE_EXAMPLE = "Example: ctrobust evaluate runs/demo/mdl --attack fgsm --attack s-pgd --eps 0.05 --eps 0.1"


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory, weights file, or package.module:factory.")],
    attack: Annotated[
        list[str] | None, typer.Option(help="Attack, such as pgd:eps=8/255,loss=sce(gamma=5). Repeatable.")
    ] = None,
    eps: Annotated[
        list[str] | None,
        typer.Option(
            help="Perturbation radius of the attacks that have no eps. Repeatable. A range such as 1/255..16/255 makes "
            "a curve of accuracy against the radius, in steps of its first value."
        ),
    ] = None,
    bisections: Annotated[
        int | None,
        typer.Option(
            min=0, max=30, help="With a range of radii: how often to halve the interval of an image's smallest radius."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=10**9, help="Evaluate the first N images only.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set. Default: the data set of the run.")] = None,
    model: Model = None,
    weights: Weights = None,
    mean: Mean = None,
    std: Std = None,
    out: Out = None,
    split: Annotated[str, typer.Option(help="Part of the data set: test or train.")] = "test",
    data_root: DataRoot = None,
    chunk: Annotated[int, typer.Option(min=1, max=MOST_AT_A_TIME, help="Number of images attacked at a time.")] = 256,
    fuse: Annotated[
        bool, typer.Option("--fuse/--no-fuse", help="Run long attacks on a fused copy of the network, which is faster.")
    ] = True,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities/--no-probabilities",
            help="Store the class probabilities under attack; without them the files of many radii stay small.",
        ),
    ] = True,
    verdict: Annotated[
        bool,
        typer.Option(
            "--verdict",
            help="Test whether gradients are masked, in place of attacks; default: 256 images, eps 8/255. Resumes.",
        ),
    ] = False,
    transfer: Annotated[
        Path | None, typer.Option(help="Run directory of another network, whose attacked images --verdict tries.")
    ] = None,
    pictures: Annotated[
        int | None, typer.Option(min=1, max=400, help="Draw a contact sheet of N attacked images for each attack.")
    ] = None,
    save_images: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all broken images of one attack, as 8-bit PNG files, if they stay broken after rounding."
        ),
    ] = None,
    robustbench: Annotated[
        Path | None, typer.Option(help="File for the result as RobustBench's JSON; needs AutoAttack among the attacks.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Number of processes that share the images of an attack. Outcomes do not depend on it, apart from the "
            "rounding of another number of threads. Default: 1, or what a Ray cluster has room for.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Number of CPU threads of each process. Default: 1 with several workers, else torch's choice.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Where workers run: local processes, or a ray cluster.", rich_help_panel=WHERE)
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster. Default: one on this machine.", rich_help_panel=WHERE),
    ] = None,
) -> None:
    """Attack a network: robust accuracies with intervals, and statistics of its confidence threshold."""
    options = TargetOptions(run, data, data_root, split, model, weights, mean, std, out)
    if verdict:
        _refuse_with(
            "--verdict",
            pictures=pictures,
            save_images=save_images,
            robustbench=robustbench,
            bisections=bisections,
            workers=workers,
        )
        masking_verdict(
            options, attack, eps, limit=limit, transfer=transfer, fuse=fuse, threads=threads, as_json=as_json
        )  # fmt: skip
        return
    if transfer is not None:
        raise InputError("--transfer is for --verdict")
    if eps and not attack:
        raise InputError("--eps needs an attack: name one with --attack")
    radii = curve_radii(eps or [])
    if radii is not None:
        _refuse_with(
            "a range of radii", pictures=pictures, save_images=save_images, robustbench=robustbench, workers=workers
        )
        load_torch(threads)
        _evaluate_curves(
            options, attack or [], radii, bisections=bisections or 0, limit=limit, chunk=chunk, fuse=fuse,
            as_json=as_json,
        )  # fmt: skip
        return
    if bisections is not None:
        raise InputError("--bisections is for a range of radii, such as --eps 1/255..16/255")
    load_torch(threads)
    from ctrobust import execution

    attacks = execution.expand(attack or [], eps or [])
    check_picture_options(len(attacks), pictures, save_images)
    check_robustbench([str(one) for one in attacks], robustbench)
    sharding = execution.Sharding(workers, threads, executor, address)
    with _attacking(options, "evaluate") as (target, progress):
        evaluations = execution.evaluate_stored(
            target.network,
            target.data,
            attacks or [None],
            limit=limit,
            chunk=chunk,
            fuse=fuse,
            keep_probabilities=probabilities,
            progress=progress,
            into=target.run,
            sharding=sharding,
        )
        rows = list(evaluations)
    verdicts = execution.verdicts_beside(target.network, target.data, rows, target.run)
    if as_json:
        print_line(json.dumps({**evaluation_json(run, target.data, rows), **verdicts_json(verdicts)}, indent=2))
    else:
        evaluation_table(run, target.data, rows)
        print_verdict_lines(verdicts)
    if robustbench is not None:
        ball = execution.autoattack_result(rows, verdicts)
        write_robustbench(robustbench, run.resolve().name, target, limit, ball)
        if not as_json:
            print_line(f"RobustBench's form of the result: {robustbench}")
    with interruptible("the outcomes are stored; the pictures are not finished"):
        for one, row in zip(attacks, rows, strict=False):
            if pictures is not None:
                positions = execution.choose_examples(row.evaluation, pictures)
                write_contact_sheet(row, execution.attack_images(target.model(), target.data, one, positions))
            if save_images is not None:
                saved = execution.save_images(target.model(), target.data, one, row.evaluation, save_images)
                print_saved_images(saved)


@contextlib.contextmanager
def _attacking(
    options: TargetOptions, what: str
) -> "Iterator[tuple[EvaluationTarget, Callable[[float, float, str], None]]]":
    """Open the network and its data, and report progress; an interruption says what is stored and how to go on."""
    from ctrobust import execution

    with contextlib.ExitStack() as held:
        with interruptible("nothing was stored yet"):
            target = held.enter_context(execution.opened_target(options))
        stored = target.run is not None
        with (
            resumed_by(given_command if stored else lambda: None),
            interruptible(_kept(stored=stored)),
            attack_progress(what, str(options.target)) as progress,
        ):
            yield target, progress


def _evaluate_curves(
    options: TargetOptions,
    texts: list[str],
    radii: list[float],
    *,
    bisections: int,
    limit: int | None,
    chunk: int,
    fuse: bool,
    as_json: bool,
) -> None:
    """Make the curves that are not stored, and print them."""
    from ctrobust import execution

    attacks, run = execution.curve_attacks(texts, radii), options.target
    with _attacking(options, "curve") as (target, progress):
        rows = list(
            execution.curves_stored(
                target.network, target.data, attacks, radii, bisections=bisections, limit=limit, chunk=chunk, fuse=fuse,
                progress=progress, into=target.run,
            )
        )  # fmt: skip
    if as_json:
        print_line(curves_json(run, target.data, rows))
    else:
        print_curves(run, target.data, rows)


def _refuse_with(what: str, **options: object) -> None:
    """Refuse options that have no effect on a curve or a verdict."""
    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not for {what}: leave it out")


def _kept(*, stored: bool) -> str:
    """What an interruption leaves."""
    if stored:
        return "finished attacks and batches are stored and will not be run again"
    return "nothing is stored for a weights file outside a run directory"
