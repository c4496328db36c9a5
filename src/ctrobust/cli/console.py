"""Standard output for results, standard error for messages: plain text wherever there is no terminal.

All that the command line prints passes through a PrintableConsole, which escapes control characters.
"""

import contextlib
import re
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

PACKAGE = Path(__file__).parents[1]
UNBROKEN = re.compile(r"\S+% \[[^\]]*\]|\[[\d., ]+\]|[\d,]+ of [\d,]+")
"""Values that are never split over lines: a share with its interval, a list of numbers, a number of a number."""
PLAIN_WIDTH = 1000
"""Width of a pipe or file, which get lines as long as they need to be."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that change what a terminal shows elsewhere, and surrogates, which are no text."""


def printable(text: str) -> str:
    r"""Escape control characters, such as those of a terminal's escape sequences; tabs and new lines stay.

    Example:
        >>> print(printable("cat\x1b]0;title\x07"))
        cat\x1b]0;title\x07
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PrintableConsole(Console):
    """A console on which names from files cannot move the cursor: only its own styles are escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render to segments whose text is printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


messages = PrintableConsole(stderr=True, highlight=False, emoji=False)


def output() -> PrintableConsole:
    """Open standard output as a console."""
    console = PrintableConsole(highlight=False, emoji=False)
    return console if console.is_terminal else PrintableConsole(highlight=False, emoji=False, width=PLAIN_WIDTH)


def print_line(line: str) -> None:
    """Print a line as it is: the terminal may wrap it, and a command in it can be copied as one line."""
    output().print(printable(line), markup=False, soft_wrap=True)


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
    text = printable(text)
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
        for line in printable(message).split("\n")
        for part in ([line] if line.startswith("  ") else wrapped(line, width))
    ]  # fmt: skip
    kind, _, rest = "\n".join(lines).partition(":")
    messages.print(f"[{style}]{kind}:[/]{escape(rest)}", soft_wrap=True)


def print_traceback() -> None:
    """Print the traceback of the error that is being handled."""
    messages.print(traceback.format_exc().rstrip("\n"), markup=False, soft_wrap=True)


@contextlib.contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show a spinner while something loads, on a terminal only."""
    with messages.status(text) if messages.is_terminal else contextlib.nullcontext():
        yield
