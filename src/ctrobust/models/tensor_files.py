"""Tensors with JSON metadata in one safetensors file: written atomically, checked and read without unpickling anything.

The header has the metadata and the SHA-256 of the whole file, in which that checksum itself counts as zeros. Files of
earlier versions have the metadata alone.
"""

import errno
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from ctrobust.errors import RunError
from ctrobust.regular_file import read_regular_file
from ctrobust.store import write_atomic

MOST_TENSOR_BYTES = 16 << 30
_METADATA_KEY = "ctrobust"
_ZEROS = b"0" * 64


class DamagedFileError(RunError):
    """A file is there, but it is not what was written."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write named tensors and metadata that JSON can hold, with a checksum."""
    write_atomic(path, pack_tensors(tensors, metadata))


def pack_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> bytes:
    """The bytes of the file that `write_tensors` writes."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    entry = json.dumps({"sha256": _ZEROS.decode(), "metadata": metadata})
    content = safetensors.torch.save(plain, metadata={_METADATA_KEY: entry})
    digest = hashlib.sha256(content).hexdigest()
    place = content.index(_ZEROS)
    return b"".join((memoryview(content)[:place], digest.encode(), memoryview(content)[place + len(_ZEROS) :]))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the metadata of a file that `write_tensors` wrote."""
    return parse_tensors(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Read a whole file; safetensors itself cannot open a path that is not valid UTF-8."""
    try:
        return read_regular_file(path, MOST_TENSOR_BYTES)
    except FileNotFoundError:
        raise RunError(f"no file {path}") from None
    except OSError as error:
        kind = DamagedFileError if error.errno == errno.EIO else RunError
        raise kind(f"cannot read {path}: {error.strerror or error}") from None


def parse_tensors(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Parse the bytes of a file that `write_tensors` wrote, and verify their checksum; `path` is named in errors."""
    try:
        tensors = safetensors.torch.load(content)
        metadata = _metadata(content)
        if metadata is None:
            raise DamagedFileError(f"{path} was not written by ctrobust: its header has no {_METADATA_KEY!r} metadata")
        if isinstance(metadata, dict) and metadata.keys() & {"sha256", "metadata"}:
            _verify(content, metadata)
            metadata = metadata["metadata"]
        if not isinstance(metadata, dict):
            raise ValueError(f"its metadata is {metadata!r}")
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, metadata


def has_checksum(content: bytes) -> bool:
    """Whether a file that `parse_tensors` reads has a checksum; files of earlier versions have none."""
    return "sha256" in (_metadata(content) or {})


def _metadata(content: bytes) -> Any:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    entry = header.get("__metadata__", {}).get(_METADATA_KEY)
    return None if entry is None else json.loads(entry)


def _verify(content: bytes, metadata: Mapping[str, Any]) -> None:
    """Compare the checksum that is written in a file with that of its content."""
    if metadata.keys() != {"sha256", "metadata"}:
        raise ValueError(f"its metadata have the keys {', '.join(metadata)}")
    written = str(metadata["sha256"]).encode()
    place = content.find(written)
    digest = hashlib.sha256(memoryview(content)[:place])
    digest.update(_ZEROS)
    digest.update(memoryview(content)[place + len(written) :])
    if digest.hexdigest().encode() != written:
        raise ValueError("its checksum is not that of its content, so some of its bytes have changed")
