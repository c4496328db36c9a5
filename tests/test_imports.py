"""The rooms of the package, and which of them may know which: read from the sources, imports in functions included."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ctrobust

PACKAGE = Path(ctrobust.__file__).parent

LEAVES = {"_version", "argument_checks", "array_archive", "draws", "errors", "model_outputs", "regular_file"}

ARROWS: dict[str, set[str]] = {
    "specs": set(),
    "outcomes": set(),
    "data": set(),
    "losses": set(),
    "regularizers": set(),
    "store": {"specs", "outcomes"},
    "models": {"regularizers", "store", "specs"},
    "attacks": {"losses", "specs"},
    "evaluation": {"attacks", "data", "outcomes", "losses", "models"},
    "recipes": {"attacks", "losses"},
    "training": {
        "recipes", "models", "data", "evaluation", "store", "specs", "losses", "regularizers", "outcomes",
    },
    "experiments": {"specs"},
    "execution": {
        "specs", "outcomes", "data", "losses", "regularizers", "models", "attacks", "evaluation", "recipes", "store",
        "training", "experiments",
    },
    "reporting": {"experiments", "store", "outcomes", "specs"},
    "cli": {"specs", "data", "execution", "training", "store", "outcomes", "experiments", "reporting"},
    "__main__": {"cli"},
    "__init__": set(),
}  # fmt: skip
"""Room -> the rooms that it may import."""

WITHOUT_TORCH = {
    "specs",
    "outcomes",
    "store",
    "experiments",
    "reporting",
    "cli",
    "errors",
    "argument_checks",
    "_version",
    "__main__",
    "__init__",
}
"""Rooms that load no torch when they are imported; the command line imports it inside its commands."""

USER_MODELS = "ctrobust.models.user_model"
"""Imports the factory that the user names on the command line, and reads a state dict by torch's restricted loader."""
LAZY_PACKAGES = {"ctrobust", "ctrobust.execution"}
"""Packages that import their modules when a name is first used."""

TYPES_ONLY: dict[str, set[str]] = {
    "__init__": set(ARROWS) - {"cli", "execution"},
}
"""Room -> the rooms that it may import besides under `if TYPE_CHECKING:`."""

UNPICKLERS = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve", "yaml"}
"""Modules that can run what a file says."""


class Import(NamedTuple):
    """One imported module, absolute."""

    module: str
    types_only: bool
    line: int


def room_of(module: str) -> str:
    """The room of a module of this package; what the package itself defines belongs to `__init__`."""
    name = [*module.split("."), "__init__"][1]
    return name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() else "__init__"


