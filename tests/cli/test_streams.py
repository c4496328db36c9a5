"""Output that cannot be written: the work goes on, and the exit code says whether its results are somewhere."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctrobust.cli.streams import TolerantStream, tolerant_streams
from tests.cli.command import COMMAND, Inside

TRAIN = "train --limit 32 --epochs 2 --batch-size 16 --width 4 --threads 1 --out run"


def shell(line: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; `ctrobust` in it is the command."""
    script = line.replace("ctrobust", COMMAND)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_stream_that_fails_records_its_first_error_and_takes_what_follows() -> None:
    with open("/dev/full", "w") as full:
        stream = TolerantStream(full)
        assert stream.write("lost\n") == 5
        stream.flush()
        stream.write("lost too")
        stream.flush()
        assert stream.failure is not None
        assert stream.failure.errno == errno.ENOSPC
        assert not stream.reader_has_gone
        stream.detach()


def test_a_reader_that_has_gone_is_told_apart() -> None:
    with gone() as pipe:
        stream = TolerantStream(pipe)
        stream.write("lost")
        stream.flush()
        assert stream.reader_has_gone
        stream.detach()


def test_the_streams_are_restored(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with tolerant_streams():
        print("one \udcff")
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out == "one \\udcff\n"


def gone() -> io.TextIOWrapper:
    """A pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("full", [True, False])
def test_training_goes_on_without_its_output(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str, full: bool
) -> None:
    with open("/dev/full", "w") if full else gone() as broken:
        monkeypatch.setattr(sys, stream, broken)
        done = inside(TRAIN)
    assert done.code == 0, done.err
    assert (tmp_path / "run" / "record.json").exists()
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    said = "error: cannot write to standard output: No space left on device; the results are stored\n"
    assert done.err.endswith(said) is (full and stream == "stdout")


@pytest.mark.usefixtures("run")
def test_a_report_is_written_without_its_output(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        done = inside("report run -o page.html")
    assert done.code == 0, done.err
    assert (tmp_path / "page.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", "2> >(true)", ">/dev/full", ">&-", ">&- 2>&- <&-"])
def test_a_process_trains_without_its_descriptors(tmp_path: Path, environment: dict[str, str], redirected: str) -> None:
    done = shell(f"ctrobust {TRAIN} {redirected}", tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "record.json").exists()
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or b"epoch 1, loss" not in file.read_bytes()


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("ctrobust list experiments | true", 141, ""),
        ("ctrobust --version | true", 141, ""),
        ("ctrobust --version > /dev/full", 1, "error: cannot write to standard output: No space left on device\n"),
        ("ctrobust train --config absent.toml 2>/dev/full", 3, ""),
        ("ctrobust train --epocs 3 2>/dev/full", 2, ""),
        ("ctrobust --version >&- 2>&- <&-", 0, ""),
    ],
)
def test_the_exit_code_of_lost_output(
    tmp_path: Path, environment: dict[str, str], line: str, code: int, err: str
) -> None:
    done = shell(line, tmp_path, environment)
    assert (done.returncode, done.stderr) == (code, err)
