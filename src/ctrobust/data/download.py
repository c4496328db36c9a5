"""Downloading a published data set: every file is complete and has the published checksum, or it is not there."""

import gzip
import os
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, cast

from filelock import FileLock

from ctrobust._version import __version__
from ctrobust.data.locate import download_root
from ctrobust.data.published import Download, Published, is_verified
from ctrobust.errors import DataError

DownloadProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received so far and in all."""

TIMEOUT = 30.0  # seconds without any byte
PATIENCE, SLOWEST = 60.0, 1024  # after these seconds, fewer bytes a second than this are refused
_CHUNK = 1 << 16
_LARGEST_OTHER = 1 << 20  # bytes of an archive's member that is skipped, such as a read-me


def fetch_published(
    published: Published, root: Path | str | None = None, progress: DownloadProgress | None = None
) -> Path:
    """Download the missing files of a data set and return its folder.

    Existing files are kept as they are; `check` reports whether they are the published ones. An archive that was put
    into the root by hand is verified and unpacked instead of downloaded. Proxies are taken from the environment.
    """
    folder = download_root(root) / published.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # a second process waits, and then finds the files
            if published.members:
                _fetch_archive(published, folder, progress)
            else:
                _fetch_files(published, folder, progress)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return folder


def _fetch_files(published: Published, folder: Path, progress: DownloadProgress | None) -> None:
    targets = [(file, folder / file.name) for file in published.downloads]
    missing = [(file, path) for file, path in targets if not path.exists() and not path.with_suffix("").exists()]
    total, done = sum(file.size for file, _ in missing), 0
    for file, path in missing:
        download(file, path, progress and partial(_report_sum, progress, done, total))
        done += file.size


def _report_sum(progress: DownloadProgress, done: int, total: int, received: int, _size: int | None) -> None:
    progress(done + received, total)


def _fetch_archive(published: Published, folder: Path, progress: DownloadProgress | None) -> None:
    if all((folder / name).exists() for name in published.members):
        return
    (file,) = published.downloads
    archive = folder.with_name(file.name)
    keep = archive.exists()
    if not keep:
        download(file, archive, progress)
    elif not is_verified(published, archive):
        expected = f"expected {file.size:,} bytes with the SHA-256 {file.sha256}; remove it to download it"
        raise DataError(f"{archive}: {archive.stat().st_size:,} bytes that are not the published ones, {expected}")
    try:
        unpack(archive, folder, published)
    finally:
        if not keep:
            archive.unlink()


def download(file: Download, target: Path, progress: DownloadProgress | None = None) -> None:
    """Download a file from its mirrors in turn through pooch, which checks a temporary file and renames it.

    An existing target is kept if no mirror sends the right file. `progress` starts again at zero for each mirror.
    """
    import pooch  # together with requests a fifth of a second, which only downloads need
    import requests
    import urllib3

    pooch.get_logger().setLevel("WARNING")
    failures = []
    for url in file.urls:
        receive = partial(_receive, size=file.size, progress=progress)
        try:
            pooch.retrieve(url, file.sha256, target.name, target.parent, downloader=receive)
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
            failures.append(f"  {url}: {error}")
        else:
            return
    raise DataError(
        f"{file.name} could not be downloaded:\n" + "\n".join(failures) + f"\nPut it by hand at {target} "
        f"({file.size:,} bytes, SHA-256 {file.sha256})"
    )


def _receive(url: str, output: str, _pooch: object, *, size: int, progress: DownloadProgress | None) -> None:
    """Write a response to pooch's temporary file; unlike pooch's own downloader, bound its size and its duration."""
    import requests

    os.unlink(output)  # only the user may read it; the new file gets the usual permissions
    received, began = 0, time.monotonic()
    headers = {"User-Agent": f"ctrobust/{__version__}", "Accept-Encoding": "identity"}
    with open(output, "xb") as file, requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        response.raise_for_status()
        announced = response.headers.get("Content-Length", str(size))
        if announced != str(size):
            raise ValueError(f"{announced[:30]} bytes are announced, expected {size}")
        while chunk := response.raw.read1(_CHUNK):  # returns what has arrived, so that a slow server is noticed
            received += len(chunk)
            if received > size:
                raise ValueError(f"more than the expected {size} bytes were sent")
            file.write(chunk)
            if progress is not None:
                progress(received, size)
            elapsed = time.monotonic() - began
            if elapsed > PATIENCE and received < elapsed * SLOWEST:
                raise ValueError(f"only {received} bytes were sent in {elapsed:.0f} seconds")
        if received < size:
            raise ValueError(f"cut off after {received} bytes, expected {size}")
        file.flush()
        os.fsync(file.fileno())


def unpack(archive: Path, folder: Path, published: Published) -> None:
    """Write the members of a .tar.gz to the folder of the same name, each atomically. Existing files are kept.

    Nothing else is written: no links, no other paths, no sizes beyond those of `published.members`.
    """
    missing = dict(published.members)
    try:
        with tarfile.open(archive, mode="r|gz") as tar:
            for member in tar:
                parent, _, name = member.name.rpartition("/")
                expected = parent == folder.name and name in missing
                if expected and not member.isreg():
                    raise DataError(f"{archive}: {member.name} is not a regular file")
                largest = missing.pop(name) if expected else _LARGEST_OTHER
                if member.size > largest:
                    found = f"{member.name} of {member.size:,} bytes"
                    raise DataError(f"{archive}: {found}, expected at most {largest:,}")
                if expected and not (folder / name).exists():
                    _extract(tar, member, folder / name)
                if not missing:
                    return
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} is not a .tar.gz archive or is damaged ({error})") from error
    names = ", ".join(f"{folder.name}/{name}" for name in sorted(missing))
    raise DataError(f"{archive}: {names} missing")


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member)
    temporary = target.with_name(f".{target.name}.tmp")  # one process at a time has the folder's lock
    try:
        with temporary.open("wb") as file:
            shutil.copyfileobj(cast("IO[bytes]", content), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
