"""Bringing a published data set onto this machine."""

import hashlib
from pathlib import Path

from filelock import FileLock

from ctrobust.data.download import DownloadProgress, download
from ctrobust.data.locate import download_root
from ctrobust.data.regular_file import open_regular_file
from ctrobust.data.sources import SOURCES, Remote, Source
from ctrobust.data.unpack import unpack
from ctrobust.errors import DataError, InputError


def fetch(name: str, root: Path | str | None = None, progress: DownloadProgress | None = None) -> Path:
    """Downloads what is missing of a data set, with size and checksum verified; every file appears whole or not at all.

    Files that are already there are kept as they are: `check` tells whether they are the published ones. An archive
    that was put into the root by hand is verified and unpacked instead of downloaded. Proxies are taken from the
    environment, as everywhere.

    Args:
        name: a key of `SOURCES`.
        root: where the data set's folder goes, made if need be; `$CTROBUST_DATA`, else the user's cache, by default.
        progress: called with the bytes that have come and that will have come at the end.

    Returns:
        The data set's folder.

    Raises:
        InputError: the data set has no published source.
        DataError: it cannot be downloaded or written. The message says what to put where by hand.
    """
    if name not in SOURCES:
        raise InputError(f"{name!r} cannot be downloaded. Allowed: {', '.join(sorted(SOURCES))}")
    source, place = SOURCES[name], download_root(root)
    folder = place / source.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # who comes second finds the files
            if source.members:
                _fetch_archive(source, folder, progress)
            else:
                _fetch_files(source, folder, progress)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return folder


def _fetch_files(source: Source, folder: Path, progress: DownloadProgress | None) -> None:
    missing = [
        remote
        for remote in source.files
        if not (folder / remote.name).exists() and not (folder / remote.name).with_suffix("").exists()
    ]
    total, done = sum(remote.size for remote in missing), 0
    for remote in missing:
        download(remote, folder / remote.name, _shifted(progress, done, total))
        done += remote.size


def _fetch_archive(source: Source, folder: Path, progress: DownloadProgress | None) -> None:
    if all((folder / name).exists() for name in source.members):
        return
    (remote,) = source.files
    archive = folder.with_name(remote.name)
    brought = archive.exists()
    if brought:
        _verify(archive, remote)
    else:
        download(remote, archive, progress)
    try:
        unpack(archive, folder, source.members)
    finally:
        if not brought:
            archive.unlink(missing_ok=True)


def _verify(path: Path, remote: Remote) -> None:
    with open_regular_file(path, "an archive") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != remote.sha256:
        expected = f"expected {remote.size:,} bytes with {remote.sha256}; remove it to download it"
        raise DataError(f"{path}: {path.stat().st_size:,} bytes with the SHA-256 {digest}, {expected}")


def _shifted(progress: DownloadProgress | None, done: int, total: int) -> DownloadProgress | None:
    if progress is None:
        return None
    return lambda received, _size: progress(done + received, total)
