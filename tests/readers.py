"""Every reader of files, with a valid file of its kind and the ways to damage it.

A reader returns a value or raises the error of its kind, with the name of the file in the message.
"""

import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import json
import random
import shutil
import struct
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from ctrobust import data, specs
from ctrobust.attacks import parse
from ctrobust.data.cifar import read_cifar
from ctrobust.data.download import unpack
from ctrobust.data.idx import read_idx
from ctrobust.data.npz import load_npz
from ctrobust.errors import CtrobustError, SpecError
from ctrobust.evaluation import Evaluator, stage_batches
from ctrobust.execution import curves_stored, evaluate_stored, evaluation_data, verdict_stored
from ctrobust.execution.partial_outcomes import PartialOutcomes
from ctrobust.models import WeightsFile
from ctrobust.models.user_model import read_state_dict
from ctrobust.outcomes import assess_masking
from ctrobust.reporting.scatter_chart import scatter_rows
from ctrobust.store import RunDirectory, StoredCurve, StoredEvaluation, read_embedding, write_arrays
from ctrobust.store.record_checksum import add_checksum
from ctrobust.store.store import stored_hash
from ctrobust.store.verdict_files import read_verdict
from ctrobust.training import Devices, train
from ctrobust.training.run_lock import resume_from_checkpoint
from ctrobust.training.training_state import TrainingState
from tests.mutations import (
    Mutation,
    damage_arrays,
    damage_bytes,
    damage_header,
    damage_json,
    damage_json_lines,
    damage_text,
)

SQUARE = "square:eps=0.05,queries=60"
SPEC = {"data": "digits", "limit": 32, "epochs": 2, "batch_size": 16, "model": {"width": 2}}


@dataclass(frozen=True)
class Reader:
    """One kind of file.

    Attributes:
        exit_code: of the error that a damaged file raises.
        prepare: makes a valid file in a folder that holds a finished run `run`, and returns its path.
        read: reads the file and uses what it holds.
        mutations: the ways to damage it.
        repair: makes checksums beside the damaged file right again, as somebody who means harm would.
    """

    exit_code: int
    prepare: Callable[[Path], Path]
    read: Callable[[Path], object]
    mutations: tuple[Mutation, ...]
    repair: Callable[[Path], None] = lambda _: None


def make_run(folder: Path) -> None:
    """Train a small network and attack it; `run/checkpoint` is as in the middle of the training."""
    run = RunDirectory(folder / "run")
    train(specs.train_spec(SPEC), run)
    weights = WeightsFile.read(run.path)
    examples = evaluation_data(weights, None, None)
    list(evaluate_stored(weights, examples, [parse("pgd:eps=0.1,steps=2")], limit=12, chunk=8))


def try_case(reader: Reader, path: Path, valid: bytes, chance: random.Random) -> str | None:
    """Damage the file and read it; return what is wrong with the reader's answer, if anything is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_bytes(chance.choice(reader.mutations)(valid, chance))
            reader.repair(path)
            reader.read(path)
    except CtrobustError as error:
        if error.exit_code != reader.exit_code:
            return f"exit code {error.exit_code}, {reader.exit_code} expected: {error}"
        # The arrays and the record of an evaluation have one stem, and either may be what does not fit the other.
        return None if path.stem in str(error) else f"the message does not name {path.name}: {error}"
    except Exception as error:  # whatever a reader lets through is what this looks for
        return f"{type(error).__name__}: {error}"
    return None


def _run_file(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / "run" / name


def _outcomes(folder: Path) -> Path:
    return next((folder / "run" / "outcomes").glob("pgd*.npz"))


def _read_outcomes(path: Path) -> None:
    stored = StoredEvaluation.read(path.with_suffix(".npz"))
    stored.evaluation.summary()


def _curve(folder: Path) -> Path:
    run = folder / "run"
    (row,) = curves_stored(WeightsFile.read(run), _examples(), [parse("fgsm:eps=0.2")], [0.1, 0.2], limit=12)
    assert row.file is not None
    return row.file


def _read_curve(path: Path) -> None:
    StoredCurve.read(path.with_suffix(".npz")).curve.summary()


def _verdict(folder: Path) -> Path:
    run = folder / "run"
    row = verdict_stored(WeightsFile.read(run), _examples(), eps=0.1, limit=12, tests=["zero gradients"])
    assert row.file is not None
    return row.file


def _read_verdict(path: Path) -> None:
    record = read_verdict(path)
    assess_masking(record.read_measurements(), record.verdict.setting)


def _repair_outcomes(path: Path) -> None:
    record = json.loads(path.with_suffix(".json").read_bytes())
    record.pop("sha256", None)
    record["arrays_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(add_checksum(json.dumps(record)))


def _repair_record(path: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        record = json.loads(path.read_bytes())
        if isinstance(record, dict) and record.pop("sha256", None):
            path.write_text(add_checksum(json.dumps(record)))


class _Interrupt(Exception):  # noqa: N818 - no error
    pass


def _interrupted(folder: Path, attack: str, suffix: str) -> Path:
    """Stop an evaluation when a file of its progress is there, and return that file."""

    def stop(_done: float, _total: float, _stage: str) -> None:
        if any((folder / "run" / "outcomes").glob(f"*{suffix}")):
            raise _Interrupt

    usual = stage_batches.RESUME_STATE_SECONDS
    stage_batches.RESUME_STATE_SECONDS = 0.0
    with contextlib.suppress(_Interrupt):
        _evaluate(folder / "run", attack, stop)
    stage_batches.RESUME_STATE_SECONDS = usual
    return next((folder / "run" / "outcomes").glob(f"*{suffix}"))


def _evaluate(run: Path, attack: str, progress: Callable[[float, float, str], None] | None = None) -> None:
    parsed = parse(attack)
    evaluator = Evaluator(_model(run), _examples(), [parsed], limit=6, chunk=3, fuse=False, progress=progress)
    evaluator.run(parsed, PartialOutcomes(run / "outcomes" / "attack.npz"))


@functools.cache
def _model(run: Path) -> torch.nn.Module:
    return WeightsFile.read(run).build()


@functools.cache
def _examples() -> data.Dataset:
    return data.load("digits", "test")


def _damage_entry(content: bytes, chance: random.Random) -> bytes:
    """Damage the arrays of a journal's entry and make its frame right again."""
    size = int.from_bytes(content[:8], "little")
    entry = chance.choice((damage_arrays, damage_arrays, damage_bytes))(content[40 : 40 + size], chance)
    return len(entry).to_bytes(8, "little") + hashlib.sha256(entry).digest() + entry + content[40 + size :]


