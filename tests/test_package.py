import re
import subprocess
import sys
import types
from importlib.metadata import distribution
from pathlib import Path

import pytest

import ctrobust as ct


@pytest.mark.parametrize("name", [name for name in ct.__all__ if name not in ("__version__", "evaluate", "load")])
def test_rooms_are_reachable(name: str) -> None:
    room = getattr(ct, name)
    assert isinstance(room, types.ModuleType)
    assert room.__name__ == f"ctrobust.{name}"


def test_rooms_and_functions_are_reachable_at_once() -> None:
    """In a fresh process, where nothing has imported them yet."""
    program = """
import sys
import ctrobust as ct
assert "torch" not in sys.modules
loss, attack = ct.losses.sce, ct.attacks.PGD(eps=8 / 255)
model = ct.models.build("mnistnet", num_classes=10, in_channels=1)
print(attack, loss.__name__, ct.evaluate.__name__, ct.load.__name__, *ct.data.DATASETS, model.num_classes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["pgd:eps=8/255", "sce", "evaluate", "load", *ct.data.DATASETS, "10"]


def test_functions_are_those_of_their_rooms() -> None:
    assert ct.evaluate is ct.evaluation.evaluate
    assert ct.load is ct.models.load


def test_dir_names_what_is_public() -> None:
    assert {"attacks", "data", "evaluate", "load", "losses", "models", "__version__"} <= set(dir(ct))
    assert set(dir(ct)) == set(ct.__all__)
    assert all(getattr(ct, name) is not None for name in dir(ct))


@pytest.mark.parametrize("name", ["atacks", "cli_", "evaluate_each", "torch"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'ctrobust' has no attribute '{name}'"):
        getattr(ct, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'ctrobust'"):
        exec(f"from ctrobust import {name}")


def test_the_installed_package_is_typed_and_of_one_version() -> None:
    installed = distribution("ctrobust")
    assert (Path(ct.__file__).parent / "py.typed").is_file()
    assert installed.version == ct.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", ct.__version__)
    (script,) = [entry for entry in installed.entry_points if entry.group == "console_scripts"]
    assert (script.name, script.value) == ("ctrobust", "ctrobust.__main__:main")
