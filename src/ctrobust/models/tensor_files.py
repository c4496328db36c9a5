"""Tensors with JSON metadata in one safetensors file: written atomically, read without unpickling anything."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from ctrobust.errors import RunError
from ctrobust.store import write_atomic

_METADATA_KEY = "ctrobust"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write named tensors and metadata that JSON can hold."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomic(path, safetensors.torch.save(plain, metadata={_METADATA_KEY: json.dumps(metadata)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the metadata of a file that `write_tensors` wrote."""
    return parse_tensors(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Read a whole file; safetensors itself cannot open a path that is not valid UTF-8."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"no file {path}") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from None


def parse_tensors(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Parse the bytes of a file that `write_tensors` wrote; `path` is named in errors."""
    try:
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        entries = header.get("__metadata__", {})
        if _METADATA_KEY not in entries:
            raise RunError(f"{path} was not written by ctrobust: its header has no {_METADATA_KEY!r} metadata")
        metadata: dict[str, Any] = json.loads(entries[_METADATA_KEY])
        if not isinstance(metadata, dict):
            raise ValueError(f"its metadata is {metadata!r}")
    except (safetensors.SafetensorError, ValueError) as error:
        raise RunError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, metadata
