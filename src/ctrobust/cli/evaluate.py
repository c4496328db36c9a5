"""`ctrobust evaluate`: attacks on a trained network."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.console import print_line
from ctrobust.cli.evaluation_tables import evaluation_json, evaluation_table
from ctrobust.cli.options import DataRoot, Threads
from ctrobust.cli.progress import attack_progress
from ctrobust.cli.signals import interruptible
from ctrobust.cli.torch_setup import load_torch
from ctrobust.errors import InputError

EVALUATE_EXAMPLE = "Example: ctrobust evaluate runs/demo/mdl --attack fgsm --attack s-pgd --eps 0.05 --eps 0.1"


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory or weights file.")],
    attack: Annotated[
        list[str] | None, typer.Option(help="Attack, such as pgd:eps=8/255,loss=sce(gamma=5). Repeatable.")
    ] = None,
    eps: Annotated[
        list[str] | None, typer.Option(help="Perturbation radius of the attacks that have no eps. Repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate the first N images only.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set. Default: the data set of the run.")] = None,
    split: Annotated[str, typer.Option(help="Part of the data set: test or train.")] = "test",
    data_root: DataRoot = None,
    chunk: Annotated[int, typer.Option(min=1, help="Number of images attacked at a time.")] = 256,
    fuse: Annotated[
        bool, typer.Option("--fuse/--no-fuse", help="Run long attacks on a fused copy of the network, which is faster.")
    ] = True,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Attack a network: robust accuracies with intervals, and statistics of its confidence threshold."""
    if eps and not attack:
        raise InputError("--eps needs an attack: name one with --attack")
    load_torch(threads)
    from ctrobust import execution

    attacks = execution.expand(attack or [], eps or [])
    with interruptible():
        weights = execution.read_weights(run)
        found = execution.evaluation_data(weights, data, data_root, split)
        with attack_progress("evaluate", str(run)) as progress:
            evaluations = execution.evaluate_stored(
                weights, found, attacks or [None], limit=limit, chunk=chunk, fuse=fuse, progress=progress
            )
            rows = list(evaluations)
    if as_json:
        print_line(json.dumps(evaluation_json(run, found, rows), indent=2))
    else:
        evaluation_table(run, found, rows)