def _metrics(path: Path) -> None:
    run = RunDirectory(path.parent)
    for line in run.read_metrics():
        float(line.get("loss", 0.0))
    run.truncate_metrics(last_epoch=1)


def _read_checkpoint(path: Path) -> None:
    run = RunDirectory(path.parents[1])
    spec = specs.train_spec(SPEC)
    images = torch.zeros(32, 1, 28, 28, dtype=torch.uint8)
    labels = torch.arange(32) % 10
    train_set = data.Dataset("digits", "train", images, labels, tuple("0123456789"), (0.0,), (1.0,), verified=True)
    state = TrainingState.begin(spec, train_set, Devices().fabric(spec))
    resume_from_checkpoint(state, run)
    progress = state.progress
    sum(progress.seconds)
    state.rate(progress.step)
    data.epoch_batches(state.order(), spec.batch_size)
    json.dumps(dataclasses.asdict(progress))


def _read_weights(path: Path) -> None:
    weights = WeightsFile.read(path)
    with torch.no_grad():
        weights.build()(torch.zeros(2, weights.metadata["in_channels"], 28, 28))


def _embedding(folder: Path) -> Path:
    path = folder / "run" / "artifacts" / "tsne.npz"
    logits = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    write_arrays(path, {"logits": logits, "labels": np.arange(6) % 3, "points": logits[:, :2]})
    return path


def _read_embedding(path: Path) -> None:
    found, names = read_embedding(path), ("cat", "dog", "frog")
    rows = scatter_rows(read_embedding(path, len(names)), names)
    assert len(rows) == len(found.labels)


def _state_dict(folder: Path, *, pickled: bool) -> Path:
    path = folder / ("network.pt" if pickled else "network.safetensors")
    tensors = {"weight": torch.ones(3, 4), "bias": torch.zeros(3)}
    torch.save(tensors, path) if pickled else save_file(tensors, path)
    return path


def _read_spec(path: Path) -> None:
    run = RunDirectory(path.parent)
    stored_hash(run)  # the store passes damaged runs over
    run.read_spec()


def _toml(folder: Path) -> Path:
    path = folder / "run.toml"
    path.write_text(
        'data = "digits"\nepochs = 3\nlr = 0.1\n[model]\nwidth = 8\n[recipe]\nname = "fast"\neps = "8/255"\n'
    )
    return path


def _read_toml(path: Path) -> None:
    fields = specs.read_toml(path)
    try:
        specs.train_spec(fields)
    except SpecError as error:  # about fields, which may also come from options
        raise SpecError(f"{path}: {error}") from None


def _npz(folder: Path) -> Path:
    np.savez(
        folder / "few.npz", images=np.zeros((6, 8, 8), np.uint8), labels=np.arange(6) % 2, classes=np.array(["a", "b"])
    )
    return folder / "few.npz"


