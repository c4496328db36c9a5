"""`ctrobust train`: one training run in its run directory."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrobust import specs
from ctrobust.cli.console import print_line
from ctrobust.cli.field_options import with_field_options
from ctrobust.cli.options import WHERE, DataRoot, HiddenThreads
from ctrobust.cli.progress import TrainingBar
from ctrobust.cli.set_option import combine, nested, parse_assignments
from ctrobust.cli.signals import resumed_by, stop_requests
from ctrobust.cli.torch_setup import load_torch
from ctrobust.cli.training_summary import training_summary
from ctrobust.errors import InputError, SpecError

if TYPE_CHECKING:
    from ctrobust.store import RunDirectory

TRAIN_EXAMPLE = (
    "Example: ctrobust train --data fashion-mnist --method mdl --epochs 50 --set recipe.eta=90, or "
    "ctrobust train --data cifar10 --recipe fast --gamma 2 --set validation=1000"
)
STRATEGIES = ("auto", "ddp")
CHECKPOINT_SECONDS = 60.0


def _show_all_options(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for parameter in context.command.params:
            vars(parameter)["hidden"] = False
        typer.echo(context.get_help())
        raise typer.Exit


@with_field_options
def train(
    given: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/DATA-MODEL-HASH.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; other options must agree with it.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with fields of the run; options override the file.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Set any field of the run, such as recipe.beta=6. Repeatable."
        ),
    ] = None,
    data_root: DataRoot = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record of the run as JSON.")] = False,
    _help_all: Annotated[
        bool,
        typer.Option("--help-all", is_eager=True, callback=_show_all_options, help="Show all options and exit."),
    ] = False,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Number of processes per machine.", hidden=True, rich_help_panel=WHERE)
    ] = None,
    num_nodes: Annotated[int, typer.Option(min=1, help="Number of machines.", hidden=True, rich_help_panel=WHERE)] = 1,
    strategy: Annotated[
        str, typer.Option(help=f"One of {', '.join(STRATEGIES)}.", hidden=True, rich_help_panel=WHERE)
    ] = "auto",
    accelerator: Annotated[
        str, typer.Option(help="Device type, such as cpu, cuda or mps.", hidden=True, rich_help_panel=WHERE)
    ] = "auto",
    threads: HiddenThreads = None,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write TensorBoard event files too.", hidden=True, rich_help_panel=WHERE),
    ] = False,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(min=0, help="Longest time between two checkpoints.", hidden=True, rich_help_panel=WHERE),
    ] = CHECKPOINT_SECONDS,
) -> None:
    """Train one network. Its run directory holds the weights, the metrics and a record of the results.

    `ctrobust list recipes`, `list methods` and `list models` describe the choices.
    """
    if devices:
        given = {**given, "world_size": devices * num_nodes}
    values = combine(given, parse_assignments(assignments or []), "--set")
    factory = values.get("model.name")  # of a file it would not count: code is run only where the user names it
    fields = specs.merge(specs.read_toml(config) if config else {}, nested(values))
    if resume and out is None and not fields:
        raise InputError("--resume needs --out, the run directory to continue")
    if strategy not in STRATEGIES:
        raise InputError(f"--strategy is one of {', '.join(STRATEGIES)}; got {strategy}")
    continues = resume and out is not None and not config
    spec = None if continues else _spec(fields, config)  # a wrong spec is refused before torch is loaded
    load_torch(threads)
    from ctrobust.store import RunDirectory, directory_name
    from ctrobust.training import CheckpointPolicy, Devices, is_main_process, with_tensorboard
    from ctrobust.training import train as run_training

    spec = fit_batch_size(spec, fields) if spec else _continued_spec(RunDirectory(out or Path()), fields)
    path = out or Path("runs") / directory_name(spec)
    resume_options = {
        "--data": spec.data if ":" in spec.data else None,  # a run does not choose the paths that are read
        "--model": spec.model.name if spec.model.is_user_network else None,
        "--data-root": data_root,
        "--num-nodes": num_nodes if num_nodes > 1 else None,
        "--strategy": strategy if strategy != "auto" else None,
        "--accelerator": accelerator if accelerator != "auto" else None,
        "--threads": threads,
        "--checkpoint-seconds": checkpoint_seconds if checkpoint_seconds != CHECKPOINT_SECONDS else None,
        "--tensorboard": tensorboard,
        "--json": as_json,
    }
    with (
        resumed_by(lambda: _resume_command(path, resume_options)),
        stop_requests() as stop,
        TrainingBar("train", str(path), hidden=not is_main_process()) as progress,
    ):
        record = run_training(
            spec,
            RunDirectory(path),
            data_root=data_root,
            resume=resume,
            callback=with_tensorboard(progress, path / "tensorboard") if tensorboard else progress,
            checkpointing=CheckpointPolicy(seconds=checkpoint_seconds, stop=stop),
            devices=Devices(accelerator=accelerator, strategy=strategy, nodes=num_nodes),
            factory=factory,
        )
    if not is_main_process():
        return
    if as_json:
        print_line(json.dumps({"run": str(path), **record.model_dump(mode="json")}, indent=2))
    else:
        training_summary(path, spec, record.model_dump(mode="json"))


def _spec(fields: dict[str, Any], config: Path | None) -> specs.TrainSpec:
    try:
        return specs.train_spec(fields)
    except SpecError as error:
        raise SpecError(f"{config}: {error}" if config else str(error)) from None


def fit_batch_size(spec: specs.TrainSpec, fields: Mapping[str, Any]) -> specs.TrainSpec:
    """The spec with a default batch size that fits the number of images, if the data are the user's own."""
    from ctrobust import data

    if "batch_size" in fields or spec.data.partition(":")[0] not in data.PATH_LOADERS:
        return spec
    images = data.count_train_images(spec.data)
    return specs.train_spec(fields, train_images=min(images, spec.limit or images) - spec.validation)


def _continued_spec(run: "RunDirectory", fields: dict[str, Any]) -> specs.TrainSpec:
    """The stored spec, overridden by the given fields; the fields alone where nothing is stored yet.

    Another rate for a run that diverged is a change of the rate after its last finished epoch.
    """
    from ctrobust.training import with_changed_rate

    if fields and not run.spec_file.exists():
        return fit_batch_size(specs.train_spec(fields), fields)
    stored = run.read_spec()
    if ":" in stored.data and "data" not in fields:
        raise InputError(
            f"{run.path} is a run on {stored.data!r}; data of your own are read only where you name them. "
            f"Add to the command:\n  --data {shlex.quote(stored.data)}"
        )
    if stored.model.is_user_network and "name" not in fields.get("model", {}):
        raise InputError(
            f"the network of {run.path} is built by {stored.model.name}; code of your own is run only where you name "
            f"it. Add to the command:\n  --model {shlex.quote(stored.model.name)}"
        )
    return with_changed_rate(run, stored, specs.override(stored, fields))


def _resume_command(path: Path, options: dict[str, Any]) -> str | None:
    """The command that continues a run, with the options that its spec does not hold; None if nothing is stored."""
    if not (path / "spec.json").exists():
        return None
    words = ["ctrobust", "train", "--resume", "--out", str(path)]
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, str(value)]
    return shlex.join(words)
