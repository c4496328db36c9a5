"""Trained networks on disk."""

import hashlib
import json
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

import ctrobust
from ctrobust import data
from ctrobust.errors import RunError
from ctrobust.models import Classifier, build_from_spec, load, save_weights, weights_path
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.specs import ModelSpec, TrainSpec, spec_hash
from ctrobust.store import RunDirectory
from tests.store.test_run_directory import record

SPEC = ModelSpec(width=8, noise="dropconnect", drop=0.25)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_weights(path, network(), SPEC, in_channels=1, classes="0123456789", data="digits")
    return path


def network() -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_from_spec(SPEC, 1, 10, (0.3,), (0.2,))


def test_the_loaded_network_gives_the_same_bits_in_eval_mode(file: Path) -> None:
    x = data.to_float(data.load("digits", "test").images[:50])
    model = load(file)
    assert {module.training for module in model.modules()} == {False}
    assert torch.equal(model(x), network().eval()(x))
    assert str(model) == str(network())


def test_the_packages_load_accepts_a_string(file: Path) -> None:
    tensors = load(file).state_dict()
    again = ctrobust.load(str(file)).state_dict()
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    assert tensors["normalize.mean"].item() == pytest.approx(0.3)


def test_the_metadata_describes_the_network(file: Path) -> None:
    assert read_tensors(file)[1] == {
        "model": {"name": "mnistnet", "width": 8, "noise": "dropconnect", "drop": 0.25, "maps": "none"},
        "in_channels": 1,
        "num_classes": 10,
        "classes": list("0123456789"),
        "data": "digits",
    }


def test_the_constants_of_map_regularizers_are_stored_if_they_are_given(tmp_path: Path) -> None:
    spec = ModelSpec(width=8, maps="disout", maps_block=2, maps_alpha=1.5)
    path = tmp_path / "model.safetensors"
    save_weights(path, build_from_spec(spec, 1, 10), spec, in_channels=1, classes="0123456789", data="digits")
    stored = read_tensors(path)[1]["model"]
    assert {key: value for key, value in stored.items() if key.startswith("maps_")} == {
        "maps_block": 2, "maps_alpha": 1.5,
    }  # fmt: skip
    assert "drop=0.09, block=2, alpha=1.5" in str(load(path))


def test_the_image_size_is_stored_where_the_weights_depend_on_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for name, size, stored in (
        ("mnistnet", (28, 28), None),
        ("mnistnet", (20, 33), [20, 33]),
        ("resnet18", (9, 9), None),
    ):
        spec = ModelSpec.model_validate({"name": name, "width": 8})
        model = build_from_spec(spec, 1, 10, image_size=size).eval()
        save_weights(path, model, spec, in_channels=1, classes="0123456789", data="digits")
        assert read_tensors(path)[1].get("image_size") == stored
        x = torch.rand(2, 1, *size)
        assert torch.equal(load(path)(x), model(x))


@pytest.mark.parametrize("size", [[28], "28", [4, 4], None])
def test_an_impossible_image_size_in_a_file_is_refused(file: Path, size: object) -> None:
    tensors, metadata = read_tensors(file)
    write_tensors(file, tensors, {**metadata, "image_size": size})
    with pytest.raises(RunError, match="holds no network that this version can build"):
        load(file)


def test_networks_are_built_in_channels_last() -> None:
    convolutions = [p for p in build_from_spec(ModelSpec(width=8), 3, 10).parameters() if p.dim() == 4]
    assert len(convolutions) == 4
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in convolutions)


def test_a_run_directory_is_resolved_to_its_weights_file(file: Path) -> None:
    assert weights_path(file.parent) == file
    assert weights_path(str(file)) == file


def test_paths_without_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nothing at .*none: give a run directory or a weights file"):
        load(tmp_path / "none")
    with pytest.raises(RunError, match=r"is not a run directory: it has no spec\.json"):
        load(tmp_path)
    RunDirectory(tmp_path).write_spec(TrainSpec())
    with pytest.raises(RunError, match="is not finished: ctrobust train --resume --out "):
        load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", {"name": "lenet"}),
        ("model", {"depth": 3}),
        ("model", 3),
        ("model", {"width": 10}),
        ("num_classes", 11),
        ("num_classes", "ten"),
        ("in_channels", 3),
        ("in_channels", None),
        ("model", {"width": 10**6}),
        ("num_classes", 10**15),
        ("classes", "0123456789"),
        ("sha257", "0" * 64),
    ],
)
def test_metadata_that_does_not_fit_the_weights_is_refused(file: Path, key: str, value: object) -> None:
    tensors, metadata = read_tensors(file)
    write_tensors(file, tensors, {**metadata, key: value})
    with pytest.raises(RunError, match=r"model\.safetensors holds no network that this version can build"):
        load(file)


@pytest.mark.parametrize("key", ["model", "in_channels", "num_classes"])
def test_incomplete_metadata_is_refused(file: Path, key: str) -> None:
    tensors, metadata = read_tensors(file)
    del metadata[key]
    write_tensors(file, tensors, metadata)
    with pytest.raises(RunError, match=f"holds no network that this version can build: {key}: Field required"):
        load(file)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps({"model": 1}))
    with pytest.raises(RunError, match=r"model\.pt is not a whole safetensors file"):
        load(path)
    torch.save(network().state_dict(), path)
    with pytest.raises(RunError, match=r"model\.pt is not a safetensors file; torch\.save wrote it"):
        load(path)


def without_checksum(file: Path) -> bytes:
    """Write a weights file as earlier versions did."""
    tensors, metadata = read_tensors(file)
    safetensors.torch.save_file(tensors, file, {"ctrobust": json.dumps(metadata)})
    return file.read_bytes()


def with_flipped_bit(content: bytes) -> bytes:
    """Change the lowest bit of the last byte, which belongs to a tensor."""
    return content[:-1] + bytes([content[-1] ^ 1])


def test_a_flipped_bit_is_found_by_the_checksum_in_the_file(file: Path) -> None:
    file.write_bytes(with_flipped_bit(file.read_bytes()))
    with pytest.raises(RunError, match=r"model\.safetensors is not a whole safetensors file: its checksum .* a copy"):
        load(file)
    RunDirectory(file.parent).write_spec(TrainSpec())
    with pytest.raises(RunError, match=rf"its checksum .*; ctrobust train --resume --out {file.parent} writes it"):
        load(file)


def test_weights_of_an_earlier_version_are_verified_by_the_record_of_their_run(file: Path) -> None:
    content, run = without_checksum(file), RunDirectory(file.parent)
    run.write_spec(TrainSpec())
    found = {"spec": spec_hash(TrainSpec()), "weights_sha256": hashlib.sha256(content).hexdigest()}
    run.write_record(record().model_copy(update=found))
    x = torch.rand(2, 1, 28, 28)
    assert torch.equal(load(run.path)(x), network().eval()(x))
    file.write_bytes(with_flipped_bit(content))
    for path in (run.path, file):
        with pytest.raises(RunError, match=r"is not the file that training wrote: .* --resume --out .* writes it"):
            load(path)
    elsewhere = file.with_name("elsewhere.safetensors")
    elsewhere.write_bytes(content)  # nothing is known of it
    assert torch.equal(load(elsewhere)(x), network().eval()(x))
