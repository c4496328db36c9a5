"""What would wait, or take more memory than there is, is refused before work begins."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ctrobust.errors import RunError
from ctrobust.regular_file import read_regular_file
from ctrobust.store import read_arrays
from tests.cli.command import Inside


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("train --config pipe", 3, "cannot read the spec file pipe: it is not a regular file"),
        ("train --config /dev/zero", 3, "cannot read the spec file /dev/zero: it is not a regular file"),
        ("train --config long.toml", 3, "it has 2,000,000 bytes, expected at most 1,048,576"),
        ("evaluate pipe", 5, "pipe is not a regular file: give a run directory or a weights file"),
        ("evaluate /dev/zero", 5, "/dev/zero is not a regular file"),
        ("evaluate sparse", 5, "expected at most 17,179,869,184"),
        ("fill pipe --results run", 2, "it is not a regular file"),
        ("data check npz:pipe", 4, "pipe is not a regular file; expected an .npz file"),
        ("evaluate run --attack pgd:eps=0.1,restarts=1000000000", 2, "restarts is at most 1,000, got 1000000000"),
        ("evaluate run --attack apgd:eps=0.1,loss=dlr,targets=99999", 2, "targets is at most 1,000, got 99999"),
        (f"evaluate run --attack pgd:eps=0.1,steps=1{30 * '0'}", 2, "steps is at most 1,000,000,000"),
        (f"evaluate run --chunk 1{30 * '0'}", 2, "less than or equal to 65536"),
        (f"evaluate run --limit 1{30 * '0'}", 2, "less than or equal to 1000000000"),
        (f"train --epochs 1{30 * '0'}", 3, "less than or equal to 1000000000"),
        (f"train --batch-size 1{30 * '0'}", 3, "less than or equal to 1000000000"),
        ("train --width 1000000", 2, "training needs 189,0"),
        (f"train --width 1{30 * '0'}", 2, "is larger than any memory"),
        (f"train --set lr={5000 * '9'}", 3, "lr = '999"),
        (f"train --set epochs={3000 * '['}", 3, "epochs = '[[["),
        *((f"{command} {300 * 'a'}", 5, "File name too long") for command in ("show", "evaluate", "verify", "report")),
    ],
)
@pytest.mark.usefixtures("run")
def test_bounds_are_said_before_work_begins(
    inside: Inside,
    tmp_path: Path,
    line: str,
    code: int,
    message: str,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.toml").write_bytes(b"#" * 2_000_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    done = inside(line)
    text = " ".join((done.out + done.err).replace("│", " ").split())
    assert done.code == code, text
    assert message in text
    assert not (tmp_path / "runs").exists()


def test_a_small_file_of_large_arrays_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    size, path = 2 << 30, tmp_path / "outcomes.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (size,)}
    )  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("labels.npy", "w") as entry:
        entry.write(header.getvalue())
    content = path.read_bytes()
    declared = (size + len(header.getvalue())).to_bytes(4, "little")
    entry_at = content.index(b"PK\1\2") + 24
    path.write_bytes(content[:entry_at] + declared + content[entry_at + 4 :])
    with pytest.raises(RunError, match=r"the arrays take 2,147,\d{3},\d{3} bytes, expected at most 1,073,741,824"):
        read_arrays(path)


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular_file(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes, expected at most 4"):
        read_regular_file(tmp_path / "file", 4)
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "absent", 4)
    with pytest.raises(IsADirectoryError):
        read_regular_file(tmp_path, 4)