def imports(source: str, module: str, *, package: bool = False) -> Iterator[Import]:
    """All imports of a module's source, wherever they stand."""
    tree = ast.parse(source)
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            own = module.split(".") if package else module.split(".")[:-1]
            above = own[: len(own) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" if base == "ctrobust" else base for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            first = node.args[0]
            names = [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else ["?"]
        for name in names:
            yield Import(name, id(node) in typed, getattr(node, "lineno", 0))


def wrong_arrows(source: str, module: str, *, package: bool = False) -> list[str]:
    """The imports of a source that the table does not allow."""
    room = room_of(module)
    found = []
    for name, types_only, line in imports(source, module, package=package):
        if name == "?" and module not in {*LAZY_PACKAGES, USER_MODELS}:
            found.append(f"{module}:{line} imports a module by a computed name")
        if name.split(".")[0] != "ctrobust":
            continue
        target = room_of(name)
        allowed = {"errors"} if room in LEAVES else {room} | LEAVES | ARROWS[room]
        if types_only:
            allowed |= TYPES_ONLY.get(room, set())
        if target not in allowed:
            found.append(f"{module}:{line} {room} -> {target}")
    return found


def dangerous(source: str, module: str) -> list[str]:
    """What could run code that a file holds."""
    found = [
        f"{module}:{line} imports {name}"
        for name, _, line in imports(source, module)
        if name.split(".")[0] in UNPICKLERS
    ]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "torch":
            found += [f"{module}:{node.lineno} torch.load" for alias in node.names if alias.name == "load"]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            unsafe = called in ("torch.load", "eval", "exec", "compile")
            if called == "torch.load" and module == USER_MODELS:
                unsafe = "weights_only=True" not in [ast.unparse(keyword) for keyword in node.keywords]
            if called in ("np.load", "numpy.load"):
                unsafe = "allow_pickle=False" not in [ast.unparse(keyword) for keyword in node.keywords]
            if unsafe:
                found.append(f"{module}:{node.lineno} {called}")
    return found


def sources() -> Iterator[tuple[str, bool, str]]:
    """Module name, whether it is a package, and source, of all that is installed."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["ctrobust", *path.relative_to(PACKAGE).with_suffix("").parts]
        package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if package else parts), package, path.read_text(encoding="utf-8")


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(module) for module, _, _ in sources()}
    assert rooms == set(ARROWS) | LEAVES


def test_rooms_know_only_whom_they_may() -> None:
    assert [arrow for name, package, text in sources() for arrow in wrong_arrows(text, name, package=package)] == []


def test_nothing_runs_what_a_file_says() -> None:
    assert [call for name, _, text in sources() for call in dangerous(text, name)] == []


def test_rooms_without_torch_import_none() -> None:
    """Where a module is read, imports inside functions included; only commands import torch, when they are called."""
    found = [
        f"{name}:{one.line} {one.module}"
        for name, package, text in sources()
        if room_of(name) in WITHOUT_TORCH - {"cli"}
        for one in imports(text, name, package=package)
        if one.module.split(".")[0] in ("torch", "torchvision", "lightning_fabric", "safetensors")
    ]
    assert found == []


@pytest.mark.parametrize("module", ["", *(f".{name}" for name in ("cli", "specs", "outcomes", "store", "experiments"))])
def test_importing_loads_no_torch(module: str) -> None:
    name = f"ctrobust{module}"
    program = (
        f"import sys, {name}; print({name!r} in sys.modules, 'torch' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "False", "False"]


@pytest.mark.parametrize(
    ("module", "source", "arrows"),
    [
        ("ctrobust.losses.sce", "from ctrobust.errors import InputError\nfrom ctrobust.losses.std import std", []),
        ("ctrobust.losses.sce", "from ctrobust.attacks import PGD", ["losses -> attacks"]),
        ("ctrobust.losses.sce", "import ctrobust.attacks.pgd as p", ["losses -> attacks"]),
        ("ctrobust.losses.sce", "from ctrobust import data, draws, models", ["losses -> data", "losses -> models"]),
        ("ctrobust.losses.sce", "def f():\n    from ctrobust import store", ["losses -> store"]),
        ("ctrobust.losses.sce", "from ..attacks import PGD", ["losses -> attacks"]),
        ("ctrobust.losses.sce", "from .. import attacks", ["losses -> attacks"]),
        ("ctrobust.losses.sce", "from .std import std\nfrom . import kl", []),
        ("ctrobust.losses.sce", "import importlib\nimportlib.import_module('ctrobust.cli')", ["losses -> cli"]),
        ("ctrobust.losses.sce", "__import__(name)", ["imports a module by a computed name"]),
        ("ctrobust.losses.sce", "from ctrobust import evaluate", ["losses -> __init__"]),
        ("ctrobust.errors", "from ctrobust import draws", ["errors -> draws"]),
        ("ctrobust.cli.tables", "from ctrobust.attacks import PGD", ["cli -> attacks"]),
        ("ctrobust.__init__", "if TYPE_CHECKING:\n    from ctrobust.data import Dataset", []),
        ("ctrobust.cli.tables", "if TYPE_CHECKING:\n    from ctrobust.models import load", ["cli -> models"]),
        ("ctrobust.__init__", "if not TYPE_CHECKING:\n    from ctrobust import data", ["__init__ -> data"]),
        ("ctrobust.attacks.pgd", "if TYPE_CHECKING:\n    from ctrobust import models", ["attacks -> models"]),
    ],
)
def test_the_check_finds_wrong_arrows(module: str, source: str, arrows: list[str]) -> None:
    assert [arrow.partition(" ")[2] for arrow in wrong_arrows(source, module)] == arrows


def test_the_check_resolves_a_packages_own_relative_imports() -> None:
    assert wrong_arrows("from .pgd import PGD", "ctrobust.attacks", package=True) == []
    assert wrong_arrows("from ..cli import main", "ctrobust.attacks", package=True) == [
        "ctrobust.attacks:1 attacks -> cli"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from yaml import load",
        "import joblib.numpy_pickle",
        "torch.load(path)",
        "from torch import load",
        "eval(text)",
        "exec(text)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_check_finds_what_runs_files(source: str) -> None:
    assert len(dangerous(source, "m")) == 1


def test_the_check_leaves_harmless_calls_alone() -> None:
    assert dangerous("model.eval()\nre.compile(text)\nnp.load(path, allow_pickle=False)\njson.loads(text)", "m") == []
