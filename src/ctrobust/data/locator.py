"""Names of data sets that say where they lie: `KIND:PATH` or `KIND:PATH?option=value&option=value`."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ctrobust.data.locate import expand
from ctrobust.errors import InputError


@dataclass(frozen=True)
class Locator:
    """A data set's name taken apart.

    Args:
        name: as it was given.
        path: where the data lie; `~` is the home folder, a relative path starts at the working directory.
        options: what follows the last `?`, where that holds a `=`.
    """

    name: str
    path: Path
    options: dict[str, str]


def parse_locator(name: str, allowed: Collection[str] = ()) -> Locator:
    """Takes a name apart.

    Raises:
        InputError: the path is missing, or an option is unknown, given twice or without a value.

    Example:
        >>> parse_address("folder:/data/cats?size=64", ["size"])
        Address(name='folder:/data/cats?size=64', path=PosixPath('/data/cats'), options={'size': '64'})
    """
    kind, _, rest = name.partition(":")
    where, mark, tail = rest.rpartition("?")
    if not mark or "=" not in tail:
        where, tail = rest, ""
    if not where or "\0" in where:
        raise InputError(f"{name!r}: expected a path, as in {kind}:PATH")
    options: dict[str, str] = {}
    for part in filter(None, tail.split("&")):
        key, _, value = part.partition("=")
        if key not in allowed:
            known = f"Allowed: {', '.join(allowed)}" if allowed else "None is allowed"
            raise InputError(f"{name!r}: unknown option {key!r}. {known}")
        if not value or key in options:
            raise InputError(f"{name!r}: option {key!r} is given {'twice' if key in options else 'no value'}")
        options[key] = value
    return Locator(name, expand(where), options)
