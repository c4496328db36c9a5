"""Networks from a factory that the user names, with weights as safetensors or as a state dict."""

import hashlib
import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from ctrobust.errors import InputError, RunError
from ctrobust.models.user_model import read_state_dict, user_model

SOURCE = """
import torch
from torch import nn

def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))

def not_a_network():
    return 3

def failing():
    raise OSError("no such file")

number = 7
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the working directory, new for each test."""
    name = f"nets_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"1.weight": torch.randn(3, 4, generator=generator), "1.bias": torch.randn(3, generator=generator)}


@pytest.mark.parametrize("form", ["safetensors", "plain", "nested", "parallel"])
def test_weights_in_every_form(nets: str, weights: dict[str, torch.Tensor], form: str, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    match form:
        case "safetensors":
            safetensors.torch.save_file(weights, file)
        case "plain":
            torch.save(weights, file)
        case "nested":
            torch.save({"epoch": 3, "state_dict": weights}, file)
        case "parallel":
            torch.save({f"module.{name}": value for name, value in weights.items()}, file)
    found = user_model(f"{nets}:linear", file)
    assert torch.equal(found.build().state_dict()["1.weight"], weights["1.weight"])
    assert not found.model.training


def test_the_hash_depends_on_weights_factory_and_normalization(
    nets: str, weights: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    for name, scale in (("a", 1.0), ("b", 2.0)):
        safetensors.torch.save_file({key: scale * value for key, value in weights.items()}, tmp_path / name)
    plain, again, other = (user_model(f"{nets}:linear", tmp_path / name) for name in ("a", "a", "b"))
    normalized = user_model(f"{nets}:linear", tmp_path / "a", [0.5], [0.25])
    assert plain.sha256 == again.sha256
    assert len({plain.sha256, other.sha256, normalized.sha256}) == 3


def test_normalization_comes_before_the_network(nets: str, weights: dict[str, torch.Tensor], tmp_path: Path) -> None:
    safetensors.torch.save_file(weights, tmp_path / "w")
    x = torch.rand(5, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    plain = user_model(f"{nets}:linear", tmp_path / "w").build()
    normalized = user_model(f"{nets}:linear", tmp_path / "w", [0.5], [0.25]).build()
    torch.testing.assert_close(normalized(x), plain((x - 0.5) / 0.25))


class Evil:
    """Runs a command where it is unpickled by a loader that allows it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("run",)


def test_a_malicious_pickle_is_refused_and_runs_nothing(nets: str, tmp_path: Path) -> None:
    torch.save({"state_dict": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pt", "evil.pkl"):
        with pytest.raises(RunError, match=r"is not read: it holds Python objects"):
            user_model(f"{nets}:linear", tmp_path / name)
    assert not (tmp_path / "run").exists()


def test_weights_that_do_not_fit_are_refused(nets: str, weights: dict[str, torch.Tensor], tmp_path: Path) -> None:
    safetensors.torch.save_file({"2.weight": weights["1.weight"]}, tmp_path / "w")
    with pytest.raises(RunError, match=r"does not fit the network of the factory: Missing key"):
        user_model(f"{nets}:linear", tmp_path / "w")
    torch.save({"epoch": 3}, tmp_path / "empty")
    with pytest.raises(RunError, match="holds no state dict; found epoch"):
        read_state_dict(tmp_path / "empty")
    (tmp_path / "text").write_text("not weights")
    with pytest.raises(RunError, match="is not a safetensors file or a state dict"):
        read_state_dict(tmp_path / "text")
    with pytest.raises(RunError, match="there is no such file"):
        read_state_dict(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no_such_module_anywhere:f", "there is no module 'no_such_module_anywhere'"),
        ("{nets}:missing", "has no function 'missing'"),
        ("{nets}:number", "has number as int, not as a function"),
        ("{nets}:not_a_network", "returned int; a factory returns a torch.nn.Module"),
        ("{nets}:failing", r"failed with OSError: no such file; a factory takes no arguments"),
        ("nets", "a factory is package.module:function"),
    ],
)
def test_factories_that_do_not_work_are_refused(nets: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        user_model(text.format(nets=nets))


def test_a_module_that_fails_to_import_is_named(nets: str, tmp_path: Path) -> None:
    (tmp_path / f"{nets}_broken.py").write_text("import no_such_package_here\n")
    with pytest.raises(InputError, match="there is no module 'no_such_package_here'"):
        user_model(f"{nets}_broken:linear")
    (tmp_path / f"{nets}_wrong.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match="failed with ZeroDivisionError"):
        user_model(f"{nets}_wrong:linear")


def test_mean_needs_std(nets: str) -> None:
    with pytest.raises(InputError, match="mean and std are given together"):
        user_model(f"{nets}:linear", mean=[0.5])


def test_the_weights_file_has_a_hash_too(nets: str, weights: dict[str, torch.Tensor], tmp_path: Path) -> None:
    safetensors.torch.save_file(weights, tmp_path / "w")
    found = user_model(f"{nets}:linear", tmp_path / "w")
    assert found.weights_sha256 == hashlib.sha256((tmp_path / "w").read_bytes()).hexdigest()
    assert user_model(f"{nets}:linear").weights_sha256 is None


def test_weights_that_no_file_gives_are_the_same_in_every_process(nets: str) -> None:
    state = torch.random.get_rng_state()
    first = user_model(f"{nets}:linear").sha256
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(7)
    assert user_model(f"{nets}:linear").sha256 == first


def test_a_network_that_stays_in_training_mode_is_refused() -> None:
    with pytest.raises(InputError, match=r"is in training mode after eval\(\); let its method train\(\) follow"):
        user_model("tests.user_networks:always_training")


def test_weights_of_a_run_are_evaluated_with_their_run(tmp_path: Path) -> None:
    tensors = {"normalize.mean": torch.zeros(1), "normalize.std": torch.ones(1)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(RunError, match="was written by ctrobust train; evaluate its run directory, with --model"):
        user_model("tests.user_networks:linear", tmp_path / "model.safetensors")
