"""Messages and lines, with and without a terminal."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich import box
from rich.console import Console
from rich.table import Table

from ctrobust.cli import console
from ctrobust.cli.console import PrintableConsole
from ctrobust.cli.progress import attack_progress
from ctrobust.cli.tables import print_results
from tests.cli.command import Inside

HOSTILE = "cat\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egnp"
SHOWN = r"cat\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egnp"


def test_an_error_is_plain_text_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("no [bold]file[/bold] " + "x" * 300)
    console.print_error("stopped", interrupted=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: no [bold]file[/bold] {'x' * 300}\ninterrupted: stopped\n"


def test_the_name_of_a_factory_is_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("nets:two: wrong")
    console.print_line("nets:two: right")
    assert capsys.readouterr() == ("nets:two: right\n", "error: nets:two: wrong\n")


def test_on_a_terminal_an_error_wraps_between_words_and_a_command_in_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = io.StringIO()
    monkeypatch.setattr(console, "messages", Console(file=text, force_terminal=True, width=30, no_color=True))
    console.print_error(
        "stopped at step 11; the state is saved\nresume with:\n  ctrobust train --resume --out a-long-path"
    )
    assert text.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() == [
        "error: stopped at step 11; the",
        "state is saved",
        "resume with:",
        "  ctrobust train --resume --out a-long-path",
    ]


@pytest.mark.parametrize(
    ("filename", "shown"),
    [
        (console.__file__, "warning: odd [b]\n"),
        (str(console.PACKAGE / "attacks" / "pgd.py"), "warning: odd [b]\n"),
        ("/lib/other.py", "warning: odd [b] (UserWarning, /lib/other.py:7)\n"),
    ],
)
def test_a_warning_of_another_package_comes_with_its_place(
    capsys: pytest.CaptureFixture[str], filename: str, shown: str
) -> None:
    console.print_warning("odd [b]", UserWarning, filename, 7)
    assert capsys.readouterr() == ("", shown)


@pytest.mark.parametrize("width", range(20, 60))
def test_values_are_never_split_over_lines(width: int) -> None:
    text = "test accuracy 72.0% [68.1, 75.9] of 500; wrong categories below 0.1111: 2,754 of 3,195 [0.5, 0.75] end"
    lines = console.wrapped(text, width, "  ")
    assert " ".join(line.strip() for line in lines) == text
    for value in ("72.0% [68.1, 75.9]", "2,754 of 3,195", "[0.5, 0.75]"):
        assert sum(value in line for line in lines) == 1
    assert all(line.startswith("  ") for line in lines[1:])
    assert all(len(line) <= width for line in lines)


def test_without_a_terminal_a_paragraph_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_paragraph("word " * 100, "  ")
    assert capsys.readouterr().out == "word " * 100 + "\n"


@pytest.mark.parametrize(
    "write",
    [
        console.print_line,
        console.print_paragraph,
        console.print_error,
        lambda text: console.print_warning(text, UserWarning, "other.py", 1),
        lambda text: print_results(["name", "value"], [["x", text], [text, "y"]]),
    ],
)
def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str], write: Callable[[str], None]) -> None:
    write(HOSTILE)
    text = "".join(capsys.readouterr())
    assert SHOWN in text
    assert text.isprintable() or set(filter(lambda one: not one.isprintable(), text)) == {"\n"}


@pytest.mark.parametrize("markup", [True, False])
def test_a_message_that_was_not_escaped_before_is_escaped_or_stripped(
    capsys: pytest.CaptureFixture[str], markup: bool
) -> None:
    console.messages.print(HOSTILE, markup=markup)
    assert capsys.readouterr().err == SHOWN.replace(r"\x07", "").replace(r"\r", "") + "\n"  # rich strips these two


def test_a_terminal_gets_the_consoles_escape_sequences_and_no_others() -> None:
    text = io.StringIO()
    shown = PrintableConsole(file=text, force_terminal=True, width=120, color_system="standard")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(console.printable(HOSTILE))
    table.add_row(f"[bold red]{HOSTILE}[/]")
    shown.print(table)
    assert text.getvalue().count(r"cat\x1b]0;owned") == 2
    assert "\x1b[1;31mcat" in text.getvalue()
    assert "\x1b]" not in text.getvalue()


def test_the_progress_line_shows_names_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    shown = PrintableConsole(file=text, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("ctrobust.cli.progress.messages", shown)
    with attack_progress("evaluate", HOSTILE) as report:
        report(1, 2, HOSTILE)
    assert SHOWN in text.getvalue()
    assert "\x1b]" not in text.getvalue()


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    for name in (HOSTILE, "dog"):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for number in range(12):
            Image.new("L", (8, 8), number).save(folder / f"{HOSTILE}{number}.png")
    (tmp_path / "pictures" / HOSTILE / f"{HOSTILE}.png").write_bytes(b"no picture")
    np.savez(
        tmp_path / "few.npz", images=np.zeros((6, 4, 4), np.uint8), labels=[0, 1, 1, 1, 1, 1],
        classes=np.array([HOSTILE, "dog"]),
    )  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("data check", ["folder:pictures"]),
        ("data check", ["npz:few.npz"]),
        ("data check", [f"npz:{HOSTILE}"]),
        ("show", [HOSTILE]),
        ("evaluate", [HOSTILE]),
        ("train", [f"--{HOSTILE}"]),
        ("train", [f"--method={HOSTILE}"]),
        ("list", ["attacks", HOSTILE]),
        (HOSTILE.partition("\r")[0], []),
    ],
)
@pytest.mark.usefixtures("hostile_folder")
def test_no_command_passes_escape_sequences_on(inside: Inside, line: str, words: list[str]) -> None:
    done = inside(line, *words)
    text = done.out + done.err
    assert not set(text) & set("\x1b\x07\x9b\r\u202e")
    assert "\\x1b]0;owned" in text
