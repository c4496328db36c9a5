"""Messages and lines, with and without a terminal."""

import io

import pytest
from rich.console import Console

from ctrobust.cli import console


def test_an_error_is_plain_text_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("no [bold]file[/bold] " + "x" * 300)
    console.print_error("stopped", interrupted=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: no [bold]file[/bold] {'x' * 300}\ninterrupted: stopped\n"


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
