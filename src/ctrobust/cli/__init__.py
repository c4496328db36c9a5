"""The command line: options in, rooms called, tables out. One file per command; no logic of its own.

Torch is imported inside the commands, so that --help and --version answer at once.
"""

import io
import re
import sys
import traceback
import warnings
from typing import Annotated

import typer

from ctrobust._version import __version__
from ctrobust.cli import data, demo, evaluate, listing, reproduce, show, train
from ctrobust.cli.console import OutputClosed, discard_output, print_error, print_warning
from ctrobust.cli.signals import INTERRUPTED, SignalInterrupt
from ctrobust.errors import CtrobustError, InputError

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal error; 2 wrong options or inputs; 3 wrong spec; 4 data missing or damaged; "
    "5 run directory cannot be read, written or resumed; 6 finished with failed jobs; "
    "130 interrupted, the state is saved."
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
app.command(epilog=demo.DEMO_EXAMPLE)(demo.demo)
app.command(epilog=train.TRAIN_EXAMPLE)(train.train)
app.command(epilog=evaluate.EVALUATE_EXAMPLE)(evaluate.evaluate)
app.command(epilog=show.SHOW_EXAMPLE)(show.show)
app.command(epilog=reproduce.REPRODUCE_EXAMPLE)(reproduce.reproduce)
app.add_typer(data.data_app, name="data")
app.command("list", epilog=listing.LIST_EXAMPLE)(listing.list_kind)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ctrobust {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train, attack and evaluate image classifiers that generalize and resist attack."""


def main() -> None:
    """Run a command. An error is one message and an exit code; --debug adds its traceback."""
    debug = "--debug" in sys.argv[1:]
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text that can be printed
    try:
        with warnings.catch_warnings():
            warnings.showwarning = print_warning
            app(_refuse_empty([word for word in sys.argv[1:] if word != "--debug"]))  # --debug may stand anywhere
    except (CtrobustError, SignalInterrupt) as error:
        if debug:
            traceback.print_exc()
        if _is_main_process():
            print_error(str(error), interrupted=error.exit_code == INTERRUPTED)
        sys.exit(error.exit_code)
    except (OutputClosed, BrokenPipeError):
        discard_output()
        sys.exit(OutputClosed.exit_code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        print_error(f"internal error: {type(error).__name__}: {error}\nrun again with --debug for the traceback")
        sys.exit(1)


def _refuse_empty(words: list[str]) -> list[str]:
    """Refuse an empty word: as a path it would mean the working directory."""
    for before, word in zip(["ctrobust", *words], words, strict=False):
        if not word or re.fullmatch("--[a-z-]+=", word):
            raise InputError(f"nothing is given for {before if not word else word[:-1]}; is a shell variable unset?")
    return words


def _is_main_process() -> bool:
    """Whether this process prints for its run: the others meet the same errors, or that the first one has gone."""
    training = sys.modules.get("ctrobust.training")
    return training is None or bool(training.is_main_process())
