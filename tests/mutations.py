"""Damaged files: bytes flipped, cut and repeated, and contents that parse but hold other types, names and sizes."""

import copy
import hashlib
import io
import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Mutation = Callable[[bytes, random.Random], bytes]
"""The content of a valid file and a source of chance -> the content of a damaged one."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 1e308, -1e308, 1e-320, float("nan"), float("inf"), "", "x",
    "0", "\x1b[2J", "../../etc/passwd", "\ud800", "a" * 5000, [], {}, [[]], [None], {"": {}}, [0] * 1000,
)  # fmt: skip
"""What a value of JSON is replaced by."""


def damage_bytes(content: bytes, chance: random.Random) -> bytes:
    """Flip, set, cut, repeat, insert or remove some bytes."""
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        at = chance.randrange(len(damaged) + 1)
        length = chance.choice((1, 2, 4, 8, 64, 1024))
        kind = chance.randrange(7)
        if kind == 0 and at < len(damaged):
            damaged[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            damaged[at : at + length] = chance.randbytes(len(damaged[at : at + length]))
        elif kind == 2:
            damaged[at : at + length] = bytes([chance.choice((0, 255))]) * len(damaged[at : at + length])
        elif kind == 3:
            del damaged[at : at + length]
        elif kind == 4:
            damaged[at:at] = damaged[at : at + length]
        elif kind == 5:
            damaged[at:at] = chance.randbytes(length)
        elif chance.randrange(4) == 0:
            del damaged[at:]
    return bytes(damaged)


def damage_text(content: bytes, chance: random.Random) -> bytes:
    """Replace a number by a huge one, nest brackets deeply, or insert what text should not hold."""
    text = content.decode()
    at = chance.randrange(len(text) + 1)
    inserted = chance.choice(
        ("[" * 100_000, "{" * 3000, '{"a":' * 3000, "9" * 5000, "1e999999", "\0", "\x1b[2J", "\r\n", "﻿", "//", "null")
    )
    if chance.randrange(3) == 0:
        return inserted.encode()
    digits = [place for place, char in enumerate(text) if char.isdigit()]
    if digits and chance.randrange(2):
        at = chance.choice(digits)
    return (text[:at] + inserted + text[at:]).encode()


def damage_json(content: bytes, chance: random.Random) -> bytes:
    """Replace, remove, add or nest values of a JSON document."""
    document = [json.loads(content)]
    for _ in range(chance.choice((1, 1, 2, 5))):
        holder, key = chance.choice(_places(document))
        kind = chance.randrange(6)
        if kind < 3:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
        elif kind == 3 and holder is not document:
            del holder[key]
        elif kind == 4:
            holder[key] = _nested(holder[key], chance.choice((1, 3, 150)))
        elif isinstance(holder, dict):
            holder[chance.choice(("", "extra", "__class__", "epoch", "a" * 3000))] = copy.deepcopy(
                chance.choice(VALUES)
            )
    return json.dumps(document[0]).encode()


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every value of a document, as what holds it and its key or index there."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((document, key))
        found += _places(document[key])
    return found


def damage_json_lines(content: bytes, chance: random.Random) -> bytes:
    """Damage one line of a file of JSON documents."""
    lines = content.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = chance.choice((damage_json, damage_text, damage_bytes))(lines[at], chance)
    return b"\n".join(lines) + b"\n"


def damage_arrays(content: bytes, chance: random.Random) -> bytes:
    """Replace, remove, add, reshape or retype arrays of an .npz file, whose checksums are right again."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(list(arrays))
        array = arrays[name]
        kind = chance.randrange(9)
        if kind == 0 and len(arrays) > 1:
            del arrays[name]
        elif kind == 1:
            arrays[chance.choice(("extra", "../up", "labels", "index"))] = array
        elif kind == 2:
            kinds = (">i8", ">f4", "<f2", "<c16", "<f16", "<U8", "S4", "?", "<u8", "<i1")
            arrays[name] = (
                np.zeros(array.shape, chance.choice(kinds))
                if array.dtype.kind == "U"
                else array.astype(chance.choice(kinds))
            )
        elif kind == 3:
            arrays[name] = array.reshape(-1, 1) if array.ndim == 1 else array.reshape(-1)
        elif kind == 4:
            arrays[name] = array[: chance.choice((0, 1, len(array) // 2))] if array.ndim else array
        elif kind == 5:
            arrays[name] = np.full_like(array, chance.choice((0, 1, 100)))
        elif kind == 6 and array.dtype.kind == "f":
            arrays[name] = np.full_like(array, chance.choice((np.nan, np.inf, -1.0)))
        elif kind == 7 and array.dtype.kind in "iu":
            arrays[name] = np.full_like(array, np.iinfo(array.dtype).max)
        else:
            arrays[name] = np.zeros((2, 3, 4), array.dtype)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def damage_header(content: bytes, chance: random.Random) -> bytes:
    """Damage the JSON header of a safetensors file, and give it the right length and checksum."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    entries = header.get("__metadata__", {})
    names = [name for name, text in entries.items() if text.startswith("{")]
    if names and chance.randrange(4):
        name = chance.choice(names)
        damage = chance.choice((damage_json, damage_json, damage_text))
        entries[name] = damage(entries[name].encode(), chance).decode(errors="replace")
        damaged = json.dumps(header).encode()
    else:
        damaged = damage_json(json.dumps(header).encode(), chance)
    return _with_checksum(struct.pack("<Q", len(damaged)) + damaged + content[8 + size :])


def _with_checksum(content: bytes) -> bytes:
    """Replace the checksum of a safetensors file of ours, if it still has one, by that of its content."""
    found = re.search(rb'sha256\\": \\"([0-9a-f]{64})', content)
    if found is None:
        return content
    before, after = content[: found.start(1)], content[found.end(1) :]
    return before + hashlib.sha256(before + b"0" * 64 + after).hexdigest().encode() + after
