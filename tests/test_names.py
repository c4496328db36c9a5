"""Names: each is used for one thing, and all are words of the field."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import ctrobust

PACKAGE = Path(ctrobust.__file__).parent

PRIVATE_WORDS = {
    "ascent", "claim", "climb", "customary", "fallen", "fell", "forget", "grey", "judge", "keeper", "laid", "note",
    "notebook", "notes", "own", "parts", "passes", "quick", "says", "settle", "standing", "stands", "stood", "tell",
    "telling", "told", "victim", "watching", "wishes", "withstood",
}  # fmt: skip
"""Words that readers of this field would have to learn first, with plain replacements in the style guide."""


SAID_BY_THE_MODULE = {"compare", "evaluate", "load", "main", "train"}
"""Functions that share a name because their modules say the rest, such as `data.load` and `models.load`."""


class Defined(NamedTuple):
    """A name that a module defines."""

    kind: str
    name: str
    module: str


def defined(source: str, module: str) -> Iterator[Defined]:
    """The modules, classes, functions, arguments and attributes that a source defines."""
    yield Defined("module", module.rpartition(".")[2], module)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield Defined("class", node.name, module)
        elif isinstance(node, ast.FunctionDef):
            yield Defined("function", node.name, module)
            for argument in (*node.args.args, *node.args.kwonlyargs):
                yield Defined("argument", argument.arg, module)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield Defined("attribute", node.attr, module)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Defined("attribute", node.target.id, module)
    for statement in ast.parse(source).body:
        for target in _targets(statement):
            yield Defined("registry" if target.isupper() else "attribute", target, module)


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a module-level statement assigns a literal dict to, or any value in lower case."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        names, value = [statement.target.id], statement.value
    elif isinstance(statement, ast.Assign):
        names, value = [one.id for one in statement.targets if isinstance(one, ast.Name)], statement.value
    else:
        return []
    return [name for name in names if not name.isupper() or isinstance(value, ast.Dict)]


def words(name: str) -> list[str]:
    """The words of an identifier.

    words("PGDState_of") is ["pgd", "state", "of"].
    """
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower())


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        pieces = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(["ctrobust", *pieces]), path.read_text(encoding="utf-8")


def everything() -> list[Defined]:
    return [one for module, text in sources() for one in defined(text, module)]


def repeated(found: list[Defined], kind: str) -> dict[str, list[str]]:
    """Names of a kind that are defined in more than one module."""
    modules: dict[str, set[str]] = defaultdict(set)
    for one in found:
        if one.kind == kind and one.name not in ("__init__", "__main__"):
            modules[one.name].add(one.module)
    return {name: sorted(where) for name, where in modules.items() if len(where) > 1}


def private(found: list[Defined]) -> set[Defined]:
    return {one for one in found if PRIVATE_WORDS.intersection(words(one.name))}


def test_a_class_name_occurs_once() -> None:
    assert repeated(everything(), "class") == {}


def test_a_registry_name_occurs_once() -> None:
    assert repeated(everything(), "registry") == {}


def test_a_module_name_occurs_once() -> None:
    assert repeated(everything(), "module") == {}


def test_a_public_function_name_occurs_once_where_the_module_does_not_say_the_rest() -> None:
    functions: dict[str, set[str]] = defaultdict(set)
    for module, text in sources():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                functions[node.name].add(module)
    assert {name for name, modules in functions.items() if len(modules) > 1} <= SAID_BY_THE_MODULE


def test_no_private_words_in_names() -> None:
    assert private(everything()) == set()


def test_the_checks_find_what_they_look_for() -> None:
    first = list(defined("RECIPES = {'a': 1}\nLIMIT = 3\nclass Run:\n    fell: int\n", "ctrobust.a.run"))
    second = list(
        defined("RECIPES: dict[str, int] = {}\nclass Run: ...\ndef tell_all(quick=1): self.own = 2", "ctrobust.b.run")
    )
    assert repeated([*first, *second], "class") == {"Run": ["ctrobust.a.run", "ctrobust.b.run"]}
    assert set(repeated([*first, *second], "registry")) == {"RECIPES"}
    assert set(repeated([*first, *second], "module")) == {"run"}
    assert {one.name for one in private([*first, *second])} == {"fell", "tell_all", "quick", "own"}
    assert words("PGDState_of2x") == ["pgd", "state", "of2x"]
