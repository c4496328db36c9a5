"""Per-example arrays on disk."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store import read_arrays, write_arrays


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path, bytes]]:
        return Path.write_bytes, (self.path, b"unpickled")


def test_round_trip(tmp_path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "labels": np.arange(5),
        "probabilities": np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2),
        "unconfirmed": np.array([True, False, True, False, True]),
        "empty": np.zeros((0, 3)),
        "special": np.array([np.nan, np.inf, -0.0]),
    }
    path = tmp_path / "outcomes" / "pgd.npz"
    write_arrays(path, arrays)
    found = read_arrays(path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(tmp_path / "a.npz", {"a": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_objects_are_not_read(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.npz", tmp_path / "trace"
    np.savez(path, allow_pickle=True, a=np.array([Bomb(trace)], dtype=object))
    with pytest.raises(RunError, match=r"a\.npz is damaged: a is object .*Python objects are never read"):
        read_arrays(path)
    assert not trace.exists()


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.npz", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(RunError, match=r"a\.npz is damaged"):
        read_arrays(path)
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"", b"not a zip file"])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"a\.npz is damaged: .*; remove it to have it made again"):
        read_arrays(path)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_file_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.random.default_rng(0).random(1000)})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match=r"a\.npz is damaged: .*; remove it to have it made again"):
        read_arrays(path)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.random.default_rng(0).random(1000)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"a\.npz is damaged"):
        read_arrays(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No such file"):
        read_arrays(tmp_path / "a.npz")
