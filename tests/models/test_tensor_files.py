"""Tensors on disk, without pickle."""

import errno
import json
import os
import pickle
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from ctrobust.errors import RunError
from ctrobust.models import tensor_files
from ctrobust.models.tensor_files import DamagedFileError, has_checksum, parse_tensors, read_tensors, write_tensors

METADATA = {"epoch": 3, "names": ["a", "ü"], "loss": 0.1, "nothing": None}


class Bomb:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path, bytes]]:
        return Path.write_bytes, (self.path, b"unpickled")


def test_round_trip(tmp_path: Path) -> None:
    weight = torch.randn(4, 3, 5, 5)
    shared = torch.randn(6)
    tensors = {
        "plain": weight,
        "channels_last": weight.to(memory_format=torch.channels_last),
        "transposed": torch.randn(3, 2).T,
        "slice": torch.randn(10)[::3],
        "scalar": torch.tensor(7),
        "half": torch.randn(3).half(),
        "bool": torch.tensor([True, False]),
        "parameter": torch.nn.Parameter(torch.randn(2)),
        "view": shared[:3],
        "shared": shared,
        "special": torch.tensor([float("nan"), float("inf"), -0.0]),
    }
    write_tensors(tmp_path / "deep" / "w.safetensors", tensors, METADATA)
    found, metadata = read_tensors(tmp_path / "deep" / "w.safetensors")
    assert metadata == METADATA
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(found[name], tensor.detach(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux only")
def test_a_path_that_is_not_valid_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/w.safetensors"))
    write_tensors(path, {"w": torch.arange(3), "empty": torch.zeros(0, 2)}, METADATA)
    found, metadata = read_tensors(path)
    assert found["w"].tolist() == [0, 1, 2]
    assert found["empty"].shape == (0, 2)
    assert metadata == METADATA


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"w": torch.arange(3.0), "empty": torch.zeros(0)}, {"epoch": 3})
    content, refused = path.read_bytes(), 0
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedFileError, match=r"w\.safetensors (is not a whole|was not written by)"):
            parse_tensors(bytes(changed), path)
        refused += 1
    assert refused > 2000


def test_a_file_of_an_earlier_version_has_no_checksum_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.arange(3)}, path, {"ctrobust": json.dumps(METADATA)})
    found, metadata = read_tensors(path)
    assert (found["w"].tolist(), metadata) == ([0, 1, 2], METADATA)
    assert not has_checksum(path.read_bytes())
    write_tensors(path, found, metadata)
    assert has_checksum(path.read_bytes())


def test_an_unreadable_disk_is_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_path: Path, _most: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(tensor_files, "read_regular_file", failing)
    with pytest.raises(DamagedFileError, match=r"cannot read .*: Input/output error"):
        read_tensors(tmp_path / "w")


def test_the_memory_format_does_not_change_the_bytes(tmp_path: Path) -> None:
    weight = torch.randn(4, 3, 5, 5)
    write_tensors(tmp_path / "a", {"w": weight}, {})
    write_tensors(tmp_path / "b", {"w": weight.to(memory_format=torch.channels_last)}, {})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no file .*w\.safetensors"):
        read_tensors(tmp_path / "w.safetensors")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"w": torch.randn(1000)}, METADATA)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match=r"w\.safetensors is not a whole safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 60, b'{"kind":"TrainSpec","schema":1}\n']
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"w\.safetensors is not a whole safetensors file"):
        read_tensors(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot read .*: Is a directory"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"ctrobust": "null"}])
def test_a_safetensors_file_of_another_program_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.randn(3)}, path, metadata)
    with pytest.raises(RunError, match=r"was not written by ctrobust: its header has no 'ctrobust' metadata"):
        read_tensors(path)


@pytest.mark.parametrize("text", ["{", "3", "[]", '{"metadata": 3}', '{"sha256": "", "metadata": {}}', "[" * 100_000])
def test_metadata_that_is_not_an_object_in_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.randn(3)}, path, {"ctrobust": text})
    with pytest.raises(RunError, match="is not a whole safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize("how", ["pickle", "torch", "torch-legacy"])
def test_nothing_is_ever_unpickled(tmp_path: Path, how: str) -> None:
    path, trace = tmp_path / "w.safetensors", tmp_path / "trace"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Bomb(trace)))
    else:
        torch.save({"w": Bomb(trace)}, path, _use_new_zipfile_serialization=how == "torch")
    with pytest.raises(RunError, match=r"w\.safetensors is not a whole safetensors file"):
        read_tensors(path)
    assert not trace.exists()