def _idx(folder: Path, *, zipped: bool) -> Path:
    content = struct.pack(">BBBBIII", 0, 0, 8, 3, 4, 5, 6) + bytes(120)
    path = folder / ("images-idx3-ubyte.gz" if zipped else "images-idx3-ubyte")
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def _cifar(folder: Path) -> Path:
    (folder / "test_batch.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in range(3)))
    return folder / "test_batch.bin"


def _picture(folder: Path, form: str) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    path = folder / "pictures" / "cat" / f"one.{form}"
    for kind in ("cat", "dog"):
        (folder / "pictures" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[:10, :10]).save(folder / "pictures" / kind / "small.png")
    Image.fromarray(pixels).save(path)
    return path


ARCHIVED = dataclasses.replace(data.PUBLISHED["cifar10"], members={"test_batch.bin": 100, "batches.meta.txt": 100})


def _archive(folder: Path) -> Path:
    path = folder / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ARCHIVED.members:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = 100
            archive.addfile(member, io.BytesIO(bytes(100)))
    return path


def _damage_archive(content: bytes, chance: random.Random) -> bytes:
    return gzip.compress(damage_bytes(gzip.decompress(content), chance), 1)


def _unpack(path: Path) -> None:
    target = path.parent / "unpacked" / "cifar-10-batches-bin"
    shutil.rmtree(target.parent, ignore_errors=True)
    target.mkdir(parents=True)
    unpack(path, target, ARCHIVED)
    assert {file.name for file in target.parent.rglob("*") if file.is_file()} == set(ARCHIVED.members)


READERS: dict[str, Reader] = {
    "outcomes": Reader(5, _outcomes, _read_outcomes, (damage_bytes, damage_arrays), _repair_outcomes),
    "record of outcomes": Reader(
        5, lambda folder: _outcomes(folder).with_suffix(".json"), _read_outcomes,
        (damage_bytes, damage_json, damage_text), _repair_record,
    ),
    "partial outcomes": Reader(
        5, lambda folder: _interrupted(folder, "fgsm:eps=0.1", ".partial"),
        lambda path: _evaluate(path.parents[1], "fgsm:eps=0.1"), (damage_bytes, _damage_entry, _damage_entry),
    ),
    "resume state": Reader(
        5, lambda folder: _interrupted(folder, SQUARE, ".resume"), lambda path: _evaluate(path.parents[1], SQUARE),
        (damage_bytes, damage_arrays, damage_arrays),
    ),
    "curve": Reader(5, _curve, _read_curve, (damage_bytes, damage_arrays), _repair_outcomes),
    "record of a curve": Reader(
        5, lambda folder: _curve(folder).with_suffix(".json"), _read_curve, (damage_bytes, damage_json, damage_text),
        _repair_record,
    ),
    "verdict": Reader(5, _verdict, _read_verdict, (damage_bytes, damage_json, damage_text), _repair_record),
    "metrics": Reader(5, _run_file("metrics.jsonl"), _metrics, (damage_bytes, damage_json_lines, damage_text)),
    "record": Reader(
        5, _run_file("record.json"), lambda path: RunDirectory(path.parent).read_record(),
        (damage_bytes, damage_json, damage_text), _repair_record,
    ),
    "spec": Reader(
        5, _run_file("spec.json"), _read_spec, (damage_bytes, damage_json, damage_text),
    ),
    "embedding": Reader(5, _embedding, _read_embedding, (damage_bytes, damage_arrays)),
    "checkpoint": Reader(
        5, _run_file("checkpoint/last.safetensors"), _read_checkpoint, (damage_bytes, damage_header, damage_header)
    ),
    "weights": Reader(5, _run_file("model.safetensors"), _read_weights, (damage_bytes, damage_header, damage_header)),
    "state dict, pickled": Reader(
        5, lambda folder: _state_dict(folder, pickled=True), read_state_dict, (damage_bytes,)
    ),
    "state dict, safetensors": Reader(
        5, lambda folder: _state_dict(folder, pickled=False), read_state_dict, (damage_bytes, damage_header)
    ),
    "spec file": Reader(3, _toml, _read_toml, (damage_bytes, damage_text, damage_text)),
    "npz data": Reader(4, _npz, lambda path: load_npz(f"npz:{path}", "train"), (damage_bytes, damage_arrays)),
    "IDX": Reader(4, lambda folder: _idx(folder, zipped=False), read_idx, (damage_bytes,)),
    "IDX, compressed": Reader(4, lambda folder: _idx(folder, zipped=True), read_idx, (damage_bytes,)),
    "CIFAR": Reader(4, _cifar, lambda path: read_cifar([path], (10,)), (damage_bytes,)),
    **{
        f"picture, {form}": Reader(
            4, lambda folder, form=form: _picture(folder, form),  # type: ignore[misc]
            lambda path: data.load(f"folder:{path.parents[1]}?size=8"), (damage_bytes,),
        )
        for form in ("png", "jpg", "webp")
    },
    "archive": Reader(4, _archive, _unpack, (damage_bytes, _damage_archive, _damage_archive)),
}  # fmt: skip
"""Kind of file -> its reader."""
