"""Standard output and standard error: if they cannot be written, the work goes on without them.

A full disk, a closed descriptor or a reader that has gone (`ctrobust list attacks | head -1`) is recorded; what is
printed from then on goes nowhere.
"""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator


class TolerantStream(io.TextIOWrapper):
    """A text stream that records its first error instead of raising it; text that its encoding lacks is escaped.

    Attributes:
        failure: why the stream cannot be written, if it cannot.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(
            stream.buffer, stream.encoding, errors="backslashreplace", line_buffering=stream.line_buffering
        )  # fmt: skip
        self.failure: OSError | None = None

    @property
    def reader_has_gone(self) -> bool:
        return self.failure is not None and self.failure.errno == errno.EPIPE

    def write(self, text: str) -> int:
        try:
            super().write(text)
        except OSError as error:
            self._fail(error)
        return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Send what is buffered and all that follows nowhere, so that Python does not complain when it exits."""
        self.failure = self.failure or error
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)


@contextlib.contextmanager
def tolerant_streams() -> Iterator[TolerantStream | None]:
    """Make both standard streams tolerant for a while, and yield standard output."""
    before = sys.stdout, sys.stderr
    tolerant = [TolerantStream(stream) if isinstance(stream, io.TextIOWrapper) else None for stream in before]
    sys.stdout, sys.stderr = tolerant[0] or before[0], tolerant[1] or before[1]
    try:
        yield tolerant[0]
    finally:
        sys.stdout, sys.stderr = before
        for stream in filter(None, tolerant):
            stream.detach()
