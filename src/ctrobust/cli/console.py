"""Standard output for results, standard error for messages: plain text wherever there is no terminal."""

import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape

PACKAGE = Path(__file__).parents[1]
UNBROKEN = re.compile(r"\S+% \[[^\]]*\]|\[[\d., ]+\]|[\d,]+ of [\d,]+")
"""Values that are never split over lines: a share with its interval, a list of numbers, a number of a number."""
PLAIN_WIDTH = 1000
"""Width of a pipe or file, which get lines as long as they need to be."""

messages = Console(stderr=True, highlight=False)


class OutputClosed(BaseException):
    """The reader of standard output has gone, as in `ctrobust list attacks | head -1`."""

    exit_code = 141


class OutputConsole(Console):
    """A console that reports a closed pipe by OutputClosed instead of by exit code 1."""

    def on_broken_pipe(self) -> None:
        discard_output()
        raise OutputClosed


def discard_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python does not complain when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output() -> OutputConsole:
    """Open standard output as a console."""
    console = OutputConsole(highlight=False)
    return console if console.is_terminal else OutputConsole(highlight=False, width=PLAIN_WIDTH)


def print_line(line: str) -> None:
    """Print a line as it is: the terminal may wrap it, and a command in it can be copied as one line."""
    output().print(line, markup=False, soft_wrap=True)


def print_paragraph(text: str, indent: str = "") -> None:
    """Print a text wrapped between words at the terminal's width, all lines but the first indented."""
    console = output()
    width = console.width if console.is_terminal else None
    console.print("\n".join(wrapped(text, width, indent)), markup=False, soft_wrap=True)


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Wrap a text between words, but not inside a value. Without a width the text stays one line.

    Example:
        >>> wrapped("accuracy 72.0% [68.1, 75.9] of 500", 27, "  ")
        ['accuracy 72.0% [68.1, 75.9]', '  of 500']
    """
    if width is None:
        return [text]
    unbroken = UNBROKEN.sub(lambda value: value[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        unbroken, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def print_error(message: str, *, interrupted: bool = False) -> None:
    """Print an error, its first word in red where there is colour. Indented lines are kept whole, to be copied."""
    _print_message(f"{'interrupted' if interrupted else 'error'}: {message}", "bold red")


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a Python warning as one sentence; a warning of another package comes with its category and place."""
    del file, line
    where = "" if PACKAGE in Path(filename).parents else f" ({category.__name__}, {filename}:{lineno})"
    _print_message(f"warning: {message}{where}", "yellow")


def _print_message(message: str, style: str) -> None:
    width = messages.width if messages.is_terminal else None
    lines = [
        part
        for line in message.splitlines()
        for part in ([line] if line.startswith("  ") else wrapped(line, width))
    ]  # fmt: skip
    kind, _, rest = "\n".join(lines).partition(":")
    messages.print(f"[{style}]{kind}:[/]{escape(rest)}", soft_wrap=True)


@contextlib.contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show a spinner while something loads, on a terminal only."""
    with messages.status(text) if messages.is_terminal else contextlib.nullcontext():
        yield
