"""Downloading one file: there whole and with the right contents, or not at all."""

import hashlib
import http.client
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

from ctrobust._version import __version__
from ctrobust.data.sources import Remote
from ctrobust.errors import DataError

DownloadProgress = Callable[[int, int | None], None]
"""Told how many bytes have come, and of how many."""

TIMEOUT = 30.0  # seconds without any byte
PATIENCE, SLOWEST = 60.0, 1024  # after so many seconds, fewer bytes a second than this are given up
_CHUNK = 1 << 16


def download(remote: Remote, target: Path, progress: DownloadProgress | None = None) -> None:
    """Downloads a file beside its target, checks it, and renames it; what was there before stays if anything fails.

    The server is not trusted: at most the expected size is read, at a pace that has a lower limit.

    Args:
        remote: what to download.
        target: where to; its folder exists.
        progress: told after each part. It goes back to zero where a second address is tried.

    Raises:
        DataError: no address gave the file. The message says why, and where to put the file by hand.
        OSError: the file cannot be written.
    """
    failures = []
    for url in remote.urls:
        try:
            with replacing(target) as file:
                _receive(url, remote, file, progress)
        except _RefusedError as error:
            failures.append(f"  {url}: {error}")
        else:
            return
    raise DataError(
        f"{remote.name} could not be downloaded:\n" + "\n".join(failures) + f"\nPut it by hand at {target} "
        f"({remote.size:,} bytes, SHA-256 {remote.sha256})"
    )


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target, renamed over it at the end and removed if that is not reached."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()  # gone already when it was renamed


class _RefusedError(Exception):
    """What came, if anything came, is not what was expected."""


def _receive(url: str, remote: Remote, file: IO[bytes], progress: DownloadProgress | None) -> None:
    digest, received, began = hashlib.sha256(), 0, time.monotonic()
    with closing(_stream(url, remote.size)) as chunks:
        for chunk in chunks:
            received += len(chunk)
            if received > remote.size:
                raise _RefusedError(f"more than the expected {remote.size} bytes came")
            digest.update(chunk)
            file.write(chunk)
            if progress is not None:
                progress(received, remote.size)
            elapsed = time.monotonic() - began
            if elapsed > PATIENCE and received < elapsed * SLOWEST:
                raise _RefusedError(f"only {received} bytes came in {elapsed:.0f} seconds")
    if received < remote.size:
        raise _RefusedError(f"cut off after {received} bytes, expected {remote.size}")
    if digest.hexdigest() != remote.sha256:
        raise _RefusedError(f"the SHA-256 is {digest.hexdigest()}, expected {remote.sha256}")


def _stream(url: str, size: int) -> Generator[bytes, None, None]:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": f"ctrobust/{__version__}"})  # noqa: S310
        with _opener().open(request, timeout=TIMEOUT) as response:
            announced = response.headers.get("Content-Length")
            if announced is not None and announced.strip() != str(size):
                raise _RefusedError(f"{announced[:30]} bytes are announced, expected {size}")
            while chunk := response.read1(_CHUNK):  # what is there, not a full chunk: a slow server is noticed
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise _RefusedError(f"the server answers {error.code} {error.reason}") from error
    except (http.client.HTTPException, OSError, ValueError) as error:  # URLError is an OSError
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise _RefusedError(f"nothing came for {TIMEOUT:g} seconds") from error
        raise _RefusedError(str(reason) or type(error).__name__) from error


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https, also after a redirection, and nothing else: not file, not ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
