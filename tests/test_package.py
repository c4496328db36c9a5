import re
import subprocess
import sys
import tomllib
import types
from importlib.metadata import distribution
from pathlib import Path

import pytest

import ctrobust as ct
from ctrobust import specs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    """The code blocks of the README and the docs in one language."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return found


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


def test_each_python_example_runs_by_itself(tmp_path: Path) -> None:
    """Each block of the README and the docs in a namespace of its own, without a warning."""
    found = blocks("python")
    assert len(found) >= 8
    (tmp_path / "results").symlink_to(ROOT / "results")
    program = f"for block in {found!r}:\n    print(block)\n    exec(block, {{}})\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_spec_files_in_the_docs_are_specs() -> None:
    found = blocks("toml")
    assert len(found) >= 2
    for block in found:
        assert specs.train_spec(tomllib.loads(block)) != specs.TrainSpec()
