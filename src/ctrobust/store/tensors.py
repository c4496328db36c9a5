"""Tensors with a JSON note in one safetensors file: written atomically, read without unpickling anything."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from ctrobust.errors import RunError
from ctrobust.store.atomic import write_atomic

_NOTE = "ctrobust"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write named tensors and a note of plain values."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomic(path, safetensors.torch.save(plain, metadata={_NOTE: json.dumps(note)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the note of a file that `write_tensors` wrote."""
    try:
        content = path.read_bytes()  # not by safetensors, which refuses a path that is no UTF-8
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        metadata = header.get("__metadata__", {})
        if _NOTE not in metadata:
            raise RunError(f"{path} was not written by ctrobust: its header has no {_NOTE!r} note")
        note: dict[str, Any] = json.loads(metadata[_NOTE])
        if not isinstance(note, dict):
            raise ValueError(f"its note is {note!r}")
    except FileNotFoundError:
        raise RunError(f"no file {path}") from None
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, note
