"""Tests see no data set of the machine they run on, and write their own."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ctrobust.data import locate
from ctrobust.data.idx import idx_header

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The four places of the look-up, none of them made yet; `$CTROBUST_DATA` is not set."""
    cache = tmp_path / "cache"
    monkeypatch.delenv("CTROBUST_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(cache / name))
    monkeypatch.setattr(locate, "SYSTEM_ROOT", tmp_path / "system")
    return {
        "root": tmp_path / "root",
        "environment": tmp_path / "environment",
        "cache": cache / "ctrobust",
        "system": tmp_path / "system",
    }


@pytest.fixture
def write_split() -> Write:
    """Writes a small split in MNIST's format; image i is filled with i."""

    def write(folder: Path, prefix: str = "train", count: int = 20, *, labels: object = None, gz: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        images = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None], (count, 28, 28))
        chosen = np.arange(count, dtype=np.uint8) % 10 if labels is None else np.asarray(labels, dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", chosen)):
            content = idx_header(array.shape) + array.tobytes()
            name = f"{prefix}-{kind}-ubyte"
            (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(content) if gz else content)

    return write
