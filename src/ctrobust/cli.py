"""The command line: options in, rooms called, tables out. No logic of its own.

Torch is imported inside the commands, so that --help and --version answer at once.
"""

import io
import json
import os
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrobust import display, specs
from ctrobust._version import __version__
from ctrobust.errors import CtrobustError, DataError, InputError

if TYPE_CHECKING:
    from ctrobust.store import RunDirectory

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal error; 2 wrong options or inputs; 3 wrong spec; 4 data missing or damaged; "
    "5 run directory cannot be read, written or resumed; 130 interrupted, the state is saved."
)

app = typer.Typer(
    name="ctrobust",
    help="Train, attack and evaluate image classifiers that generalize and resist attack.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataRoot = Annotated[
    Path | None, typer.Option(help="Where data sets lie; before $CTROBUST_DATA, the cache and /usr/share/datasets.")
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads; torch's choice by default.")]
STRATEGIES = ("auto", "ddp")
SPEC = "What the run is"
ATTACK = "Adversarial recipes"
WHERE = "Where it computes"


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ctrobust {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train, attack and evaluate image classifiers that generalize and resist attack."""


@app.command(epilog="Example: ctrobust demo --out runs/demo")
def demo(
    out: Annotated[Path, typer.Option(help="Where the run directories go.")] = Path("runs/demo"),
    threads: Threads = None,
) -> None:
    """Train four networks on embedded digits, attack them, and print what became of them. Under 3 minutes."""
    _prepare(threads)
    from ctrobust import execution
    from ctrobust.training import CheckpointPolicy

    with display.stoppable() as stop:
        runs = []
        for method in execution.DEMO_METHODS:
            with display.TrainingBar(f"train {method}") as bar:
                runs.append(execution.train_demo(out, method, bar, CheckpointPolicy(stop=stop)))
    with display.interruptible():
        rows = []
        for run in runs:
            with display.attack_bar(f"attack {run.method}") as progress:
                rows.append((run.method, list(execution.attack_demo(run, progress))))
    display.demo_table(rows, out)


@app.command(
    epilog="Example: ctrobust train --data fashion-mnist --method mdl --eta 90 --epochs 50 --lr 0.01, or "
    "ctrobust train --data cifar10 --recipe fast --gamma 2 --epochs 50 --validation 1000"
)
def train(
    config: Annotated[Path | None, typer.Option(help="TOML file with the spec; options win over it.")] = None,
    method: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(specs.METHODS)}.", rich_help_panel=SPEC)
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(specs.RECIPE_SPECS)}.", rich_help_panel=SPEC)
    ] = None,
    data: Annotated[str | None, typer.Option(help="See `ctrobust data list`.", rich_help_panel=SPEC)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many images.", rich_help_panel=SPEC)] = None,
    augment: Annotated[str | None, typer.Option(help="crop-flip or none.", rich_help_panel=SPEC)] = None,
    model: Annotated[
        str | None, typer.Option(help="mnistnet, vgg16, resnet18, resnet50.", rich_help_panel=SPEC)
    ] = None,
    width: Annotated[int | None, typer.Option(help="Of the network; 64 is the paper's.", rich_help_panel=SPEC)] = None,
    noise: Annotated[str | None, typer.Option(help="dropout, dropconnect or none.", rich_help_panel=SPEC)] = None,
    drop: Annotated[float | None, typer.Option(help="Its rate.", rich_help_panel=SPEC)] = None,
    maps: Annotated[str | None, typer.Option(help="dropblock, disout or none.", rich_help_panel=SPEC)] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="Base loss; see `ctrobust list losses`. std: STD alone (ablation).", rich_help_panel=SPEC),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="K, sub-networks a step.", rich_help_panel=SPEC)] = None,
    rho: Annotated[float | None, typer.Option(help="Weight of MDL's similarity.", rich_help_panel=SPEC)] = None,
    eta: Annotated[float | None, typer.Option(help="MDL's percentile, 0 to 100.", rich_help_panel=SPEC)] = None,
    diversity: Annotated[str | None, typer.Option(help="cosine or pearson.", rich_help_panel=SPEC)] = None,
    gamma: Annotated[
        float | None, typer.Option(help="CTR's weight of the deviation; 0 is the baseline.", rich_help_panel=ATTACK)
    ] = None,
    gamma_in: Annotated[str | None, typer.Option(help="both, attack or descent.", rich_help_panel=ATTACK)] = None,
    eps: Annotated[str | None, typer.Option(help="Radius, as in 8/255.", rich_help_panel=ATTACK)] = None,
    steps: Annotated[int | None, typer.Option(help="Of madry and trades.", rich_help_panel=ATTACK)] = None,
    step_size: Annotated[str | None, typer.Option(help="As in 2/255.", rich_help_panel=ATTACK)] = None,
    replays: Annotated[int | None, typer.Option(help="Of free.", rich_help_panel=ATTACK)] = None,
    beta: Annotated[float | None, typer.Option(help="Of trades.", rich_help_panel=ATTACK)] = None,
    std_at: Annotated[str | None, typer.Option(help="adv or clean, of trades.", rich_help_panel=ATTACK)] = None,
    stop_on_collapse: Annotated[
        bool | None,
        typer.Option(
            "--stop-on-collapse",
            help="End at catastrophic overfitting, with the last good epoch.",
            rich_help_panel=ATTACK,
        ),
    ] = None,
    validation: Annotated[
        int | None, typer.Option(help="Training images held out; the best epoch is kept.", rich_help_panel=SPEC)
    ] = None,
    ema: Annotated[
        float | None, typer.Option(help="Decay of a moving average of the weights, as 0.999.", rich_help_panel=SPEC)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="How many.", rich_help_panel=SPEC)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images a step.", rich_help_panel=SPEC)] = None,
    lr: Annotated[float | None, typer.Option(help="Largest learning rate.", rich_help_panel=SPEC)] = None,
    momentum: Annotated[float | None, typer.Option(help="Of SGD.", rich_help_panel=SPEC)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="On everything.", rich_help_panel=SPEC)] = None,
    schedule: Annotated[str | None, typer.Option(help="cyclic or multistep.", rich_help_panel=SPEC)] = None,
    warmup: Annotated[bool | None, typer.Option(help="The paper's warm-up.", rich_help_panel=SPEC)] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and masks.", rich_help_panel=SPEC)] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.", rich_help_panel=SPEC)] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Processes a node.", rich_help_panel=WHERE)] = None,
    num_nodes: Annotated[int, typer.Option(min=1, help="Machines.", rich_help_panel=WHERE)] = 1,
    strategy: Annotated[str, typer.Option(help="auto, or ddp for several processes.", rich_help_panel=WHERE)] = "auto",
    accelerator: Annotated[str, typer.Option(help="cpu, cuda, mps.", rich_help_panel=WHERE)] = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write event files.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/DATA-MODEL-HASH by default.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that is there; options must agree with it.")
    ] = False,
    data_root: DataRoot = None,
    threads: Threads = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Longest time between checkpoints.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train one network: a run directory with weights, metrics and a record."""
    given: dict[str, Any] = {
        "method": method, "data": data, "limit": limit, "epochs": epochs, "batch_size": batch_size, "lr": lr,
        "momentum": momentum, "weight_decay": weight_decay, "seed": seed, "augment": augment, "precision": precision,
        "world_size": devices * num_nodes if devices else None, "ema": ema, "validation": validation,
        "stop_on_collapse": stop_on_collapse,
        "model": {"name": model, "width": width, "noise": noise, "drop": drop, "maps": maps},
        "recipe": {
            "name": recipe, "loss": loss, "samples": samples, "rho": rho, "eta": eta, "diversity": diversity,
            "gamma": gamma, "gamma_in": gamma_in, "eps": eps, "steps": steps, "step_size": step_size,
            "replays": replays, "beta": beta, "std_at": std_at,
        },
        "schedule": {"name": schedule, "warmup": warmup},
    }  # fmt: skip
    fields = specs.merge(specs.read_toml(config) if config else {}, specs.given_only(given))
    if resume and out is None and not fields:
        raise InputError("--resume: say which run, with --out")
    going_on = resume and out is not None and not config
    asked = None if going_on else specs.train_spec(fields)  # refused before torch is loaded
    _prepare(threads)
    from ctrobust.store import RunDirectory
    from ctrobust.training import CheckpointPolicy, Devices, is_main_process, with_tensorboard
    from ctrobust.training import train as run_training

    if strategy not in STRATEGIES:
        raise InputError(f"--strategy is one of {', '.join(STRATEGIES)}; got {strategy}")
    spec = asked or _going_on(RunDirectory(out or Path()), fields)
    path = out or Path("runs") / f"{re.sub('[^A-Za-z0-9.]+', '-', spec.data)}-{spec.model.name}-{specs.spec_hash(spec)}"
    with display.stoppable() as stop, display.TrainingBar(f"train {path}", hidden=not is_main_process()) as bar:
        record = run_training(
            spec,
            RunDirectory(path),
            data_root=data_root,
            resume=resume,
            callback=with_tensorboard(bar, path / "tensorboard") if tensorboard else bar,
            checkpointing=CheckpointPolicy(seconds=checkpoint_seconds, stop=stop),
            devices=Devices(accelerator=accelerator, strategy=strategy, nodes=num_nodes),
        )
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps({"run": str(path), **record}, indent=2))
    else:
        display.training_summary(path, record)


def _going_on(run: "RunDirectory", fields: dict[str, Any]) -> specs.TrainSpec:
    """The spec of the run that is there with the given fields, or theirs alone where nothing is there yet."""
    if fields and not run.spec_file.exists():
        return specs.train_spec(fields)
    return specs.override(run.read_spec(), fields)


@app.command(epilog="Example: ctrobust evaluate runs/demo/mdl --attack fgsm --attack s-pgd --eps 0.05 --eps 0.1")
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run directory, or a weights file.")],
    attack: Annotated[list[str] | None, typer.Option(help="As in pgd:eps=8/255,loss=sce(gamma=5). Repeatable.")] = None,
    eps: Annotated[list[str] | None, typer.Option(help="For attacks that name none. Repeatable.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many images.")] = None,
    data: Annotated[str | None, typer.Option(help="Another data set than the run's.")] = None,
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    data_root: DataRoot = None,
    chunk: Annotated[int, typer.Option(min=1, help="Images attacked at a time.")] = 256,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Attack a network: robust accuracies with intervals, and its confidence threshold."""
    if eps and not attack:
        raise InputError("--eps is for attacks: name one with --attack")
    _prepare(threads)
    from ctrobust import execution

    attacks = execution.expand(attack or [], eps or [])
    with display.interruptible():
        found = execution.evaluation_data(run, data, data_root, split)
        with display.attack_bar(f"evaluate {run}") as progress:
            rows = list(
                execution.evaluate_stored(run, found, attacks or [None], limit=limit, chunk=chunk, progress=progress)
            )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(display.evaluation_json(run, found, rows), indent=2))
    else:
        display.evaluation_table(run, found, rows)


data_app = typer.Typer(help="What data sets there are, and whether they are whole.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("list", epilog="Example: ctrobust data list")
def data_list(data_root: DataRoot = None) -> None:
    """List the data sets, where each was found, and whether it is the published one."""
    from ctrobust import data

    display.data_table(data.available(data_root))


@data_app.command("fetch", epilog="Example: ctrobust data fetch fashion-mnist")
def data_fetch(
    name: Annotated[str, typer.Argument(help="As `ctrobust data list` calls it.")], data_root: DataRoot = None
) -> None:
    """Download a data set, check it, and put it where it will be found."""
    from ctrobust import data

    with display.interruptible("nothing half-fetched is kept"), display.download_bar(f"fetch {name}") as progress:
        place = data.fetch(name, data_root, progress)
    display.say(f"{name} is in {place}")


@data_app.command("check", epilog="Example: ctrobust data check folder:photos")
def data_check(
    name: Annotated[str, typer.Argument(help="A name, folder:PATH or npz:PATH.")], data_root: DataRoot = None
) -> None:
    """Read a data set whole and say what was found; exit code 4 if it cannot be used."""
    from ctrobust import data

    findings = data.check(name, data_root)
    for finding in findings:
        display.say(f"{finding.level}: {finding.text}")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(DataError.exit_code)


@app.command("list", epilog="Example: ctrobust list attacks")
def list_kind(kind: Annotated[str, typer.Argument(help="attacks, data, losses, methods, models, ...")]) -> None:
    """Print what exists of a kind, with one line each."""
    with display.status("loading"):
        from ctrobust.execution.catalogue import CATALOGUE
    if kind not in CATALOGUE:
        raise InputError(f"unknown kind {kind!r}; known: {', '.join(CATALOGUE)}")
    display.catalogue(CATALOGUE[kind]())


def _prepare(threads: int | None) -> None:
    """Set up this process for long numerical work."""
    # threads that wait for each other give way sooner: on a busy machine a tenth of the time, on an idle one the same
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    with display.status("loading"):
        import torch

        from ctrobust.training import keep_freed_memory

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)


def _not_empty(words: list[str]) -> list[str]:
    """Refuse an empty word: as a path it would mean the working directory."""
    for before, word in zip(["ctrobust", *words], words, strict=False):
        if not word or re.fullmatch("--[a-z-]+=", word):
            raise InputError(f"nothing is given for {before if not word else word[:-1]}; is a shell variable unset?")
    return words


def _speaks() -> bool:
    """Whether this process speaks for its run; the others meet the same errors, or only that the first is gone."""
    training = sys.modules.get("ctrobust.training")
    return training is None or bool(training.is_main_process())


def main() -> None:
    """Run a command; an error is one message and an exit code, its traceback only with --debug."""
    debug = "--debug" in sys.argv[1:]
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text that can be printed
    try:
        with warnings.catch_warnings():
            warnings.showwarning = display.warn
            app(_not_empty([word for word in sys.argv[1:] if word != "--debug"]))  # which may stand anywhere
    except (CtrobustError, display.SignalInterrupt) as error:
        if debug:
            traceback.print_exc()
        if _speaks():
            display.complain(str(error), interrupted=error.exit_code == 130)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader left, as `head` does: nothing to say, nobody to say it to
        sys.exit(141)
    except Exception as error:
        if debug:
            traceback.print_exc()
        display.complain(f"internal error: {type(error).__name__}: {error}\nrun again with --debug for the traceback")
        sys.exit(1)
