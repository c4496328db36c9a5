"""Pickles, archives, pictures and other files that mean harm: refused, without running anything they hold."""

import gzip
import io
import os
import pickle
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from commands import Done, report, run_command
from ctrobust.data import PUBLISHED
from ctrobust.data.download import unpack
from ctrobust.errors import DataError

MEMORY = 1_500_000_000  # bytes; importing torch takes 0.4 GB of them


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path, bytes]]:
        return Path.write_bytes, (self.path, b"unpickled")


def run(seed: int) -> bool:
    parts = (_pickles, _archives, _arrays, _pictures, _devices)
    results = []
    for part in parts:
        with tempfile.TemporaryDirectory() as place:
            results.append(part(Path(place), random.Random(f"{seed} {part.__name__}")))
    return all(results)


def _refused(done: Done, codes: tuple[int, ...]) -> bool:
    return done.code in codes and "internal error" not in done.err and "Traceback" not in done.err


def _pickles(folder: Path, _: random.Random) -> bool:
    trace = folder / "trace"
    bomb = Bomb(trace)
    (folder / "raw.safetensors").write_bytes(pickle.dumps(bomb))
    torch.save({"weights": bomb}, folder / "saved.safetensors")
    torch.save({"weights": bomb}, folder / "old.safetensors", _use_new_zipfile_serialization=False)
    np.savez(folder / "data.npz", allow_pickle=True, images=np.array([bomb], object), labels=np.zeros(1, int))
    for version in (0, 2, 4):
        (folder / f"{version}.npz").write_bytes(pickle.dumps(bomb, protocol=version))
    (folder / "spec.toml").write_bytes(pickle.dumps(bomb, protocol=0))
    lines = [["evaluate", str(path)] for path in sorted(folder.glob("*.safetensors"))]
    lines += [["data", "check", f"npz:{path}"] for path in sorted(folder.glob("*.npz"))]
    lines.append(["train", "--config", str(folder / "spec.toml")])
    refused = [_refused(run_command(words), (3, 4, 5)) for words in lines]
    ran = trace.exists()
    text = f"{len(lines)} files, {sum(refused)} refused, {'SOME' if ran else 'none'} unpickled"
    return report("pickles", text, good=all(refused) and not ran)


def _member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 10, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size if kind == tarfile.REGTYPE else 0, link
    return member


def _archives(folder: Path, _: random.Random) -> bool:
    """Unpack archives whose members leave their folder, are links or devices, or are larger than they may be."""
    published = PUBLISHED["cifar10"]
    inside = published.folder
    hostile = [
        _member("../outside"), _member("/tmp/outside"), _member(f"{inside}/../../outside"),
        _member(f"{inside}/test_batch.bin", tarfile.SYMTYPE, link="/etc/passwd"),
        _member(f"{inside}/test_batch.bin", tarfile.LNKTYPE, link="../../outside"),
        _member(f"{inside}/test_batch.bin", tarfile.CHRTYPE), _member(f"{inside}/test_batch.bin", tarfile.FIFOTYPE),
        _member(f"{inside}/test_batch.bin", tarfile.DIRTYPE), _member(f"{inside}/test_batch.bin", size=40_000_000),
        _member("readme", size=2_000_000),
    ]  # fmt: skip
    refused, before = 0, set(Path("/tmp").glob("outside"))
    for number, member in enumerate(hostile):
        archive = folder / f"{number}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        target = folder / str(number) / inside
        target.mkdir(parents=True)
        try:
            unpack(archive, target, published)
        except DataError:
            refused += not list(target.iterdir())
    outside = set(Path("/tmp").glob("outside")) - before | set(folder.rglob("outside"))
    text = f"{len(hostile)} archives, {refused} refused, {len(outside)} files written outside"
    return report("archives", text, good=refused == len(hostile) and not outside)


def _bounded(words: list[str]) -> tuple[Done, int]:
    """Run a command; return its answer and the most memory that it had."""
    program = "import sys; from ctrobust.__main__ import main; sys.argv[0] = 'ctrobust'; main()"
    script = (
        "import resource, subprocess, sys\n"
        f"done = subprocess.run([sys.executable, '-c', {program!r}, *sys.argv[1:]], capture_output=True, text=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.returncode)\n"
        "sys.stderr.write(done.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=300)
    memory, code = map(int, done.stdout.split())
    return Done(code, "", done.stderr), memory * 1024


def _arrays(folder: Path, _: random.Random) -> bool:
    """Check compressed data of zeros that declare, and in part hold, gigabytes."""
    header = io.BytesIO()
    shape = (2_000_000, 28, 28, 20)  # 31 GB
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(folder / "declares.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", header.getvalue() + bytes(50_000_000))
        archive.writestr("labels.npy", header.getvalue())
    content = struct.pack(">BBBBIII", 0, 0, 8, 3, 60_000, 28, 28) + bytes(300_000_000)
    place = folder / PUBLISHED["mnist"].folder
    place.mkdir(exist_ok=True)
    for split in ("train", "test"):
        for name in PUBLISHED["mnist"].files[split]:
            (place / f"{name}.gz").write_bytes(gzip.compress(content, 1))
    lines = [
        ["data", "check", f"npz:{folder / 'declares.npz'}"],
        ["data", "check", "mnist", "--data-root", str(folder)],
    ]
    answers = [_bounded(words) for words in lines]
    right = [_refused(done, (4,)) and memory < MEMORY for done, memory in answers]
    most = max(memory for _, memory in answers) / 1e9
    return report(
        "zip and gzip bombs", f"{len(right)} files, {sum(right)} refused, at most {most:.1f} GB", good=all(right)
    )


def _pictures(folder: Path, _: random.Random) -> bool:
    """Read eight pictures of 9,400 x 9,400 pixels in small files, and refuse those that declare more."""
    for kind in ("a", "b"):
        (folder / "large" / kind).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (9400, 9400)).save(folder / "large" / kind / f"{number}.png", compress_level=9)
    size = max(file.stat().st_size for file in (folder / "large").rglob("*.png"))
    memory = _bounded(["data", "check", f"folder:{folder / 'large'}"])[1]
    good = report(
        "large pictures", f"8 of {size / 1e3:.0f} kB and 88 million pixels read, at most {memory / 1e9:.1f} GB",
        good=memory < MEMORY,
    )  # fmt: skip
    for kind in ("a", "b"):
        (folder / "bombs" / kind).mkdir(parents=True)
        header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0)
        chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
        content = b"".join(
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
            for name, body in chunks
        )
        (folder / "bombs" / kind / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    done, memory = _bounded(["data", "check", f"folder:{folder / 'bombs'}"])
    right = done.code == 4 and memory < MEMORY
    return report("picture bombs", f"2 of 3.6 billion pixels, refused with exit code {done.code}", good=right) and good


def _devices(folder: Path, _: random.Random) -> bool:
    """Name pipes and devices where files are expected."""
    os.mkfifo(folder / "pipe")
    lines = [
        [*words.split()]
        for place in (folder / "pipe", Path("/dev/zero"), Path("/dev/random"))
        for words in (f"train --config {place}", f"evaluate {place}", f"data check npz:{place}", f"show {place}")
    ]
    right = [_refused(run_command(words), (2, 3, 4, 5)) for words in lines]
    return report("pipes and devices", f"{len(right)} commands, {sum(right)} refused at once", good=all(right))
