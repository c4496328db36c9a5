"""A Markdown page whose marked tables are filled from stored runs; the text around them is written by hand.

A table is the lines between two comments. The first names its kind and holds its fields as TOML:

    <!-- table: accuracies
    runs = ["fashion-dropout", "fashion-mdl"]
    -->
    ... these lines are replaced ...
    <!-- end of table -->

The kinds are those of `run_tables.TABLE_KINDS`. A comment above the tables names the attacks that are their columns:

    <!-- attacks
    FGSM = {attack = "fgsm:eps=8/255", images = 1000}
    -->

A table of accuracies or paired tests may have columns of its own: a field `attacks` with the same entries.
"""

import re
import tomllib
from dataclasses import replace
from typing import Any

from ctrobust.errors import InputError
from ctrobust.reporting.run_tables import OPTIONAL_FIELDS, TABLE_FIELDS, TABLE_KINDS, AttackColumn, RunTables
from ctrobust.store import Store

END = "<!-- end of table -->"
TYPE_NAMES = {list: "a list", str: "a text", int: "a number", dict: "a table"}
_ATTACKS = re.compile(r"<!-- attacks\n(.*?)\n?-->", re.DOTALL)
_TABLE = re.compile(rf"(<!-- table: ([^\n]*?)\n(.*?)\n?-->\n)(.*?)({re.escape(END)})", re.DOTALL)
_MARK = re.compile(r"<!-- (?:table\b|end of table|attacks\b)")


def fill_page(text: str, store: Store) -> str:
    """Replace the marked tables of a page by tables of stored runs."""
    whole = list(_TABLE.finditer(text)) + list(_ATTACKS.finditer(text))
    for mark in _MARK.finditer(text):
        if not any(one.start() <= mark.start() < one.end() for one in whole):
            line = text[mark.start() :].partition("\n")[0]
            raise InputError(
                f"line {_line(text, mark.start())}: {line!r} does not belong to a table; a table is "
                f"'<!-- table: KIND', its fields as TOML, '-->', lines that are replaced, and '{END}'"
            )
    tables = RunTables(store, _attack_columns(text))

    def filled(match: re.Match[str]) -> str:
        opening, kind, fields, _, end = match.groups()
        where = f"line {_line(text, match.start())}, table {kind.strip()!r}"
        lines = _make(tables, kind.strip(), _toml(fields, where), where)
        return "\n".join([f"{opening}", *lines, "", end])

    return _TABLE.sub(filled, text)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: its fields are not TOML: {error}") from None


def _attack_columns(text: str) -> tuple[AttackColumn, ...]:
    found = _ATTACKS.search(text)
    if found is None:
        return ()
    where = f"line {_line(text, found.start())}, attacks"
    return _columns(_toml(found[1], where), where)


def _columns(attacks: dict[str, Any], where: str) -> tuple[AttackColumn, ...]:
    columns = []
    for title, fields in attacks.items():
        if not isinstance(fields, dict) or {key: type(value) for key, value in fields.items()} != {
            "attack": str,
            "images": int,
        }:
            raise InputError(f"{where}: {title} is {fields!r}; it must be {{attack = TEXT, images = NUMBER}}")
        columns.append(AttackColumn(title, fields["attack"], fields["images"]))
    return tuple(columns)


def _make(tables: RunTables, kind: str, fields: dict[str, Any], where: str) -> list[str]:
    if kind not in TABLE_KINDS:
        raise InputError(f"{where}: unknown kind; known: {', '.join(TABLE_KINDS)}")
    allowed = TABLE_FIELDS[kind]
    required = {name for name in allowed if name not in OPTIONAL_FIELDS}
    wrong = [name for name, value in fields.items() if not isinstance(value, allowed.get(name, ()))]
    if wrong or not required <= fields.keys():
        expected = ", ".join(
            f"{name} ({TYPE_NAMES[type_]}{', optional' if name in OPTIONAL_FIELDS else ''})"
            for name, type_ in allowed.items()
        )
        raise InputError(f"{where}: its fields are {', '.join(fields) or 'none'}; they must be {expected}")
    if not all(isinstance(text, str) for text in fields.get("only", ())):
        raise InputError(f"{where}: only is a list of texts, got {fields['only']!r}")
    if "attacks" in fields:
        tables = replace(tables, attacks=_columns(fields["attacks"], where))
    try:
        return TABLE_KINDS[kind](tables, **{name: value for name, value in fields.items() if name != "attacks"})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
