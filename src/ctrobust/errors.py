"""Exceptions, one class per exit code of the command line."""


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


class JobsFailedError(CtrobustError):
    """Some jobs of a command failed, or a verification did; the others are done and stored."""

    exit_code = 6
