"""The command line: options in, rooms called, tables out. One file per command; no logic of its own.

Torch is imported inside the commands, so that --help and --version answer at once.
"""

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ctrobust._version import __version__
from ctrobust.cli import compare, data, demo, evaluate, fill, listing, report, reproduce, show, sweep, train, verify
from ctrobust.cli.console import print_error, print_traceback, print_warning, printable
from ctrobust.cli.signals import INTERRUPTED, SignalInterrupt
from ctrobust.cli.streams import TolerantStream, tolerant_streams
from ctrobust.errors import CtrobustError, InputError, RunError

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal error, or standard output cannot be written; 2 wrong options or inputs; "
    "3 wrong spec; 4 data missing or damaged; 5 run directory cannot be read, written or resumed; "
    "6 verification failed, or finished with failed jobs; 130 interrupted, the state is saved."
)

STORING_COMMANDS = ("demo", "report", "reproduce", "sweep", "train")
"""Commands whose results are on disk: they have succeeded also where nobody reads what they print."""

READER_HAS_GONE = 141
"""The exit code of a command that the signal SIGPIPE ended, as shells report it."""

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _PrintableGroup(TyperGroup):
    """Escapes control characters in the messages about wrong options, which typer prints itself."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with _printable_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _printable_usage_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def _printable_usage_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        vars(error)["message"] = printable(vars(error)["message"])
        raise


app = typer.Typer(
    name="ctrobust",
    cls=_PrintableGroup,
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
app.command(epilog=compare.COMPARE_EXAMPLE)(compare.compare)
app.command(epilog=report.REPORT_EXAMPLE)(report.report)
app.command(epilog=reproduce.REPRODUCE_EXAMPLE)(reproduce.reproduce)
app.command(epilog=verify.VERIFY_EXAMPLE)(verify.verify)
app.command(epilog=sweep.SWEEP_EXAMPLE)(sweep.sweep)
app.command(epilog=fill.FILL_EXAMPLE)(fill.fill)
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
    with tolerant_streams() as output, warnings.catch_warnings():
        warnings.showwarning = print_warning
        words = [word for word in sys.argv[1:] if word != "--debug"]  # it may be anywhere
        code = _run(words, debug=words != sys.argv[1:])
        sys.exit(code if code or output is None else _finish(output, words))


def _run(words: list[str], *, debug: bool) -> int:
    """Run a command and return its exit code."""
    try:
        app(_refuse_empty(words))
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except (CtrobustError, SignalInterrupt) as error:
        if debug:
            print_traceback()
        if _is_main_process():
            print_error(str(error), interrupted=error.exit_code == INTERRUPTED)
        return error.exit_code
    except Exception as error:
        if debug:
            print_traceback()
        if _is_out_of_memory(error):
            print_error(f"there is not enough memory: {error}\nchoose a smaller batch size, --chunk or --width")
            return InputError.exit_code
        if isinstance(error, OSError) and error.filename is not None:  # such as a name too long
            print_error(f"cannot use {error.filename}: {error.strerror}")
            return RunError.exit_code
        print_error(f"internal error: {type(error).__name__}: {error}\nrun again with --debug for the traceback")
    return 1


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy, or torch on a CPU or a GPU could not allocate what was asked for."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "out of memory" in str(error))
    )


def _finish(output: TolerantStream, words: list[str]) -> int:
    """The exit code of a command that has done its work: what it printed may not have been written."""
    output.flush()
    if output.failure is None:
        return 0
    stored = words[0] in STORING_COMMANDS and "--json" not in words
    if not output.reader_has_gone:
        kept = "; the results are stored" if stored else ""
        print_error(f"cannot write to standard output: {output.failure.strerror}{kept}")
    return 0 if stored else READER_HAS_GONE if output.reader_has_gone else 1


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
