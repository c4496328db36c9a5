"""Exceptions, one class per exit code of the command line, and the hint in their messages about unknown names."""

import difflib
from collections.abc import Iterable


class CtrobustError(Exception):
    """The base of all errors that this package raises; the message states what was found and what is allowed."""

    exit_code = 1


class InputError(CtrobustError, ValueError):
    """A tensor, model or value passed by the caller is not allowed."""

    exit_code = 2


class SpecError(CtrobustError, ValueError):
    """A specification names an unknown key or an impossible value."""

    exit_code = 3


class DataError(CtrobustError):
    """A data set is missing, damaged, or not of the documented format."""

    exit_code = 4


class RunError(CtrobustError):
    """A run directory cannot be read, written or resumed."""

    exit_code = 5


class InUseError(RunError):
    """Another process makes the same result now; it can be asked for again later."""


class JobsFailedError(CtrobustError):
    """Some jobs of a command failed, or a verification did; the others are done and stored."""

    exit_code = 6


class WorkerStartError(CtrobustError):
    """Worker processes cannot start: the environment, the cluster or its address is wrong."""

    exit_code = 2


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar known name, and all known names.

    Example:
        >>> closest("pdg", ["fgsm", "pgd"])
        "did you mean 'pgd'? known: fgsm, pgd"
    """
    names = list(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    return f"{f'did you mean {near[0]!r}? ' if near else ''}known: {', '.join(names)}"
