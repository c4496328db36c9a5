"""Damaged files are refused with their name and the exit code of their kind, whatever the damage: 100 cases of each.

`make torture` tries 2,000 of each.
"""

import random
import shutil
from pathlib import Path

import pytest

from tests.readers import READERS, make_run, try_case

CASES = 100


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    make_run(folder)
    return folder


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_read_or_refused(finished: Path, tmp_path: Path, kind: str) -> None:
    reader, chance = READERS[kind], random.Random(kind)
    folder = Path(shutil.copytree(finished, tmp_path / "work"))
    path = reader.prepare(folder)
    valid = path.read_bytes()
    reader.read(path)
    wrong = [found for _ in range(CASES) if (found := try_case(reader, path, valid, chance)) is not None]
    assert wrong == []
